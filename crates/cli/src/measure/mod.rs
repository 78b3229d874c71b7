//! `medley eval` and `medley bench`: a model and an engine as the server has them, measured.

mod eval;
mod load;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use medley_backend_mistralrs::ModelSource;
use medley_bench::{
    Subject,
    ttft::{self, PeerOptions},
};
use medley_kv::Ratio;

pub use eval::{EvalArgs, eval};
pub use load::{LoadArgs, bench_load};

use crate::{
    config::ModelConfig,
    fetch,
    model::{self, Choice, Serving},
    quality, say,
};

/// What to measure.
#[derive(Debug, Args)]
pub struct TtftArgs {
    /// Documents of a prompt
    #[arg(long, value_name = "N", default_value_t = 8)]
    documents: usize,
    /// Tokens of each document
    #[arg(long, value_name = "TOKENS", default_value_t = 256)]
    document_tokens: usize,
    /// Tokens of the question
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    question_tokens: usize,
    /// Tokens to generate for the decoding rate
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    decode_tokens: usize,
    /// Rounds; medians are over them
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Don't measure llama.cpp on the same file (needs node and npm)
    #[arg(long)]
    no_peer: bool,
    /// Folder for the result as JSON
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
}

/// What to measure on a GPU.
#[derive(Debug, Args)]
pub struct GpuArgs {
    /// Rounds; medians are over them
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Ratios at which documents in a new order are blended
    #[arg(long, value_name = "RATIO,..", value_delimiter = ',', default_value = "0.04,0.1,0.15", value_parser = ratio)]
    ratios: Vec<Ratio>,
    /// Only work whose name contains one of these
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    only: Vec<String>,
    /// Also write the rows as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Relative error of attention in bf16 beyond which nothing is timed.
#[cfg(feature = "cuda")]
const MOST_ERROR: f64 = 5e-3;

/// Measures on a GPU and prints the table as Markdown.
#[cfg(feature = "cuda")]
pub async fn bench_gpu(arguments: GpuArgs, config: ModelConfig) -> Result<()> {
    use medley_backend_mistralrs::{ComputeDevice, Shape, attention_error};
    use medley_bench::gpu;
    let ComputeDevice::Cuda(ordinal) = model::resolve(config.device) else {
        anyhow::bail!("no CUDA device was found");
    };
    let error = attention_error(Shape::LLAMA_8B, ordinal)?;
    anyhow::ensure!(
        error <= MOST_ERROR,
        "the kernels are wrong on this device: attention is {error:.1e} away from the reference"
    );
    let engine = model::start_random(Shape::LLAMA_8B, ordinal, config.gpu_memory, &config.limits)?;
    let options = gpu::Options {
        rounds: arguments.rounds,
        ratios: arguments.ratios,
        only: arguments.only,
        relative_error: Some(error),
    };
    let report = gpu::run(&*engine, &options).await?;
    if let Some(path) = &arguments.json {
        gpu::write(&report, path)?;
    }
    say::result(format_args!("{report}"));
    Ok(())
}

/// Without CUDA there is nothing to measure.
#[cfg(not(feature = "cuda"))]
pub async fn bench_gpu(arguments: GpuArgs, _config: ModelConfig) -> Result<()> {
    drop(arguments);
    anyhow::bail!("this build has no CUDA; build with `--features cuda`")
}

/// Measures and prints the table as Markdown.
pub async fn bench_ttft(arguments: TtftArgs, config: ModelConfig) -> Result<()> {
    let choice = model::choose(&config)?;
    let peer = if arguments.no_peer {
        None
    } else {
        peer(&choice, &config)
    };
    let options = ttft::Options {
        documents: arguments.documents,
        document_tokens: arguments.document_tokens,
        question_tokens: arguments.question_tokens,
        decode_tokens: arguments.decode_tokens,
        rounds: arguments.rounds,
        blend: config.blend.options,
        threads: config.threads,
        peer,
        out: arguments.out,
    };
    let (report, path) = ttft::run(&subject(choice, &config)?.0, &options).await?;
    say::result(format_args!("{report}\n{}", path.display()));
    Ok(())
}

/// The model with its engine, and what names its calibration.
fn subject(choice: Choice, config: &ModelConfig) -> Result<(Subject, String)> {
    let running = model::start(&choice, config, &Serving::default())?;
    Ok((
        quality::subject(choice.name(), config, &running),
        running.identity,
    ))
}

/// llama.cpp runs GGUF files only.
fn peer(choice: &Choice, config: &ModelConfig) -> Option<PeerOptions> {
    let model = match &choice.source {
        None => config.model_dir.join(fetch::DEFAULT.file),
        Some(ModelSource::Gguf(path)) => path.clone(),
        Some(_) => return None,
    };
    Some(PeerOptions {
        folder: config.model_dir.with_file_name("peers"),
        model,
    })
}

fn ratio(text: &str) -> Result<Ratio, &'static str> {
    let value = text.parse().map_err(|_| "not a number from 0 to 1")?;
    Ratio::new(value).map_err(|_| "not a number from 0 to 1")
}
