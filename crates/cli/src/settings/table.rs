//! The table of all settings.

/// Which commands take a setting as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Where models are kept: every command.
    Store,
    /// What is run and how: every command that runs a model.
    Model,
    /// The server alone.
    Serve,
}

impl Scope {
    /// Whether a command of this scope takes settings of scope `setting`.
    pub fn takes(self, setting: Self) -> bool {
        match self {
            Self::Store => setting == Self::Store,
            Self::Model => setting != Self::Serve,
            Self::Serve => true,
        }
    }
}

/// What holds if nothing was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This text, parsed like a given one.
    Text(&'static str),
    /// What the words say.
    Described(&'static str),
}

/// A setting: `--name`, `MEDLEY_NAME` and `name` in the file.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The flag without dashes, and the key in the file.
    pub name: &'static str,
    /// What the help shows as the value.
    pub value: &'static str,
    /// The help, with the unit.
    pub help: &'static str,
    /// What holds if nothing was given.
    pub fallback: Fallback,
    /// Who takes it.
    pub scope: Scope,
    /// Whether it may be given several times (a list in the file, commas in the variable).
    pub many: bool,
}

impl Setting {
    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("MEDLEY_{}", self.name.replace('-', "_").to_uppercase())
    }
}

/// The setting called `name`, which must be one of the table: names are written in the code only.
pub fn setting(name: &str) -> &'static Setting {
    find(name).unwrap_or_else(|| unreachable!("no setting is called {name}"))
}

/// The setting called `name`, if there is one.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.name == name)
}

/// The text that holds where the setting called `name` is not given; `None` if only words tell it.
pub fn fallback(name: &str) -> Option<&'static str> {
    match setting(name).fallback {
        Text(text) => Some(text),
        Described(_) => None,
    }
}

/// All settings, for tests of other modules.
#[cfg(test)]
pub fn table_of_all() -> &'static [Setting] {
    SETTINGS
}

const fn row(
    scope: Scope,
    name: &'static str,
    value: &'static str,
    fallback: Fallback,
    help: &'static str,
) -> Setting {
    Setting {
        name,
        value,
        help,
        fallback,
        scope,
        many: false,
    }
}

use Fallback::{Described, Text};
use Scope::{Model, Serve, Store};

/// All settings, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    row(
        Model,
        "model",
        "PATH|HUB_ID",
        Described("the small model that `medley fetch` keeps"),
        "Model: a GGUF file, a folder with safetensors, or a hub id",
    ),
    row(
        Store,
        "model-dir",
        "DIR",
        Described("$XDG_CACHE_HOME/medley/models, or ~/.cache/medley/models"),
        "Folder in which fetched models are kept",
    ),
    Setting {
        many: true,
        ..row(
            Serve,
            "served-model-name",
            "NAME",
            Described("the model's file name"),
            "Name that clients may use for the model; may be repeated, the first is shown. `default` always works",
        )
    },
    row(
        Serve,
        "host",
        "HOST",
        Text("127.0.0.1"),
        "Address to listen on; 0.0.0.0 for all interfaces",
    ),
    row(
        Serve,
        "port",
        "PORT",
        Text("8080"),
        "Port to listen on; 0 takes a free one",
    ),
    Setting {
        many: true,
        ..row(
            Serve,
            "api-key",
            "KEY",
            Described("none: everybody may ask"),
            "Key that requests must come with, as `Authorization: Bearer KEY`; may be repeated. Each key has a cache of its \
             own. Other users of the machine see flags: prefer the variable or a file",
        )
    },
    row(
        Serve,
        "api-key-file",
        "FILE",
        Described("none"),
        "File with further keys, one a line; lines that begin with # are left out",
    ),
    Setting {
        many: true,
        ..row(
            Serve,
            "cors-allow-origin",
            "ORIGIN",
            Text("*"),
            "Origin whose pages may call from a browser, such as https://example.org; may be repeated. * alone is \
             everybody, none alone nobody",
        )
    },
    row(
        Serve,
        "max-body-size",
        "SIZE",
        Text("32MiB"),
        "Bytes that a request's body may have, with units as above; more are answered with 413",
    ),
    row(
        Serve,
        "body-timeout",
        "DURATION",
        Text("30s"),
        "Time that a request's body may take to arrive, then 408: a number with ms, s, m or h, or of seconds",
    ),
    row(
        Serve,
        "header-timeout",
        "DURATION",
        Text("75s"),
        "Time after which a connection is closed on which no head of a request arrived, between requests too. Longer than \
         a load balancer keeps idle connections",
    ),
    row(
        Serve,
        "request-timeout",
        "DURATION",
        Described("none"),
        "Time that an answer may take, or of a stream its beginning, then 504",
    ),
    row(
        Model,
        "device",
        "DEVICE",
        Text("auto"),
        "Where the model runs: cpu, cuda, cuda:N for device N, or auto: CUDA if it is built in and there, else the CPU",
    ),
    row(
        Model,
        "gpu-memory-utilization",
        "SHARE",
        Text("0.9"),
        "Share of the GPU's memory that weights, work and KV may take together, above 0 and at most 1",
    ),
    row(
        Model,
        "threads",
        "N",
        Described("all cores"),
        "Threads that compute",
    ),
    row(
        Model,
        "max-model-len",
        "TOKENS",
        Described("the model's context"),
        "Tokens of prompt and answer together",
    ),
    row(
        Model,
        "max-num-seqs",
        "N",
        Text("16"),
        "Requests that run at the same time",
    ),
    row(
        Model,
        "max-queue",
        "N",
        Text("256"),
        "Requests that may wait; more are answered with 429. 0: none waits, those that can run at once still do",
    ),
    row(
        Model,
        "host-cache-size",
        "SIZE",
        Text("4GiB"),
        "Memory for KV, that of running requests included: a number with a unit, such as 512MB, 4G or 4GiB (k, M, G, T \
         count thousands, Ki, Mi, Gi, Ti 1024s, with or without B), or of bytes",
    ),
    row(
        Model,
        "blend-mode",
        "MODE",
        Text("auto"),
        "How documents are treated: auto (reuse and repair), exact (plain prefill) or off (no reuse at all)",
    ),
    row(
        Model,
        "blend-ratio",
        "RATIO",
        Text("0.15"),
        "Share of document tokens to recompute, from 0 to 1, or auto: what the model's calibration says that it needs",
    ),
    row(
        Model,
        "blend-target-kl",
        "NATS",
        Text("0.06"),
        "How far blended answers may be from a full prefill's in the calibration, in nats a token: decides the ratio that \
         a model needs; the same token must be preferred at nine positions of ten besides",
    ),
    row(
        Serve,
        "blend-gate",
        "GATE",
        Text("warn"),
        "What happens to ratios below what the model needs: off (nothing), warn (they are counted) or refuse",
    ),
    row(
        Model,
        "blend-strategy",
        "STRATEGY",
        Text("auto"),
        "Which document tokens are recomputed: auto, heads, deviation or query",
    ),
    row(
        Model,
        "blend-hops",
        "N",
        Text("0"),
        "Further hops of the query strategy, also where auto takes it: 0 to 8",
    ),
    row(
        Model,
        "blend-rounds",
        "N",
        Text("1"),
        "Rounds of the query strategy, also where auto takes it: 1 to 8",
    ),
    row(
        Model,
        "blend-check-layer",
        "LAYER",
        Text("1"),
        "Layer whose keys the deviation strategy compares: 1 to the model's last layer, counted from 0",
    ),
    row(
        Model,
        "blend-anchor",
        "bos|neutral|FILE",
        Text("bos"),
        "What documents are computed behind: the first token, a neutral passage, or the text of a file",
    ),
    row(
        Serve,
        "blend-shadow-rate",
        "RATE",
        Text("0"),
        "Share of blended requests that are also run exactly in idle moments, to measure how far the answers are from \
         a full prefill: 0 to 1",
    ),
    row(
        Serve,
        "blend-separator",
        "STR",
        Described("none: documents come as documents"),
        "Text at which a plain prompt is split: its first part are the instructions, its last the question, those \
         between are documents",
    ),
    row(
        Serve,
        "chat-template",
        "FILE",
        Described("the model's own"),
        "Jinja template of conversations",
    ),
    row(
        Serve,
        "tool-call-parser",
        "FORMAT",
        Text("auto"),
        "How the model writes calls of tools: hermes, llama3_json, mistral, or auto, which asks the chat template",
    ),
    row(
        Serve,
        "shutdown-timeout",
        "DURATION",
        Text("30s"),
        "Time that running requests have to finish after a termination signal: a number with ms, s, m or h, or of seconds",
    ),
    row(
        Model,
        "log-format",
        "FORMAT",
        Text("text"),
        "Form of the log on standard error: text or json",
    ),
    row(
        Model,
        "log-level",
        "LEVEL",
        Text("info"),
        "Least severe level that is logged: error, warn, info, debug or trace",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_own_name_and_variable() {
        for (i, s) in SETTINGS.iter().enumerate() {
            assert!(
                SETTINGS[i + 1..].iter().all(|t| t.name != s.name),
                "{} twice",
                s.name
            );
            assert!(
                s.variable().bytes().all(|b| b.is_ascii_uppercase() || b == b'_'),
                "{}",
                s.variable()
            );
        }
        assert_eq!(setting("max-model-len").variable(), "MEDLEY_MAX_MODEL_LEN");
    }
}
