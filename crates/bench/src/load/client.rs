//! One request to a server, timed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::{
    codec::{FramedRead, LinesCodec},
    io::StreamReader,
};

use super::request::Request;

/// Longest line of a stream that is read, in bytes.
const LONGEST_LINE: usize = 16 << 20;

/// A server's completions.
pub(super) struct Target {
    pub client: Client,
    /// With `/v1`.
    pub base: String,
    pub api_key: Option<String>,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Done(Answer),
    /// The client went away, as it was meant to.
    HungUp,
    /// The server had no room: 429.
    Refused,
    /// Anything else, in words.
    Failed(String),
}

/// An answer. Times are since the request was due.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// Only of streams.
    pub first_token: Option<Duration>,
    /// Between chunks of a stream that carry text.
    pub gaps: Vec<Duration>,
    pub total: Duration,
    pub usage: Usage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Usage {
    pub prompt_tokens: u64,
    #[serde(default)]
    pub completion_tokens: u64,
    #[serde(default)]
    pub prompt_tokens_details: Option<Details>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Details {
    #[serde(default)]
    pub cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    text: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

impl Target {
    /// The first model that the server names.
    pub(super) async fn first_model(&self) -> Result<String> {
        let request = self.client.get(format!("{}/models", self.base));
        let response = self.with_key(request).send().await?.error_for_status()?;
        let models: Models = response.json().await?;
        let first = models
            .data
            .into_iter()
            .next()
            .context("the server names no model")?;
        Ok(first.id)
    }

    /// Sends a request that was due at `due` and reads its answer.
    pub(super) async fn ask(&self, request: Request, due: Instant) -> Outcome {
        let Some(patience) = request.hangs_up else {
            return self.answer(&request, due).await;
        };
        match timeout(patience, self.answer(&request, due)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::HungUp,
        }
    }

    async fn answer(&self, request: &Request, due: Instant) -> Outcome {
        let post = self
            .client
            .post(format!("{}/completions", self.base))
            .json(&request.body);
        let response = match self.with_key(post).send().await {
            Ok(response) => response,
            Err(error) => return failed(&error),
        };
        match response.status() {
            StatusCode::OK => {}
            StatusCode::TOO_MANY_REQUESTS => return Outcome::Refused,
            status => return Outcome::Failed(format!("status {}", status.as_u16())),
        }
        let answer = if request.stream {
            streamed(response, due).await
        } else {
            whole(response, due).await
        };
        answer.map_or_else(|error| Outcome::Failed(format!("{error:#}")), Outcome::Done)
    }

    fn with_key(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.api_key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }
}

fn failed(error: &reqwest::Error) -> Outcome {
    let kind = if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "the connection broke"
    };
    Outcome::Failed(kind.to_owned())
}

async fn whole(response: Response, due: Instant) -> Result<Answer> {
    let body = response.bytes().await.context("the answer broke off")?;
    let chunk: Chunk<'_> = serde_json::from_slice(&body).context("the answer is no completion")?;
    Ok(Answer {
        total: due.elapsed(),
        usage: chunk.usage.context("the answer has no usage")?,
        ..Answer::default()
    })
}

async fn streamed(response: Response, due: Instant) -> Result<Answer> {
    let bytes = response.bytes_stream().map_err(std::io::Error::other);
    let mut lines = FramedRead::new(
        StreamReader::new(bytes),
        LinesCodec::new_with_max_length(LONGEST_LINE),
    );
    let (mut answer, mut last) = (Answer::default(), None);
    while let Some(line) = lines.next().await {
        let line = line.context("the stream broke off")?;
        let Some(data) = line.strip_prefix("data:").map(str::trim_start) else {
            continue;
        };
        if data == "[DONE]" {
            answer.total = due.elapsed();
            return Ok(answer);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).context("a chunk is no completion")?;
        anyhow::ensure!(chunk.error.is_none(), "the stream ended with an error");
        if chunk.choices.iter().any(|choice| !choice.text.is_empty()) {
            let now = due.elapsed();
            match last.replace(now) {
                None => answer.first_token = Some(now),
                Some(before) => answer.gaps.push(now - before),
            }
        }
        answer.usage = chunk.usage.unwrap_or(answer.usage);
    }
    anyhow::bail!("the stream ended before its end")
}
