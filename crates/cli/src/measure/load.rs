//! `medley bench load`: load on a running server.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use medley_bench::load::{self, Arrivals, Corpus, Form, Options, Traffic};

use crate::say;

/// What load.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The server, without /v1
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Model to name [default: the first that the server names]
    #[arg(long, value_name = "NAME")]
    served_model: Option<String>,
    /// API key to send
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Clients, each of which sends its next request when the last one has ended
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "rate")]
    clients: usize,
    /// Requests per second that arrive at random, whatever the server does
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    rate: Option<f64>,
    /// Seconds in which requests begin
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = positive)]
    seconds: f64,
    /// Requests at most
    #[arg(long, value_name = "N")]
    requests: Option<usize>,
    /// Documents: JSON lines of title and text [default: invented ones]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["corpus_documents", "corpus_words"])]
    corpus: Option<PathBuf>,
    /// Invented documents
    #[arg(long, value_name = "N", default_value_t = 100)]
    corpus_documents: usize,
    /// Words of each
    #[arg(long, value_name = "N", default_value_t = 150)]
    corpus_words: usize,
    /// Documents of a request
    #[arg(long, value_name = "N", default_value_t = 4)]
    documents: usize,
    /// Popularity of documents: the i-th is drawn with weight i to the power of minus this; 0 draws all alike
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.0, value_parser = not_negative)]
    zipf: f64,
    /// How documents are sent
    #[arg(long, value_name = "FORM", default_value = "documents")]
    form: FormArg,
    /// Tokens of an answer at most
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    max_tokens: usize,
    /// Ask for answers of exactly --max-tokens (`ignore_eos`: not every server knows it)
    #[arg(long)]
    ignore_eos: bool,
    /// Share of requests that stream
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    stream: f64,
    /// Share of requests whose client goes away within a second
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    hang_up: f64,
    /// Same seed, same requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Also write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How documents are sent.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormArg {
    /// In the field `documents`
    Documents,
    /// As text before the question: what any server takes
    Prompt,
}

/// Puts the load on the server and prints the report as Markdown.
pub async fn bench_load(arguments: LoadArgs) -> Result<()> {
    let corpus = match &arguments.corpus {
        Some(path) => Corpus::read(path)?,
        None => Corpus::invented(arguments.corpus_documents, arguments.corpus_words, arguments.seed),
    };
    let options = Options {
        url: arguments.url,
        model: arguments.served_model,
        api_key: arguments.key,
        arrivals: match arguments.rate {
            Some(per_second) => Arrivals::Poisson { per_second },
            None => Arrivals::Closed {
                clients: arguments.clients,
            },
        },
        duration: Duration::from_secs_f64(arguments.seconds),
        requests: arguments.requests,
        corpus,
        traffic: Traffic {
            documents: arguments.documents,
            zipf: arguments.zipf,
            form: match arguments.form {
                FormArg::Documents => Form::Documents,
                FormArg::Prompt => Form::Prompt,
            },
            max_tokens: arguments.max_tokens,
            ignore_eos: arguments.ignore_eos,
            stream: arguments.stream,
            hang_up: arguments.hang_up,
            seed: arguments.seed,
        },
    };
    let report = load::run(options).await?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    say::result(format_args!("{report}"));
    Ok(())
}

fn number(text: &str, fits: fn(f64) -> bool, what: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&number| fits(number));
    number.ok_or_else(|| what.to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    number(
        text,
        |x| x > 0.0 && x <= 1e6,
        "a number above 0 and at most a million is needed",
    )
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(
        text,
        |x| (0.0..=100.0).contains(&x),
        "a number from 0 to 100 is needed",
    )
}

fn share(text: &str) -> Result<f64, String> {
    number(
        text,
        |x| (0.0..=1.0).contains(&x),
        "a number from 0 to 1 is needed",
    )
}
