//! The `medley` command: flags, variables and file to one checked configuration, and the wiring of all parts.
//!
//! Nothing behind [`config`] reads the environment. Exit codes: 0 done, 64 a configuration that can't be run (the
//! message names flag, file or variable and the reason), 1 everything else.

mod banner;
mod command;
mod config;
mod fetch;
mod logging;
mod measure;
mod model;
mod progress;
mod quality;
mod say;
mod serve;
mod settings;
mod signals;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{ArgMatches, FromArgMatches};

use config::{LogFormat, ModelConfig, ServerConfig, model_dir};
use measure::{EvalArgs, GpuArgs, LoadArgs, TtftArgs};
use settings::{Environment, Layers, Misconfigured, Origin, Scope, given_flags};

/// A configuration that can't be run (`EX_USAGE` of `sysexits.h`).
const MISCONFIGURED: u8 = 64;

fn main() -> ExitCode {
    let matches = match command::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let code = if error.use_stderr() { MISCONFIGURED } else { 0 };
            // Nothing is left to be said where the terminal is gone.
            let _ = error.print();
            return code.into();
        }
    };
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::failure(&error);
            if error.is::<Misconfigured>() {
                MISCONFIGURED.into()
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("serve", matches)) => {
            let layers = layers(matches, Scope::Serve)?;
            let (model, server) = (model_config(&layers)?, ServerConfig::new(&layers)?);
            block_on(serve::serve(model, server))
        }
        Some(("fetch", matches)) => fetch_model(matches),
        Some(("eval", matches)) => {
            let arguments = EvalArgs::from_arg_matches(matches)?;
            block_on(measure::eval(
                arguments,
                model_config(&layers(matches, Scope::Model)?)?,
            ))
        }
        Some(("bench", matches)) => {
            let (what, matches) = matches.subcommand().context("a subcommand is missing")?;
            if what == "load" {
                return block_on(measure::bench_load(LoadArgs::from_arg_matches(matches)?));
            }
            let config = model_config(&layers(matches, Scope::Model)?)?;
            match what {
                "gpu" => block_on(measure::bench_gpu(GpuArgs::from_arg_matches(matches)?, config)),
                _ => block_on(measure::bench_ttft(TtftArgs::from_arg_matches(matches)?, config)),
            }
        }
        _ => anyhow::bail!("a subcommand is missing"),
    }
}

fn layers(matches: &ArgMatches, scope: Scope) -> Result<Layers, Misconfigured> {
    let (flags, file) = given_flags(matches, scope);
    Layers::new(flags, file, Environment::capture())
}

fn model_config(layers: &Layers) -> Result<ModelConfig, Misconfigured> {
    let config = ModelConfig::new(layers)?;
    logging::start(config.log_format, config.log_level);
    for name in layers.unknown_variables() {
        tracing::warn!(
            name,
            "no setting has this variable; `medley serve --help` lists those that there are"
        );
    }
    Ok(config)
}

fn fetch_model(matches: &ArgMatches) -> Result<()> {
    let folder = model_dir(&layers(matches, Scope::Store)?)?;
    logging::start(LogFormat::Text, tracing::Level::INFO);
    let name = matches.get_one::<String>("name").map_or("", String::as_str);
    let unknown = || {
        format!(
            "no model is called {name:?}; there is {}",
            fetch::names().join(", ")
        )
    };
    let model = fetch::find(name).ok_or_else(|| Misconfigured::new(&Origin::Argument("fetch"), unknown()))?;
    let fetched = fetch::fetch(model, &folder)?;
    if let fetch::Fetched::Kept(_) = fetched {
        say::note(format_args!("{} is there already and intact", model.title));
    }
    say::result(format_args!("{}", fetched.path().display()));
    Ok(())
}

/// Runs to the end without waiting for work that was left behind, such as a model that was still loading.
fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("can't start the runtime")?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}
