//! Log-probabilities in the completion endpoint's shape.

use std::collections::BTreeMap;

use medley_generate::{PromptToken, TokenEvent, TopLogprob};
use medley_kv::TokenId;
use medley_openai::CompletionLogprobs;
use medley_prompt::Tokenizer;

/// JSON has no infinity; this is what clients know as one.
pub(super) const LEAST: f32 = -9999.0;

/// Where the next token of a choice begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offset {
    /// Characters that tokens so far have begun.
    begun: usize,
}

impl Offset {
    /// The place of a token of these bytes, in characters. A token that continues a character begun by the token
    /// before it stands where that character does.
    fn advance(&mut self, bytes: &[u8]) -> usize {
        let continues = bytes.first().is_some_and(|byte| !begins_character(*byte));
        let place = self.begun.saturating_sub(usize::from(continues));
        self.begun += bytes.iter().filter(|byte| begins_character(**byte)).count();
        place
    }
}

fn begins_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// A token of the prompt or of the text, with what is known of its probability.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    token: TokenId,
    /// None for the first token of a prompt.
    logprob: Option<f32>,
    top: &'a [TopLogprob],
}

impl<'a> From<&'a TokenEvent> for Listed<'a> {
    fn from(event: &'a TokenEvent) -> Self {
        Self {
            token: event.token,
            logprob: Some(event.logprob.unwrap_or(LEAST)),
            top: &event.top,
        }
    }
}

impl<'a> From<&'a PromptToken> for Listed<'a> {
    fn from(token: &'a PromptToken) -> Self {
        Self {
            token: token.token,
            logprob: token.logprob,
            top: &token.top,
        }
    }
}

/// Adds a token.
pub(super) fn add<'a>(
    list: &mut CompletionLogprobs,
    offset: &mut Offset,
    listed: impl Into<Listed<'a>>,
    tokenizer: &Tokenizer,
) {
    let listed = listed.into();
    let name = name(tokenizer, listed.token);
    let logprob = listed.logprob.map(finite);
    let top = logprob.map(|logprob| {
        let mut top = BTreeMap::new();
        for alternative in listed.top {
            // Two tokens may have one text; the more probable comes first and stays.
            top.entry(self::name(tokenizer, alternative.token))
                .or_insert(finite(alternative.logprob));
        }
        top.entry(name.clone()).or_insert(logprob);
        top
    });
    list.text_offset
        .push(offset.advance(tokenizer.token_bytes(listed.token)));
    list.tokens.push(name);
    list.token_logprobs.push(logprob);
    list.top_logprobs.push(top);
}

pub(super) fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() {
        logprob.max(LEAST)
    } else {
        LEAST
    }
}

/// The token's text; bytes that are no text are spelled `bytes:\xe2\x80`, control tokens as the vocabulary does.
pub(super) fn name(tokenizer: &Tokenizer, token: TokenId) -> String {
    match tokenizer.token_bytes(token) {
        [] => tokenizer.token_text(token).to_owned(),
        bytes => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes
                .iter()
                .fold("bytes:".to_owned(), |name, byte| name + &format!("\\x{byte:02x}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_characters_also_where_tokens_split_them() {
        let mut offset = Offset::default();
        // "a", "é" in two tokens, "b", "日" in three tokens of which the last carries the next letter.
        let tokens: [&[u8]; 7] = [b"a", b"\xc3", b"\xa9", b"b", b"\xe6", b"\x97", b"\xa5c"];
        let places: Vec<_> = tokens.iter().map(|bytes| offset.advance(bytes)).collect();
        assert_eq!(places, [0, 1, 1, 2, 3, 3, 3]);
        assert_eq!(offset.advance(b"d"), 5);
    }

    #[test]
    fn infinities_become_what_json_can_say() {
        assert_eq!(
            [finite(f32::NEG_INFINITY), finite(f32::NAN), finite(-1.5)],
            [LEAST, LEAST, -1.5]
        );
    }
}
