//! Tiny vocabularies for tests, built in memory.

use crate::{GgufVocabulary, Tokenizer};

/// A byte-level vocabulary: `<bos>` 0 and `<|im_end|>` 1 are control tokens, `<tool>` 2 is user-defined, byte `b` is
/// `3 + b`, and the merges spell `<bos>`, ` a`, `ab`, and `he`, `ll`, `hell`, `hello`, ` #`.
pub(crate) fn byte_level() -> GgufVocabulary {
    let chars = (0..=255u8).map(|byte| crate::tokenizer::char_of(byte).to_string());
    let merges = [
        "< b", "o s", "<b os", "<bos >", "Ġ a", "a b", "h e", "l l", "he ll", "hell o", "Ġ #",
    ];
    let mut tokens: Vec<String> = ["<bos>", "<|im_end|>", "<tool>"].map(str::to_owned).into();
    tokens.extend(chars);
    tokens.extend(
        merges
            .iter()
            .filter(|m| **m != "<bos >")
            .map(|m| m.replace(' ', "")),
    );
    let mut token_types = vec![1; tokens.len()];
    token_types[..3].copy_from_slice(&[3, 3, 4]);
    GgufVocabulary {
        model: "gpt2".to_owned(),
        pre: "default".to_owned(),
        tokens,
        token_types,
        merges: merges.map(str::to_owned).into(),
        bos: Some(0),
        eos: Some(1),
        add_bos: Some(true),
        ..GgufVocabulary::default()
    }
}

/// A SentencePiece vocabulary: `<unk>` 0, `<s>` 1 and `</s>` 2, byte `b` is `3 + b`, then pieces.
pub(crate) fn sentencepiece() -> GgufVocabulary {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    let mut token_types = vec![2, 3, 3];
    tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    token_types.resize(tokens.len(), 6);
    let pieces = [
        "▁a", "aa", "aaa", "<s", "▁b", "ab", "▁", "a", "b", "<", "s", ">", "/", "#",
    ];
    tokens.extend(pieces.map(str::to_owned));
    token_types.resize(tokens.len(), 1);
    let scores = (0..tokens.len()).map(|id| -(id as f32)).collect();
    GgufVocabulary {
        model: "llama".to_owned(),
        tokens,
        token_types,
        scores,
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        ..GgufVocabulary::default()
    }
}

/// A tokenizer of [`byte_level`].
pub(crate) fn byte_level_tokenizer() -> Tokenizer {
    Tokenizer::from_gguf(byte_level()).expect("byte-level vocabulary")
}
