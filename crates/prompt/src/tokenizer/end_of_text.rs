//! Which tokens end a text.
//!
//! Files name one EOS; chat models end their turns with further tokens, known by their spelling.

use medley_kv::TokenId;

use super::vocabulary::{Kind, Vocabulary};

const SPELLINGS: [&str; 12] = [
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "<｜end▁of▁sentence｜>",
];

/// Whether a token with this spelling ends a text in every model that has it.
pub(crate) fn is_known(spelling: &str) -> bool {
    SPELLINGS.contains(&spelling)
}

/// The tokens of `table` that end a text: `eos`, then the control tokens that are known to.
pub(crate) fn tokens(table: &Vocabulary, eos: Option<TokenId>) -> Vec<TokenId> {
    let known = table
        .iter()
        .filter(|(_, text, kind)| *kind == Kind::Control && is_known(text));
    let others = known.map(|(id, _, _)| id).filter(|id| Some(*id) != eos);
    eos.into_iter().chain(others).collect()
}
