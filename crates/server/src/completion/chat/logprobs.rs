//! Log-probabilities in the chat endpoint's shape.

use medley_generate::TokenEvent;
use medley_kv::TokenId;
use medley_openai::{ChatLogprob, ChatLogprobs, ChatTopLogprob};
use medley_prompt::Tokenizer;

use super::super::logprobs::{LEAST, finite, name};

/// A generated token.
pub(super) fn of(event: &TokenEvent, tokenizer: &Tokenizer) -> ChatLogprob {
    let top = event.top.iter().map(|top| ChatTopLogprob {
        token: name(tokenizer, top.token),
        logprob: finite(top.logprob),
        bytes: bytes(tokenizer, top.token),
    });
    ChatLogprob {
        token: name(tokenizer, event.token),
        logprob: finite(event.logprob.unwrap_or(LEAST)),
        bytes: bytes(tokenizer, event.token),
        top_logprobs: top.collect(),
    }
}

/// As the list that answers carry.
pub(super) fn list(content: Vec<ChatLogprob>) -> ChatLogprobs {
    ChatLogprobs {
        content,
        refusal: None,
    }
}

fn bytes(tokenizer: &Tokenizer, token: TokenId) -> Option<Vec<u8>> {
    let bytes = tokenizer.token_bytes(token);
    (!bytes.is_empty()).then(|| bytes.to_vec())
}
