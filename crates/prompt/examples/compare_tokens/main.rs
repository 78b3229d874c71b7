//! Compares this crate's tokens with those of a peer: `compare_tokens MODEL.gguf LINES.json IDS.json`.
//!
//! `tests/peers/mixed_lines.mjs` writes the lines and `tests/peers/tokenize.mjs` the peer's ids. Prints the first
//! lines that differ and fails if any does.

mod gguf_metadata;

use std::{env, fs};

use anyhow::{Context, Result, ensure};
use medley_kv::TokenId;
use medley_prompt::{Specials, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    as_text: Vec<Vec<u32>>,
    as_tokens: Vec<Vec<u32>>,
}

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [model, lines, ids] = arguments.as_slice() else {
        anyhow::bail!("usage: compare_tokens MODEL.gguf LINES.json IDS.json");
    };
    let tokenizer = Tokenizer::from_gguf(gguf_metadata::vocabulary(model)?)?;
    let lines: Vec<String> = serde_json::from_str(&fs::read_to_string(lines).context("lines")?)?;
    let expected: Expected = serde_json::from_str(&fs::read_to_string(ids).context("ids")?)?;
    let text = compare(&tokenizer, &lines, &expected.as_text, Specials::AsText);
    let tokens = compare(&tokenizer, &lines, &expected.as_tokens, Specials::AsTokens);
    ensure!(
        text + tokens == 0,
        "{text} lines differ as text, {tokens} as tokens, of {}",
        lines.len()
    );
    println!("{model}: {} lines, equal as text and as tokens", lines.len());
    Ok(())
}

/// Number of lines whose tokens differ.
fn compare(tokenizer: &Tokenizer, lines: &[String], expected: &[Vec<u32>], specials: Specials) -> usize {
    assert_eq!(lines.len(), expected.len(), "one list of ids for each line");
    let mut different = 0;
    for (line, expected) in lines.iter().zip(expected) {
        let found: Vec<u32> = tokenizer
            .encode(line, specials)
            .iter()
            .map(|token| token.0)
            .collect();
        if found != *expected {
            different += 1;
            if different <= 3 {
                show(tokenizer, line, &found, expected, specials);
            }
        }
    }
    different
}

fn show(tokenizer: &Tokenizer, line: &str, found: &[u32], expected: &[u32], specials: Specials) {
    let spell = |ids: &[u32]| {
        ids.iter()
            .map(|id| tokenizer.token_text(TokenId(*id)))
            .collect::<Vec<_>>()
            .join("|")
    };
    println!(
        "{specials:?} {line:?}\n  found    {}\n  expected {}",
        spell(found),
        spell(expected)
    );
}
