//! From a request's texts and documents to a prompt of token segments.
//!
//! [`Tokenizer`] turns text into token ids and token ids into bytes; [`Composer`] puts a request's instructions,
//! documents and prompt together as a [`medley_kv::Prompt`] in which documents are still documents.
//!
//! Invariants: each part of a prompt is tokenised alone, so a document has the same tokens wherever it stands;
//! text of a document never becomes a control token. This crate reads no files, speaks no HTTP and knows nothing
//! of caches: references to stored documents are resolved before a request gets here.

mod composer;
#[cfg(test)]
mod test_vocabulary;
mod tokenizer;

pub use composer::{
    Anchor, Body, CompletionInput, ComposeError, Composed, Composer, ComposerError, DocumentInput, PartInput,
    PartsInput, PromptInput,
};
pub use tokenizer::{GgufVocabulary, Specials, Tokenizer, TokenizerError};
