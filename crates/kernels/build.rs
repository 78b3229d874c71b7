//! Compiles the CUDA sources to one image each, if the feature `cuda` is on. Nothing is downloaded: nvcc is taken from
//! `NVCC`, from the `bin` folder of `CUDA_HOME` or `CUDA_PATH`, or from `PATH`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source and the devices that it is compiled for.
const SOURCES: [(&str, &[&str]); 6] = [
    ("ops", &PORTABLE),
    ("attention", &PORTABLE),
    ("decode", &PORTABLE),
    ("sample", &PORTABLE),
    ("attention_sm90", &HOPPER),
    ("decode_sm90", &HOPPER),
];

/// Machine code for H100 and H200 alone.
const HOPPER: [&str; 1] = ["arch=compute_90a,code=sm_90a"];

/// Machine code for A100 and H100/H200, and PTX that the driver compiles for other devices from 8.0 on.
const PORTABLE: [&str; 3] = [
    "arch=compute_80,code=sm_80",
    "arch=compute_90a,code=sm_90a",
    "arch=compute_80,code=compute_80",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cuda");
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let nvcc = nvcc();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let compiling: Vec<_> = SOURCES
        .iter()
        .map(|(name, targets)| (name, start(&nvcc, &out, name, targets)))
        .collect();
    for (name, mut compiler) in compiling {
        let status = compiler
            .wait()
            .unwrap_or_else(|error| fail(&format!("nvcc: {error}")));
        if !status.success() {
            fail(&format!("nvcc could not compile cuda/{name}.cu"));
        }
    }
}

fn start(nvcc: &Path, out: &Path, name: &str, targets: &[&str]) -> std::process::Child {
    let mut command = Command::new(nvcc);
    command.args(["-O3", "-std=c++17", "--fatbin", "-lineinfo"]);
    targets.iter().for_each(|target| {
        command.arg(format!("-gencode={target}"));
    });
    command.arg(format!("cuda/{name}.cu"));
    command.arg("-o").arg(out.join(format!("{name}.fatbin")));
    command
        .spawn()
        .unwrap_or_else(|error| fail(&format!("{}: {error}", nvcc.display())))
}

fn nvcc() -> PathBuf {
    if let Some(nvcc) = env::var_os("NVCC") {
        return nvcc.into();
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let installed = homes.map(|home| Path::new(&home).join("bin").join("nvcc"));
    installed
        .into_iter()
        .find(|nvcc| nvcc.exists())
        .unwrap_or_else(|| "nvcc".into())
}

fn fail(message: &str) -> ! {
    println!("cargo:warning={message}; the feature `cuda` needs CUDA's compiler (set CUDA_HOME or NVCC)");
    std::process::exit(1);
}
