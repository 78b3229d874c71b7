//! An answer as a stream of server-sent events.
//!
//! The body owns the running choices: when the client goes away the body is dropped and with it they are cancelled.
//! A failure after the start is an event, after which the stream ends without `[DONE]`.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event as SseEvent, KeepAlive},
};
use futures::stream;
use medley_generate::Event;
use medley_prompt::Tokenizer;
use serde::Serialize;

use super::outcome::Answer;
use crate::readiness::InFlight;

/// An answer as the chunks of a stream.
pub(crate) trait Chunked: Send + 'static {
    /// What an event of the stream carries.
    type Chunk: Serialize;

    /// The answer.
    fn answer(&mut self) -> &mut Answer;

    /// The chunks ahead of all others.
    fn opening(&self) -> Vec<Self::Chunk>;

    /// The chunks of what happened to a choice.
    fn of(&mut self, index: usize, event: Event, tokenizer: &Tokenizer) -> Vec<Self::Chunk>;

    /// The last chunk, if one was asked for.
    fn closing(&self) -> Option<Self::Chunk>;
}

/// The response of an answer whose prompts are planned.
pub(crate) fn stream(
    mut chunks: impl Chunked,
    tokenizer: Tokenizer,
    in_flight: InFlight,
    keep_alive: Duration,
) -> Response {
    let headers = chunks.answer().ledger.headers();
    let source = Source::new(chunks, tokenizer, in_flight);
    let events = stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        Some((Ok::<_, Infallible>(event), source))
    });
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(keep_alive));
    (headers, sse).into_response()
}

/// Where a stream stands.
struct Source<C> {
    chunks: C,
    tokenizer: Tokenizer,
    ready: VecDeque<SseEvent>,
    ended: bool,
    _in_flight: InFlight,
}

impl<C: Chunked> Source<C> {
    fn new(chunks: C, tokenizer: Tokenizer, in_flight: InFlight) -> Self {
        let ready = chunks.opening().iter().map(event).collect();
        Self {
            chunks,
            tokenizer,
            ready,
            ended: false,
            _in_flight: in_flight,
        }
    }

    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            self.advance().await;
        }
    }

    async fn advance(&mut self) {
        match self.chunks.answer().running.next().await {
            Some(Ok((index, happened))) => {
                let chunks = self.chunks.of(index, happened, &self.tokenizer);
                self.ready.extend(chunks.iter().map(event));
            }
            Some(Err(error)) => {
                self.ready.push_back(event(&error.body()));
                self.ended = true;
            }
            None => {
                self.ready.extend(self.chunks.closing().as_ref().map(event));
                self.ready.push_back(SseEvent::default().data("[DONE]"));
                self.ended = true;
            }
        }
    }
}

/// One line of JSON; strings and numbers always encode.
fn event(value: &impl Serialize) -> SseEvent {
    SseEvent::default().data(serde_json::to_string(value).unwrap_or_default())
}
