//! `medley eval`: rules and ratios against a full prefill, measured or summed up.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use medley_bench::calibration::Target;
use medley_bench::evaluation::{self, Axis, Options, Results, Rule, Shipped, Table};
use medley_kv::Ratio;

use super::{ratio, subject};
use crate::{
    config::{Anchor, ModelConfig},
    model, quality, say,
};

/// What to evaluate.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Cases: a JSON array or, in a file that ends in .jsonl, JSON lines of question, answers and ctxs
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["summarise", "calibrate"],
        conflicts_with_all = ["summarise", "calibrate"]
    )]
    data: Option<PathBuf>,
    /// Measure the built-in prompts instead, and keep what ratio the model needs for --blend-target-kl
    #[arg(long, conflicts_with = "summarise")]
    calibrate: bool,
    /// Cases to run, from the first
    #[arg(long, value_name = "N", default_value_t = 20)]
    cases: usize,
    /// Rules to compare: none, auto, heads, deviation, query, query with +hopsN or +roundsN
    #[arg(
        long,
        value_name = "RULE,..",
        value_delimiter = ',',
        default_value = "none,heads,deviation,query,query+hops1,query+rounds2"
    )]
    rules: Vec<Rule>,
    /// Ratios for every rule but none
    #[arg(long, value_name = "RATIO,..", value_delimiter = ',', default_value = "0.1,0.2", value_parser = ratio)]
    ratios: Vec<Ratio>,
    /// Also let every rule answer on its own, for F1
    #[arg(long)]
    answers: bool,
    /// Cases that are measured at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    parallel: usize,
    /// Results as JSON lines; what is in there already is not run again
    #[arg(long, value_name = "FILE", default_value = "medley-eval.jsonl")]
    out: PathBuf,
    /// Run nothing: sum up these results; those of a file given as LABEL=FILE are shown with their label
    #[arg(long, value_name = "[LABEL=]FILE,..", value_delimiter = ',')]
    summarise: Vec<Results>,
    /// Rule whose KL is taken from that of the others, case by case at the same ratio
    #[arg(long, value_name = "RULE", default_value = "deviation")]
    against: String,
    /// Also write the rows of all tables as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also plot KL as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// What KL is plotted against: ratio, or rows for the first token
    #[arg(long, value_name = "ratio|rows", default_value = "ratio")]
    plot_by: Axis,
}

/// Evaluates, or sums up what was evaluated, and prints the tables as Markdown.
pub async fn eval(arguments: EvalArgs, config: ModelConfig) -> Result<()> {
    if arguments.calibrate {
        return calibrate(&config).await;
    }
    let tables = tables(&arguments, &config).await?;
    if let Some(path) = &arguments.json {
        let shipped = Shipped::behind(Anchor::default_label());
        let entries = evaluation::listing(&tables, &shipped);
        write(path, &(serde_json::to_string_pretty(&entries)? + "\n"))?;
    }
    if let Some(path) = &arguments.plot {
        write(path, &evaluation::plot(&tables, arguments.plot_by)?)?;
    }
    for table in tables {
        say::result(format_args!("{table}"));
    }
    Ok(())
}

async fn tables(arguments: &EvalArgs, config: &ModelConfig) -> Result<Vec<Table>> {
    let Some(data) = &arguments.data else {
        return evaluation::summarise(&arguments.summarise, &arguments.against);
    };
    let options = Options {
        data: data.clone(),
        cases: arguments.cases,
        rules: arguments.rules.clone(),
        ratios: arguments.ratios.clone(),
        check_layer: config.blend.options.check_layer,
        answers: arguments.answers,
        against: arguments.against.clone(),
        parallel: arguments.parallel,
        out: arguments.out.clone(),
    };
    let (subject, _) = subject(model::choose(config)?, config)?;
    Ok(vec![evaluation::run(&subject, &options).await?])
}

/// Calibrates and prints the ladder as Markdown.
async fn calibrate(config: &ModelConfig) -> Result<()> {
    let (subject, identity) = subject(model::choose(config)?, config)?;
    let found = quality::measure(config, &subject, &identity).await?;
    let target = config.blend.target;
    let needed = match found.needed(target) {
        Some(ratio) => format!("a ratio of {}", ratio.get()),
        None => "a full prefill".to_owned(),
    };
    let Target { kl, top1 } = target;
    say::result(format_args!(
        "{found}\nKL at most {kl} and top-1 at least {top1} need {needed}"
    ));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}
