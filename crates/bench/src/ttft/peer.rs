//! llama.cpp on the same model, through its Node binding in a process of its own.
//!
//! The process answers one line of JSON for each line that it is given and computes only then, so both sides can
//! take turns on one machine. Tokens are given as ids: both sides run the same ones.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use medley_kv::TokenId;
use serde::{Deserialize, Serialize};

const SCRIPT: &str = include_str!("../../peers/llama_cpp.mjs");
const PACKAGE: &str = include_str!("../../peers/package.json");

/// Where the peer is installed and what it runs.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Folder for the packages; filled on first use.
    pub folder: PathBuf,
    /// The GGUF file.
    pub model: PathBuf,
}

/// The peer's process.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    build: String,
}

/// One measurement of the peer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct PeerSample {
    /// Milliseconds from the call to the first token.
    pub ttft_ms: f64,
    /// Tokens per second behind the first one.
    pub decode_rate: f64,
    /// Most memory that the process has had resident, in bytes.
    pub peak_memory_bytes: u64,
    /// What the binding runs on.
    #[serde(skip)]
    pub build: String,
}

#[derive(Serialize)]
struct Job<'a> {
    tokens: &'a [u32],
    decode: usize,
}

#[derive(Deserialize)]
struct Ready {
    build: String,
}

impl Peer {
    /// Installs the binding if it is not there, and loads the model with room for `context` tokens.
    pub fn start(options: &PeerOptions, threads: usize, context: usize) -> Result<Self> {
        install(&options.folder)?;
        let mut child = Command::new("node")
            .arg(options.folder.join("llama_cpp.mjs"))
            .arg(options.model.canonicalize().context("the model's file")?)
            .args([threads.to_string(), context.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("can't run node")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut peer = Self {
            child,
            input,
            output,
            build: String::new(),
        };
        let ready: Ready = peer.line().context("the peer did not start")?;
        peer.build = ready.build;
        Ok(peer)
    }

    /// Prefills `tokens` from nothing and decodes `decode` more behind the first.
    pub(super) fn measure(&mut self, tokens: &[TokenId], decode: usize) -> Result<PeerSample> {
        let tokens: Vec<u32> = tokens.iter().map(|token| token.0).collect();
        let job = serde_json::to_string(&Job {
            tokens: &tokens,
            decode,
        })?;
        writeln!(self.input, "{job}").context("the peer is gone")?;
        let sample: PeerSample = self.line()?;
        Ok(PeerSample {
            build: self.build.clone(),
            ..sample
        })
    }

    fn line<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("the peer is gone")?;
        ensure!(!line.is_empty(), "the peer ended; its messages are above");
        serde_json::from_str(&line).with_context(|| format!("the peer said {line:?}"))
    }
}

/// Ends the process: nobody reads it any more.
impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    std::fs::write(folder.join("llama_cpp.mjs"), SCRIPT)?;
    let package = folder.join("package.json");
    let installed = std::fs::read_to_string(&package).is_ok_and(|text| text == PACKAGE);
    if installed && folder.join("node_modules/node-llama-cpp").is_dir() {
        return Ok(());
    }
    std::fs::write(&package, PACKAGE)?;
    let arguments = [
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--no-package-lock",
        "--loglevel=error",
    ];
    let status = Command::new("npm")
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .status();
    let status = status.context("can't run npm; --no-peer measures without llama.cpp")?;
    ensure!(
        status.success(),
        "npm install failed in {}; --no-peer measures without llama.cpp",
        folder.display()
    );
    Ok(())
}
