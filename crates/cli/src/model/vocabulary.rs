//! Whether a tokenizer and a model belong together.
//!
//! Models often have rows to spare, so a smaller tokenizer is fine. A larger one is fine as long as no text becomes a
//! token that the model has no row for; where a client sends such a token itself, the engine refuses the request.

use medley_kv::TokenId;
use medley_prompt::Tokenizer;

/// Refuses a tokenizer that turns texts into tokens from `vocab` on, or begins with one. Logs if there are only control
/// tokens and gaps.
pub fn check(tokenizer: &Tokenizer, vocab: usize) -> Result<(), String> {
    let size = tokenizer.vocab_size();
    if size <= vocab {
        return Ok(());
    }
    let beyond = || (vocab..size).map(|id| TokenId(id as u32));
    let is_text = |token: &TokenId| !tokenizer.token_bytes(*token).is_empty();
    if let Some(token) = beyond().find(|token| is_text(token) || tokenizer.bos() == Some(*token)) {
        return Err(format!(
            "the tokenizer is not the model's: it has token {} ({:?}), the model's tokens end before {vocab}",
            token.0,
            tokenizer.token_text(token),
        ));
    }
    tracing::warn!(
        tokenizer = size,
        model = vocab,
        "the tokenizer has control tokens that the model has not"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use medley_prompt::GgufVocabulary;

    use super::*;

    /// The first id behind the bytes, which a vocabulary must have.
    const REST: usize = 256;

    /// After the bytes: unknown, `a`, `<s>`, `b`, `<tool>`. `bos` counts from there.
    fn tokenizer(bos: usize) -> Tokenizer {
        let bytes = (0..REST).map(|byte| (format!("<0x{byte:02X}>"), 6));
        let rest = [("<unk>", 2), ("a", 1), ("<s>", 3), ("b", 1), ("<tool>", 3)];
        let (tokens, token_types): (Vec<_>, Vec<_>) = bytes
            .chain(rest.map(|(text, kind)| (text.to_owned(), kind)))
            .unzip();
        Tokenizer::from_gguf(GgufVocabulary {
            model: "llama".to_owned(),
            scores: vec![0.0; tokens.len()],
            tokens,
            token_types,
            unknown: Some(REST as u32),
            bos: Some((REST + bos) as u32),
            ..GgufVocabulary::default()
        })
        .expect("a tokenizer")
    }

    #[test]
    fn a_tokenizer_may_be_smaller_than_the_model_or_exceed_it_by_control_tokens() {
        for vocab in [4, 5, 6, 100] {
            assert_eq!(check(&tokenizer(2), REST + vocab), Ok(()), "{vocab}");
        }
    }

    #[test]
    fn text_that_becomes_a_token_without_a_row_is_refused() {
        let reason = check(&tokenizer(2), REST + 3).expect_err("b has no row");
        assert!(
            reason.contains("token 259 (\"b\")") && reason.contains("before 259"),
            "{reason}"
        );
    }

    #[test]
    fn a_first_token_without_a_row_is_refused() {
        let reason = check(&tokenizer(4), REST + 4).expect_err("BOS has no row");
        assert!(reason.contains("<tool>"), "{reason}");
    }
}
