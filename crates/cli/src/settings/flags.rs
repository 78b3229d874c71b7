//! Settings as command-line flags.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::table::{Fallback, SETTINGS, Scope, Setting};

/// Adds the settings that commands of `scope` take, and `--config`.
pub fn with_flags(command: Command, scope: Scope) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE.toml")
        .help("Configuration file: the flags' names as keys [env: MEDLEY_CONFIG]");
    let settings = SETTINGS.iter().filter(|s| scope.takes(s.scope)).map(flag);
    command.next_help_heading("Settings").args(settings).arg(config)
}

/// The values that were given as flags, and the path of `--config`.
pub fn given_flags(
    matches: &ArgMatches,
    scope: Scope,
) -> (BTreeMap<&'static str, Vec<String>>, Option<String>) {
    let flags = SETTINGS.iter().filter(|s| scope.takes(s.scope));
    let given = flags.filter_map(|s| Some((s.name, matches.get_many::<String>(s.name)?.cloned().collect())));
    (given.collect(), matches.get_one::<String>("config").cloned())
}

fn flag(setting: &'static Setting) -> Arg {
    let default = match setting.fallback {
        Fallback::Text(text) | Fallback::Described(text) => text,
    };
    Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.value)
        .help(format!(
            "{} [default: {default}] [env: {}]",
            setting.help,
            setting.variable()
        ))
        .action(if setting.many {
            ArgAction::Append
        } else {
            ArgAction::Set
        })
        .allow_hyphen_values(true)
}
