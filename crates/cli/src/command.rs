//! The command line.

use clap::{Args, Command};

use crate::{
    measure::{EvalArgs, GpuArgs, LoadArgs, TtftArgs},
    settings::{Scope, with_flags},
};

/// All commands.
pub fn command() -> Command {
    Command::new("medley")
        .about("An OpenAI-compatible server that reuses the KV of documents, in any order, at any position")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with_flags(
            Command::new("serve").about("Serve a model over HTTP"),
            Scope::Serve,
        ))
        .subcommand(with_flags(fetch(), Scope::Store))
        .subcommand(with_flags(eval(), Scope::Model))
        .subcommand(
            Command::new("bench")
                .about("Measure speed")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(with_flags(ttft(), Scope::Model))
                .subcommand(with_flags(gpu(), Scope::Model))
                .subcommand(load()),
        )
}

fn fetch() -> Command {
    let model = clap::Arg::new("name")
        .default_value(crate::fetch::DEFAULT.name)
        .help("Which model");
    Command::new("fetch")
        .about("Fetch the default model once and print its path")
        .arg(model)
}

/// Arguments bring a description of their own, which the command's replaces.
fn eval() -> Command {
    EvalArgs::augment_args(Command::new("eval")).about("Compare blended answers with those of a full prefill")
}

fn ttft() -> Command {
    TtftArgs::augment_args(Command::new("ttft"))
        .about("Measure the time to the first token, by what is reused")
}

fn gpu() -> Command {
    GpuArgs::augment_args(Command::new("gpu"))
        .about("Measure an engine on a GPU, with random weights in the shape of Llama 3.1 8B")
}

fn load() -> Command {
    LoadArgs::augment_args(Command::new("load"))
        .about("Put load on any OpenAI server and report times, throughput and what its cache had")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{SIZES, TIMES},
        settings::table_of_all,
    };

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_help_of_serve_shows_every_setting_with_its_default_and_variable() {
        let mut serve = command().find_subcommand("serve").cloned().expect("serve");
        let help = serve.render_long_help().to_string();
        for setting in table_of_all() {
            assert!(
                help.contains(&format!("--{} ", setting.name)),
                "{} is missing",
                setting.name
            );
            assert!(
                help.contains(&setting.variable()),
                "{} is missing",
                setting.variable()
            );
        }
        assert_eq!(help.matches("[default: ").count(), table_of_all().len());
    }

    #[test]
    fn the_help_says_of_units_what_errors_say() {
        let mut serve = command().find_subcommand("serve").cloned().expect("serve");
        let help = serve.render_long_help().to_string();
        assert!(help.contains(SIZES), "{help}");
        assert!(help.contains(TIMES), "{help}");
    }

    #[test]
    fn the_overview_says_what_each_command_does() {
        let help = command().render_help().to_string();
        for about in [
            "Serve a model",
            "Fetch the default model",
            "Compare blended answers",
            "Measure speed",
        ] {
            assert!(help.contains(about), "{about} is missing:\n{help}");
        }
        let mut bench = command().find_subcommand("bench").cloned().expect("bench");
        assert!(
            bench
                .render_help()
                .to_string()
                .contains("Measure the time to the first token")
        );
    }
}
