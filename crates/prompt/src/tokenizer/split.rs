//! How a byte-level BPE model's text is split before merging, by the name that GGUF files give it.
//!
//! Each pattern cuts the pieces that the one before it left: matches become pieces, and so does what lies between.

/// A named way to split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Patterns, applied in order.
    pub(crate) patterns: &'static [&'static str],
    /// Whether a piece that is in the vocabulary is taken whole, whatever the merges say.
    pub(crate) whole_pieces: bool,
    /// Whether models with this name put BOS in front unless their file says otherwise.
    pub(crate) adds_bos: bool,
}

/// The accepted names.
pub(crate) const NAMES: &str = "qwen2, deepseek-r1-qwen, llama-bpe, llama3, llama-v3, smollm, gpt-2, default";

/// GPT-2's words; also what most later patterns derive from.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Contractions are spelled out in both cases: case folding would also match letters like `ſ`.
const LLAMA3: &str = concat!(
    r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// As Llama 3's, with single digits.
const QWEN2: &str = concat!(
    r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The way to split that a GGUF file names, or none if the name is not known.
pub(crate) fn named(pre: &str) -> Option<Split> {
    let plain = |patterns| {
        Some(Split {
            patterns,
            whole_pieces: false,
            adds_bos: false,
        })
    };
    match pre {
        "qwen2" | "deepseek-r1-qwen" => plain(&[QWEN2]),
        "llama-bpe" | "llama3" | "llama-v3" => Some(Split {
            patterns: &[LLAMA3],
            whole_pieces: true,
            adds_bos: true,
        }),
        "smollm" => plain(&[r"\p{N}", GPT2]),
        "gpt-2" => plain(&[GPT2]),
        "default" => plain(&[r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_known() {
        for name in NAMES.split(", ") {
            assert!(named(name).is_some(), "{name}");
        }
        assert!(named("Qwen2").is_none());
    }
}
