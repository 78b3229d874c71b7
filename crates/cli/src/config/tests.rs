use std::{collections::BTreeMap, time::Duration};

use medley_bench::calibration::Target;
use medley_kv::{BlendMode, Strategy};

use super::*;
use crate::settings::Environment;

fn layers(
    flags: &[(&'static str, &str)],
    config: Option<&str>,
    environment: Environment,
) -> Result<Layers, Misconfigured> {
    let flags: BTreeMap<_, _> = flags
        .iter()
        .map(|(name, text)| (*name, vec![(*text).to_owned()]))
        .collect();
    Layers::new(flags, config.map(str::to_owned), environment)
}

fn home() -> Environment {
    Environment::from([("HOME", "/home/u")])
}

fn both(layers: &Layers) -> Result<(ModelConfig, ServerConfig), Misconfigured> {
    Ok((ModelConfig::new(layers)?, ServerConfig::new(layers)?))
}

/// The message that refuses these flags.
fn refusal(flags: &[(&'static str, &str)]) -> String {
    let refused = layers(flags, None, home()).and_then(|l| both(&l));
    refused.expect_err("the configuration is wrong").to_string()
}

#[test]
fn the_defaults_are_valid() {
    let (model, server) = layers(&[], None, home()).and_then(|l| both(&l)).expect("valid");
    assert_eq!(model.blend.options, medley_kv::BlendOptions::default());
    assert_eq!(model.blend.target, Target::default());
    assert_eq!(model.model, None);
    assert_eq!(model.model_dir.to_str(), Some("/home/u/.cache/medley/models"));
    assert_eq!(model.host_cache.value, Bytes(4 << 30));
    assert_eq!((server.host.as_str(), server.port), ("127.0.0.1", 8080));
    assert_eq!(server.shutdown_timeout, Time(Duration::from_secs(30)));
    assert_eq!(server.separator, None);
    assert_eq!(server.chat, Chat::default());
    assert_eq!(server.shadow_rate, Rate::NONE);
}

#[test]
fn the_shadow_rate_may_be_given_anywhere() {
    let rate = |flags, environment| {
        let layers = layers(flags, None, environment).expect("no file");
        ServerConfig::new(&layers).expect("valid").shadow_rate.get()
    };
    assert_eq!(rate(&[("blend-shadow-rate", "0.01")], home()), 0.01);
    let variable = Environment::from([("HOME", "/h"), ("MEDLEY_BLEND_SHADOW_RATE", "1")]);
    assert_eq!(rate(&[], variable), 1.0);
}

#[test]
fn wrong_values_are_refused_by_the_name_of_their_flag() {
    let wrong = [
        ("port", "70000"),
        ("threads", "0"),
        ("max-model-len", "-1"),
        ("max-num-seqs", "many"),
        ("max-queue", "x"),
        ("host-cache-size", "4 parsecs"),
        ("host-cache-size", "0"),
        ("blend-mode", "on"),
        ("blend-ratio", "1.5"),
        ("blend-ratio", "nan"),
        ("blend-strategy", "best"),
        ("blend-target-kl", "0"),
        ("blend-target-kl", "nan"),
        ("blend-gate", "open"),
        ("blend-hops", "9"),
        ("blend-hops", "300"),
        ("blend-rounds", "0"),
        ("blend-rounds", "9"),
        ("blend-check-layer", "0"),
        ("blend-anchor", "/no/such/file"),
        ("blend-shadow-rate", "-0.1"),
        ("blend-shadow-rate", "1.01"),
        ("blend-shadow-rate", "nan"),
        ("blend-shadow-rate", "1%"),
        ("device", "tpu"),
        ("shutdown-timeout", "soon"),
        ("max-body-size", "much"),
        ("body-timeout", "soon"),
        ("header-timeout", "soon"),
        ("request-timeout", "soon"),
        ("cors-allow-origin", "a.example"),
        ("log-format", "xml"),
        ("log-level", "loud"),
    ];
    for (name, text) in wrong {
        let message = refusal(&[(name, text)]);
        let said = message.starts_with(&format!("--{name}: `{text}` is ")) || text == "0";
        assert!(said && message.starts_with(&format!("--{name}: ")), "{message}");
    }
    for (name, text) in [("served-model-name", " "), ("blend-separator", "")] {
        let message = refusal(&[(name, text)]);
        assert!(
            message.starts_with(&format!("--{name}: ")) && message.contains("empty"),
            "{message}"
        );
    }
    assert_eq!(
        refusal(&[("blend-ratio", "1.5")]),
        "--blend-ratio: `1.5` is not a number from 0 to 1"
    );
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_device_that_was_not_built_in_is_refused() {
    let message = refusal(&[("device", "cuda")]);
    assert!(
        message.starts_with("--device: `cuda` is ") && message.contains("not built"),
        "{message}"
    );
}

#[test]
fn a_server_may_be_told_to_let_nothing_wait() {
    let layers = layers(&[("max-queue", "0")], None, home()).expect("no file");
    assert_eq!(ModelConfig::new(&layers).expect("valid").limits.max_queue, 0);
}

#[test]
fn a_file_gives_what_flags_and_variables_leave_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("medley.toml");
    let text = "port = 1\nblend-ratio = 0.25\nserved-model-name = [\"a\", \"b\"]\nblend-mode = \"exact\"\nblend-strategy = \"heads\"\n";
    std::fs::write(&path, text).expect("written");
    let environment = Environment::from([
        ("HOME", "/h"),
        ("MEDLEY_PORT", "2"),
        ("MEDLEY_BLEND_STRATEGY", "query"),
    ]);
    let layers = layers(&[("blend-mode", "off")], path.to_str(), environment).expect("readable");
    let (model, server) = both(&layers).expect("valid");
    assert_eq!(server.port, 2);
    assert_eq!(server.names, ["a", "b"]);
    assert_eq!(model.blend.options.mode, BlendMode::Off);
    assert_eq!(model.blend.options.strategy, Strategy::Query);
    assert_eq!(model.blend.options.ratio.get(), 0.25);
}

#[test]
fn mistakes_in_a_file_are_named_by_file_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("medley.toml");
    let refused = |text: &str| {
        std::fs::write(&path, text).expect("written");
        let refused = layers(&[], path.to_str(), home()).and_then(|l| both(&l));
        refused.expect_err("the file is wrong").to_string()
    };
    let at = |key: &str| format!("{}: {key}", path.display());
    assert!(refused("prot = 1").starts_with(&at("prot: unknown key")));
    assert!(refused("max_queue = 1").contains("written max-queue"));
    assert!(refused("port = \"x\"").starts_with(&at("port: ")));
    assert!(refused("port = [1]").starts_with(&at("port: ")));
    assert!(refused("[port]").starts_with(&at("port: ")));
    assert!(refused("port = ").starts_with(&at("")));
    let missing = layers(&[], Some("/no/such.toml"), home())
        .expect_err("no file")
        .to_string();
    assert!(missing.starts_with("/no/such.toml: "), "{missing}");
}

#[test]
fn a_separator_given_as_nothing_switches_off_that_of_lmcache() {
    let environment = || Environment::from([("HOME", "/h"), ("LMCACHE_BLEND_SPECIAL_STR", " # # ")]);
    let with = layers(&[], None, environment()).expect("no file");
    assert_eq!(
        ServerConfig::new(&with).expect("valid").separator.as_deref(),
        Some(" # # ")
    );
    let without = layers(&[("blend-separator", "")], None, environment()).expect("no file");
    assert_eq!(ServerConfig::new(&without).expect("valid").separator, None);
}

#[test]
fn the_model_folder_follows_the_flag_then_the_cache_folder_then_home() {
    let folder = |flags, environment| layers(flags, None, environment).and_then(|l| model_dir(&l));
    let xdg = Environment::from([("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]);
    assert_eq!(folder(&[], xdg.clone()), Ok("/c/medley/models".into()));
    assert_eq!(folder(&[("model-dir", "/m")], xdg), Ok("/m".into()));
    assert!(folder(&[], Environment::default()).is_err());
}

#[test]
fn a_chat_template_is_read_and_a_format_of_tool_calls_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chat.jinja");
    std::fs::write(&path, "{{ messages }}").expect("written");
    let path = path.to_str().expect("a path");
    let given = layers(
        &[("chat-template", path), ("tool-call-parser", "mistral")],
        None,
        home(),
    );
    let chat = ServerConfig::new(&given.expect("flags")).expect("valid").chat;
    let template = chat.template.expect("a template");
    assert_eq!(
        (template.value.as_str(), template.origin),
        ("{{ messages }}", Origin::Flag("chat-template"))
    );
    assert_eq!(chat.tools, Some(medley_chat::ToolFormat::Mistral));
    assert!(refusal(&[("chat-template", "/absent")]).starts_with("--chat-template: "));
    assert!(refusal(&[("tool-call-parser", "best")]).contains("llama3_json"));
}
