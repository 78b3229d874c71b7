//! Whether a prompt fits into the context, and how much is left behind it.

use std::fmt::Write;

use medley_kv::Prompt;

use crate::error::ApiError;

/// Documents whose lengths an error lists; more are summed up.
const MOST_LISTED: usize = 512;

/// Tokens that may be generated behind `prompt`: at least 1.
pub(super) fn room(index: usize, prompt: &Prompt, context: usize) -> Result<usize, ApiError> {
    match context.checked_sub(prompt.len()) {
        Some(room) if room > 0 => Ok(room),
        _ => {
            let (tokens, documents) = (prompt.len(), lengths(prompt));
            Err(ApiError::ContextLength {
                prompt: index,
                tokens,
                context,
                documents,
            })
        }
    }
}

/// `; tokens of documents: [0] 120, [1] 80; others 12`, or nothing without documents.
fn lengths(prompt: &Prompt) -> String {
    let mut text = String::new();
    let mut others = prompt.len();
    for (index, document) in prompt.documents().enumerate() {
        let tokens = document.tokens.len();
        others -= tokens;
        let lead = if index == 0 {
            "; tokens of documents: "
        } else {
            ", "
        };
        if index < MOST_LISTED {
            // Writing to a string can't fail.
            let _ = write!(text, "{lead}[{index}] {tokens}");
        }
    }
    if !text.is_empty() {
        let _ = write!(text, "; others {others}");
    }
    text
}
