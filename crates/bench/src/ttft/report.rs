//! The result: medians for people, all samples for machines.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use medley_kv::TokenCounts;
use serde::Serialize;

use super::{Kind, Options, peer::PeerSample, workload::Workload};
use crate::{
    Subject,
    machine::{Date, Machine},
    statistics::median,
};

/// One measured request.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What kind it was of.
    pub kind: Kind,
    /// Time to the first token.
    pub ttft: Duration,
    /// Tokens per second behind the first one, if there were any.
    pub decode_rate: Option<f64>,
    /// What happened to the prompt's tokens.
    pub tokens: TokenCounts,
}

/// All of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    date: String,
    machine: Machine,
    model: String,
    anchor: String,
    threads: usize,
    documents: usize,
    document_tokens: usize,
    question_tokens: usize,
    prompt_tokens: usize,
    ratio: f32,
    strategy: &'static str,
    kinds: Vec<KindReport>,
    /// Tokens per second of one stream behind the blended prompt: the median.
    decode_rate: Option<f64>,
    peak_memory_bytes: Option<u64>,
    peer: Option<PeerReport>,
    #[serde(skip)]
    samples: Vec<Sample>,
}

/// The samples of a kind.
#[derive(Clone, Debug, Serialize)]
struct KindReport {
    kind: &'static str,
    median_ms: f64,
    samples_ms: Vec<f64>,
    repaired: usize,
    computed: usize,
    reused: usize,
    exact_prefix: usize,
    fresh: usize,
}

/// The samples of the peer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PeerReport {
    /// What ran.
    pub build: String,
    /// Median time to the first token of a full prefill.
    pub median_ms: f64,
    /// All of them.
    pub samples_ms: Vec<f64>,
    /// Median tokens per second behind the first one.
    pub decode_rate: f64,
    /// Its process' most resident memory.
    pub peak_memory_bytes: u64,
    #[serde(skip)]
    rates: Vec<f64>,
}

impl Report {
    pub(super) fn new(
        subject: &Subject,
        options: &Options,
        workload: &Workload,
        machine: Machine,
        date: Date,
    ) -> Self {
        Self {
            date: date.to_string(),
            machine,
            model: subject.name.clone(),
            anchor: subject.anchor.clone(),
            threads: options.threads,
            documents: options.documents,
            document_tokens: options.document_tokens,
            question_tokens: options.question_tokens,
            prompt_tokens: workload.prompt_tokens(),
            ratio: options.blend.ratio.get(),
            strategy: options.blend.strategy.name(),
            kinds: Vec::new(),
            decode_rate: None,
            peak_memory_bytes: None,
            peer: None,
            samples: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    pub(super) fn push_peer(&mut self, sample: PeerSample) {
        let peer = self.peer.get_or_insert_default();
        peer.build = sample.build;
        peer.samples_ms.push(sample.ttft_ms);
        peer.rates.push(sample.decode_rate);
        peer.peak_memory_bytes = peer.peak_memory_bytes.max(sample.peak_memory_bytes);
    }

    /// Takes the medians.
    pub(super) fn finish(&mut self, peak_memory_bytes: Option<u64>) {
        self.peak_memory_bytes = peak_memory_bytes;
        self.kinds = Kind::ALL
            .iter()
            .filter_map(|&kind| KindReport::new(kind, &self.samples))
            .collect();
        let rates = self
            .samples
            .iter()
            .filter(|s| s.kind == Kind::Warm)
            .filter_map(|s| s.decode_rate);
        self.decode_rate = median(&rates.collect::<Vec<_>>());
        if let Some(peer) = &mut self.peer {
            peer.median_ms = median(&peer.samples_ms).unwrap_or_default();
            peer.decode_rate = median(&peer.rates).unwrap_or_default();
        }
    }

    /// Writes the result into `folder`; an earlier one of the same day, model and shape is replaced.
    pub(super) fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
        let model: String = self
            .model
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let name = format!(
            "ttft-{}-{model}-{}x{}.json",
            self.date, self.documents, self.document_tokens
        );
        let path = folder.join(name);
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }

    fn median_of(&self, kind: Kind) -> Option<f64> {
        self.kinds
            .iter()
            .find(|k| k.kind == kind.label())
            .map(|k| k.median_ms)
    }
}

impl KindReport {
    fn new(kind: Kind, samples: &[Sample]) -> Option<Self> {
        let of_kind: Vec<&Sample> = samples.iter().filter(|s| s.kind == kind).collect();
        let tokens = of_kind.last()?.tokens;
        let samples_ms: Vec<f64> = of_kind.iter().map(|s| s.ttft.as_secs_f64() * 1e3).collect();
        Some(Self {
            kind: kind.label(),
            median_ms: median(&samples_ms)?,
            samples_ms,
            repaired: tokens.repaired,
            computed: tokens.computed,
            reused: tokens.reused,
            exact_prefix: tokens.exact_prefix,
            fresh: tokens.fresh,
        })
    }
}

/// Markdown.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            model,
            documents,
            document_tokens,
            question_tokens,
            prompt_tokens,
            threads,
            ..
        } = self;
        writeln!(
            f,
            "{model}: {documents} documents of {document_tokens} tokens and a question of {question_tokens}"
        )?;
        let Machine { cpu, cores, commit } = &self.machine;
        writeln!(
            f,
            "({prompt_tokens} in all), {threads} threads, {cpu} with {cores} cores, {commit}, {}\n",
            self.date
        )?;
        let peer = self.peer.as_ref().map(|peer| peer.median_ms);
        let full = self.median_of(Kind::Full);
        writeln!(
            f,
            "| time to first token | ms | full prefill / this | llama.cpp / this | rows computed |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        for kind in &self.kinds {
            let (name, ms) = (kind.kind, kind.median_ms);
            let rows = kind.repaired + kind.computed + kind.fresh;
            writeln!(
                f,
                "| {name} | {ms:.1} | {} | {} | {rows} |",
                times(full, ms),
                times(peer, ms)
            )?;
        }
        if let Some(peer) = &self.peer {
            let ms = peer.median_ms;
            writeln!(
                f,
                "| llama.cpp, full prefill | {ms:.1} | {} | 1.00x | {prompt_tokens} |",
                times(full, ms)
            )?;
        }
        writeln!(
            f,
            "\ndecoding one stream: {} tokens/s; peak memory {}",
            rate(self.decode_rate),
            mib(self.peak_memory_bytes)
        )?;
        if let Some(peer) = &self.peer {
            let (rate, memory) = (rate(Some(peer.decode_rate)), mib(Some(peer.peak_memory_bytes)));
            writeln!(
                f,
                "llama.cpp ({}): {rate} tokens/s; peak memory {memory}",
                peer.build
            )?;
        }
        Ok(())
    }
}

fn times(base: Option<f64>, this: f64) -> String {
    base.map_or_else(|| "-".to_owned(), |base| format!("{:.2}x", base / this))
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}
