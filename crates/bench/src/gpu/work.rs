//! The work that is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use medley_generate::{Event, Generate, Request, Sampling};
use medley_kv::{BlendMode, BlendOptions, PAGE_TOKENS, Prompt, Ratio, TokenId};

use super::Options;
use super::prompts::Prompts;
use super::report::{Report, Row};
use crate::{
    Run, RunError, median,
    run::{greedily, greedy},
};

/// Tokens of a document.
const DOCUMENT: usize = 1024;

/// What vLLM 0.22.1 needs, in ms: full prefill by tokens.
const VLLM_PREFILL: [(usize, f64); 6] = [
    (1024, 37.2),
    (2048, 51.0),
    (4096, 100.2),
    (8192, 212.2),
    (16384, 480.4),
    (32768, 1180.7),
];

/// Documents of 1024 tokens in a new order.
const VLLM_NEW_ORDER: [(usize, f64); 3] = [(8, 210.3), (16, 481.2), (30, 1086.7)];

/// 8 documents of 1024 tokens again in the same order.
const VLLM_AGAIN: f64 = 18.4;

/// Decoding steps at a context of 1024, by batch.
const VLLM_DECODE: [(usize, f64); 4] = [(1, 7.45), (8, 6.41), (32, 6.66), (128, 11.2)];

/// TTFT with requests in flight, by their number.
const VLLM_IN_FLIGHT: [(usize, f64); 3] = [(1, 196.0), (8, 1075.0), (32, 3566.0)];

type Documents = Vec<Arc<[TokenId]>>;

/// A run over all work.
pub(super) struct Bench<'a> {
    engine: &'a dyn Generate,
    options: &'a Options,
    prompts: Prompts,
    report: Report,
}

impl<'a> Bench<'a> {
    pub fn new(engine: &'a dyn Generate, options: &'a Options) -> Self {
        Self {
            engine,
            options,
            prompts: Prompts::new(engine.model().vocab),
            report: Report::new(),
        }
    }

    pub async fn run(mut self) -> Result<Report> {
        for (tokens, vllm) in VLLM_PREFILL {
            self.full(tokens, vllm).await?;
        }
        for (count, vllm) in VLLM_NEW_ORDER {
            self.new_order(count, vllm).await?;
        }
        self.again().await?;
        let [(_, eight), ..] = VLLM_NEW_ORDER;
        self.cold(eight).await?;
        self.many_small().await?;
        for (batch, vllm) in VLLM_DECODE {
            self.decode(batch, 1024, Some(vllm)).await?;
        }
        for batch in [8, 32] {
            self.decode(batch, 8192, None).await?;
        }
        self.sampled(32).await?;
        self.same_documents(32).await?;
        self.shared().await?;
        for (clients, vllm) in VLLM_IN_FLIGHT {
            self.in_flight(clients, vllm).await?;
        }
        Ok(self.report)
    }

    fn wanted(&self, work: &str) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.iter().any(|part| work.contains(part.as_str()))
    }

    fn push(&mut self, row: Row) {
        let rel_err = self.options.relative_error;
        self.report.push(Row { rel_err, ..row });
    }

    async fn full(&mut self, tokens: usize, vllm: f64) -> Result<()> {
        let work = format!("full {tokens}");
        if !self.wanted(&work) {
            return Ok(());
        }
        let ms = self.full_ms(tokens).await?;
        self.push(Row {
            work,
            medley_ms: ms,
            full_ms: Some(ms),
            vllm_ms: Some(vllm),
            ..Row::default()
        });
        Ok(())
    }

    /// Median time to the first token of a full prefill.
    async fn full_ms(&mut self, tokens: usize) -> Result<f64> {
        let mut times = Vec::new();
        for round in 0..=self.options.rounds {
            let prompt = self.prompts.plain(tokens)?;
            let ms = self.first(prompt, mode(BlendMode::Off)).await?;
            times.extend((round > 0).then_some(ms));
        }
        median_of(&times)
    }

    async fn new_order(&mut self, count: usize, vllm: f64) -> Result<()> {
        let work = format!("new-order {count}x{DOCUMENT}");
        if !self.wanted(&work) {
            return Ok(());
        }
        let documents = self.prompts.documents(count, DOCUMENT);
        let full = self.full_ms(count * DOCUMENT).await?;
        for ratio in self.options.ratios.clone() {
            let ms = self.warm_ms(&documents, ratio).await?;
            let ratio = (f64::from(ratio.get()) * 1e4).round() / 1e4;
            self.push(Row {
                work: work.clone(),
                ratio: Some(ratio),
                medley_ms: ms,
                full_ms: Some(full),
                vllm_ms: Some(vllm),
                ..Row::default()
            });
        }
        Ok(())
    }

    /// Median time to the first token with documents that are resident; the first round makes them so.
    async fn warm_ms(&mut self, documents: &Documents, ratio: Ratio) -> Result<f64> {
        let mut times = Vec::new();
        for round in 0..=self.options.rounds + 1 {
            let prompt = self.prompts.ask(documents)?;
            let run = self.run_one(prompt, blended(ratio), 1).await?;
            if round > 1 {
                ensure!(run.report.tokens.computed == 0, "a document was not resident");
                times.push(ms(run.first_token().unwrap_or_default()));
            }
        }
        median_of(&times)
    }

    async fn again(&mut self) -> Result<()> {
        let work = format!("again 8x{DOCUMENT}");
        if !self.wanted(&work) {
            return Ok(());
        }
        let documents = self.prompts.documents(8, DOCUMENT);
        let prompt = self.prompts.ask(&documents)?;
        let full = self.first(prompt.clone(), mode(BlendMode::Exact)).await?;
        let mut times = Vec::new();
        for _ in 0..self.options.rounds {
            times.push(self.first(prompt.clone(), mode(BlendMode::Exact)).await?);
        }
        let medley_ms = median_of(&times)?;
        self.push(Row {
            work,
            medley_ms,
            full_ms: Some(full),
            vllm_ms: Some(VLLM_AGAIN),
            ..Row::default()
        });
        Ok(())
    }

    async fn cold(&mut self, vllm: f64) -> Result<()> {
        let work = format!("cold 8x{DOCUMENT}");
        if !self.wanted(&work) {
            return Ok(());
        }
        let full = self.full_ms(8 * DOCUMENT).await?;
        let mut times = Vec::new();
        for _ in 0..self.options.rounds {
            let documents = self.prompts.documents(8, DOCUMENT);
            let prompt = self.prompts.ask(&documents)?;
            times.push(self.first(prompt, blended(tenth()?)).await?);
        }
        let medley_ms = median_of(&times)?;
        self.push(Row {
            work,
            ratio: Some(0.1),
            medley_ms,
            full_ms: Some(full),
            vllm_ms: Some(vllm),
            ..Row::default()
        });
        Ok(())
    }

    async fn many_small(&mut self) -> Result<()> {
        let work = "new-order 200x20".to_owned();
        if !self.wanted(&work) {
            return Ok(());
        }
        let documents = self.prompts.documents(200, 20);
        let full = self.full_ms(200 * 20).await?;
        let medley_ms = self.warm_ms(&documents, tenth()?).await?;
        self.push(Row {
            work,
            ratio: Some(0.1),
            medley_ms,
            full_ms: Some(full),
            vllm_ms: None,
            ..Row::default()
        });
        Ok(())
    }

    async fn decode(&mut self, batch: usize, context: usize, vllm: Option<f64>) -> Result<()> {
        let work = match context {
            1024 => format!("decode b{batch}"),
            context => format!("decode b{batch} at {context}"),
        };
        if !self.wanted(&work) {
            return Ok(());
        }
        let prompts = self.plain(batch, context)?;
        self.streams(work, &prompts, mode(BlendMode::Exact), greedily(), vllm)
            .await
    }

    /// Streams over the same documents in orders of their own, to be compared with as many over as long contexts of their
    /// own.
    async fn same_documents(&mut self, batch: usize) -> Result<()> {
        let work = format!("decode b{batch} over the same 8x{DOCUMENT}");
        if !self.wanted(&work) {
            return Ok(());
        }
        let documents = self.prompts.documents(8, DOCUMENT);
        let prompts: Vec<Prompt> = (0..batch)
            .map(|_| self.prompts.ask(&documents))
            .collect::<Result<_>>()?;
        self.streams(work, &prompts, blended(tenth()?), greedily(), None)
            .await
    }

    fn plain(&mut self, batch: usize, context: usize) -> Result<Vec<Prompt>> {
        (0..batch).map(|_| self.prompts.plain(context)).collect()
    }

    /// Tokens drawn with a temperature, top-k and top-p.
    async fn sampled(&mut self, batch: usize) -> Result<()> {
        let sampling = Sampling {
            temperature: 1.0,
            top_k: 50,
            top_p: 0.95,
            ..Sampling::default()
        };
        let work = format!("decode b{batch} sampled");
        if !self.wanted(&work) {
            return Ok(());
        }
        let prompts = self.plain(batch, 1024)?;
        self.streams(work, &prompts, mode(BlendMode::Exact), sampling, None)
            .await
    }

    /// Time of a decoding step with these prompts' streams.
    async fn streams(
        &mut self,
        work: String,
        prompts: &[Prompt],
        blend: BlendOptions,
        sampling: Sampling,
        vllm: Option<f64>,
    ) -> Result<()> {
        // What they share is resident then, so that all streams begin together.
        self.together(prompts, blend, sampling, 1).await?;
        let steps = 64;
        let streams = self.together(prompts, blend, sampling, steps + 64).await?;
        // The stream that began last: all others run beside it.
        let last = streams
            .iter()
            .max_by_key(|at| at.first().copied().unwrap_or_default())
            .ok_or_else(|| anyhow::anyhow!("no streams"))?;
        let from = 8;
        let spent = last[from + steps] - last[from];
        self.push(Row {
            work,
            medley_ms: ms(spent) / steps as f64,
            vllm_ms: vllm,
            ..Row::default()
        });
        Ok(())
    }

    /// Runs prompts at once; when each one's tokens came.
    async fn together(
        &self,
        prompts: &[Prompt],
        blend: BlendOptions,
        sampling: Sampling,
        max_tokens: usize,
    ) -> Result<Vec<Vec<Duration>>> {
        let start = Instant::now();
        let requests = prompts.iter().map(|prompt| Request {
            sampling,
            ..request(prompt.clone(), blend, max_tokens)
        });
        let streams = self
            .engine
            .submit_all(requests.collect())
            .map_err(RunError::Refused)?;
        let tasks = streams.into_iter().map(|mut events| {
            tokio::spawn(async move {
                let mut at = Vec::new();
                while let Some(event) = events.recv().await {
                    match event {
                        Event::Token(_) => at.push(start.elapsed()),
                        Event::Failed(error) => anyhow::bail!("failed: {error}"),
                        Event::Planned(_) | Event::Prompt(_) | Event::Finished { .. } => {}
                    }
                }
                Ok(at)
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await??);
        }
        Ok(all)
    }

    /// Page memory of 16 sequences over the same documents.
    async fn shared(&mut self) -> Result<()> {
        let work = "16 sequences over 8x1024".to_owned();
        if !self.wanted(&work) {
            return Ok(());
        }
        let documents = self.prompts.documents(8, DOCUMENT);
        for ratio in [0.1, 0.04] {
            let prompt = self.prompts.ask(&documents)?;
            let one = prompt.len().div_ceil(PAGE_TOKENS);
            let blend = blended(Ratio::new(ratio)?);
            self.run_one(prompt, blend, 1).await?;
            let requests = (0..16)
                .map(|_| Ok(request(self.prompts.ask(&documents)?, blend, 64)))
                .collect::<Result<Vec<_>>>()?;
            let streams = self.engine.submit_all(requests).map_err(RunError::Refused)?;
            let mut most = 0;
            for mut events in streams {
                while events.recv().await.is_some() {
                    most = most.max(self.engine.gauges().private_pages);
                }
            }
            let held = most + 8 * DOCUMENT / PAGE_TOKENS;
            self.push(Row {
                work: work.clone(),
                ratio: Some(ratio),
                copies: Some(held as f64 / one as f64),
                ..Row::default()
            });
        }
        Ok(())
    }

    /// `clients` clients, each with one request at a time: 8 of 32 documents in random order, 64 tokens of answer.
    async fn in_flight(&mut self, clients: usize, vllm: f64) -> Result<()> {
        let work = format!("in-flight {clients}");
        if !self.wanted(&work) {
            return Ok(());
        }
        let documents = self.prompts.documents(32, DOCUMENT);
        // All documents become resident first.
        for four in documents.chunks(8) {
            let prompt = self.prompts.ask(four)?;
            self.run_one(prompt, blended(tenth()?), 1).await?;
        }
        let total = (clients * 4).max(8);
        let mut left: Vec<Prompt> = (0..total)
            .map(|_| {
                let some = self.prompts.some(&documents, 8);
                self.prompts.ask(&some)
            })
            .collect::<Result<_>>()?;
        let start = Instant::now();
        let mut running = Vec::new();
        let mut first = Vec::new();
        // Requests are submitted from one task; each answer's end lets the next one in.
        let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
        loop {
            while running.len() < total && running.len() - first.len() < clients {
                let Some(prompt) = left.pop() else { break };
                let submitted = Instant::now();
                let mut events = self
                    .engine
                    .submit(request(prompt, blended(tenth()?), 64))
                    .map_err(RunError::Refused)?;
                let ended = ended.clone();
                running.push(tokio::spawn(async move {
                    let mut first = None;
                    while let Some(event) = events.recv().await {
                        if matches!(event, Event::Token(_)) {
                            first.get_or_insert_with(|| submitted.elapsed());
                        }
                    }
                    let _ = ended.send(first);
                }));
            }
            if first.len() == total {
                break;
            }
            let time = ends.recv().await.flatten();
            first.push(ms(time.ok_or_else(|| anyhow::anyhow!("a request failed"))?));
        }
        let seconds = start.elapsed().as_secs_f64();
        self.push(Row {
            work,
            ratio: Some(0.1),
            medley_ms: median_of(&first)?,
            vllm_ms: Some(vllm),
            requests_per_s: Some(total as f64 / seconds),
            ..Row::default()
        });
        Ok(())
    }

    async fn first(&self, prompt: Prompt, blend: BlendOptions) -> Result<f64> {
        let run = self.run_one(prompt, blend, 1).await?;
        Ok(ms(run.first_token().unwrap_or_default()))
    }

    async fn run_one(&self, prompt: Prompt, blend: BlendOptions, max_tokens: usize) -> Result<Run> {
        Ok(Run::of(self.engine, request(prompt, blend, max_tokens)).await?)
    }
}

fn request(prompt: Prompt, blend: BlendOptions, max_tokens: usize) -> Request {
    greedy(prompt, blend, max_tokens, [].into())
}

fn mode(mode: BlendMode) -> BlendOptions {
    BlendOptions {
        mode,
        ..BlendOptions::default()
    }
}

fn blended(ratio: Ratio) -> BlendOptions {
    BlendOptions {
        ratio,
        ..BlendOptions::default()
    }
}

/// The ratio of all work that is not measured at several.
fn tenth() -> Result<Ratio> {
    Ok(Ratio::new(0.1)?)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median_of(times: &[f64]) -> Result<f64> {
    median(times).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}
