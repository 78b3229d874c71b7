//! The architecture: which crate may depend on which.

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

/// What each crate may use of ours. A crate that is not listed may not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("kv", &[]),
    ("openai", &[]),
    ("prompt", &["kv"]),
    ("chat", &[]),
    ("blend", &["kv"]),
    ("store", &["kv"]),
    ("backend", &["kv"]),
    ("kernels", &[]),
    ("backend-mistralrs", &["kv", "backend", "kernels"]),
    ("generate", &["kv"]),
    ("quality", &[]),
    ("shadow", &["kv", "generate", "quality"]),
    ("engine", &["kv", "blend", "store", "backend", "generate"]),
    (
        "server",
        &["openai", "chat", "prompt", "generate", "shadow", "kv"],
    ),
    (
        "bench",
        &[
            "kv",
            "openai",
            "prompt",
            "blend",
            "store",
            "backend",
            "kernels",
            "backend-mistralrs",
            "generate",
            "engine",
            "quality",
        ],
    ),
    (
        "cli",
        &[
            "kv",
            "openai",
            "chat",
            "prompt",
            "blend",
            "store",
            "backend",
            "kernels",
            "backend-mistralrs",
            "generate",
            "engine",
            "quality",
            "shadow",
            "server",
            "bench",
        ],
    ),
];

/// Crates that alone may use an outside crate.
const RESERVED: &[(&str, &[&str])] = &[
    ("mistralrs-core", &[]),
    ("mistralrs-quant", &["backend-mistralrs"]),
    ("candle-core", &["backend-mistralrs"]),
    ("axum", &["server"]),
];

fn metadata() -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

/// Crate and what it depends on outside of tests.
fn dependencies(metadata: &Value) -> Vec<(String, BTreeSet<String>)> {
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |v: &Value| v.as_str().expect("a name").to_owned();
    let of = |package: &Value| {
        let all = package["dependencies"].as_array().expect("dependencies");
        let kept = all.iter().filter(|d| d["kind"].as_str() != Some("dev"));
        (name(&package["name"]), kept.map(|d| name(&d["name"])).collect())
    };
    packages.iter().map(of).collect()
}

#[test]
fn crates_depend_only_along_the_arrows() {
    for (package, uses) in dependencies(&metadata()) {
        let Some(package) = package.strip_prefix("medley-") else {
            panic!("{package} is not named medley-…")
        };
        if package == "tests" {
            continue;
        }
        let arrows = ARROWS.iter().find(|(name, _)| *name == package);
        let (_, allowed) = arrows.unwrap_or_else(|| panic!("{package} has no place in the architecture"));
        for used in uses.iter().filter_map(|u| u.strip_prefix("medley-")) {
            assert!(allowed.contains(&used), "{package} must not depend on {used}");
        }
    }
}

#[test]
fn outside_crates_stay_where_they_belong() {
    for (package, uses) in dependencies(&metadata()) {
        for (reserved, users) in RESERVED.iter().filter(|(reserved, _)| uses.contains(*reserved)) {
            let package = package.trim_start_matches("medley-");
            assert!(
                users.contains(&package),
                "{package} must not depend on {reserved}"
            );
        }
    }
}
