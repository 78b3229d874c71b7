//! Time to first token of a prompt with documents, by what is reused.
//!
//! Kinds of requests alternate within each round, the peer's among them, so that a machine that slows down does so
//! for all. Each kind's median is reported. One request at a time: this is latency, not throughput.

mod kind;
mod peer;
mod report;
mod workload;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use medley_kv::{BlendMode, BlendOptions, Plan};

pub use kind::Kind;
pub use peer::{Peer, PeerOptions};
pub use report::{PeerReport, Report, Sample};

use crate::{
    Run, Subject,
    machine::{Date, Machine, peak_memory},
    progress::Steps,
    run::greedy,
};
use workload::Workload;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Documents of a prompt; at least 2, so that there is another order.
    pub documents: usize,
    /// Tokens of each document.
    pub document_tokens: usize,
    /// Tokens of the question behind them.
    pub question_tokens: usize,
    /// Tokens to generate for the decoding rate, behind the first one.
    pub decode_tokens: usize,
    /// Rounds; each kind is measured once a round.
    pub rounds: usize,
    /// Blending of the blended kinds.
    pub blend: BlendOptions,
    /// Threads, as the subject was told.
    pub threads: usize,
    /// The peer, if it is to be measured.
    pub peer: Option<PeerOptions>,
    /// Folder for the result.
    pub out: PathBuf,
}

/// Measures, writes the result and returns it with its file.
pub async fn run(subject: &Subject, options: &Options) -> Result<(Report, PathBuf)> {
    ensure!(
        options.documents > 1,
        "at least 2 documents are needed: one has no other order"
    );
    ensure!(options.rounds > 0, "at least 1 round is needed");
    let mut workload = Workload::new(subject, options)?;
    let room = subject.card().max_model_len;
    let needed = workload.prompt_tokens() + 1 + options.decode_tokens;
    ensure!(
        needed <= room,
        "prompt and answer are {needed} tokens, the context holds {room}"
    );
    let mut peer = match &options.peer {
        Some(peer) => {
            Some(Peer::start(peer, options.threads, needed).context("llama.cpp can't be measured")?)
        }
        None => None,
    };
    let mut report = Report::new(subject, options, &workload, Machine::this(), Date::today());
    let steps = Steps::new(options.rounds * (Kind::ALL.len() + usize::from(peer.is_some())));
    prime(subject, options, &mut workload).await?;
    for round in 0..options.rounds {
        for kind in Kind::ALL {
            steps.now(&format!("round {}: {}", round + 1, kind.label()));
            report.push(measure(subject, options, &mut workload, kind).await?);
            steps.step();
        }
        if let Some(peer) = &mut peer {
            steps.now(&format!("round {}: llama.cpp", round + 1));
            report.push_peer(peer.measure(&workload.permuted()?.tokens(), options.decode_tokens)?);
            steps.step();
        }
    }
    steps.finish();
    report.finish(peak_memory());
    let path = report.write(&options.out)?;
    Ok((report, path))
}

/// Makes the documents and the repeated prompt resident, unmeasured.
async fn prime(subject: &Subject, options: &Options, workload: &mut Workload) -> Result<()> {
    for kind in [Kind::Warm, Kind::Repeated] {
        measure(subject, options, workload, kind).await?;
    }
    Ok(())
}

async fn measure(
    subject: &Subject,
    options: &Options,
    workload: &mut Workload,
    kind: Kind,
) -> Result<Sample> {
    let prompt = workload.prompt(kind)?;
    let decode = if kind.decodes() { options.decode_tokens } else { 0 };
    let mode = kind.mode(options.blend.mode);
    let blend = BlendOptions {
        mode,
        ..options.blend
    };
    let run = Run::of(&*subject.engine, greedy(prompt, blend, 1 + decode, [].into())).await?;
    if mode == BlendMode::Auto {
        let report = &run.report;
        ensure!(
            report.plan == Plan::Blended,
            "the model does not blend: {}",
            report.reason.as_deref().unwrap_or("?")
        );
    }
    let first = run.first_token().context("the engine generated no token")?;
    Ok(Sample {
        kind,
        ttft: first,
        decode_rate: run.decode_rate(),
        tokens: run.report.tokens,
    })
}
