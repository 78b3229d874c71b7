//! Puts instructions, documents and prompt together.
//!
//! With documents a prompt is: the leading token and the instructions, the documents, the prompt. Without, it is
//! what a plain completion server would run. A rendered chat comes in parts of its own. Parts are joined as tokens, never as text, so what stands beside a
//! part can't change its tokens.

mod anchor;
mod document;
mod error;
mod input;
mod parts;
mod segments;
mod separator;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use medley_kv::{Document, Prompt, TokenId};

pub use anchor::Anchor;
pub use error::{ComposeError, ComposerError};
pub use input::{Body, CompletionInput, DocumentInput, PartInput, PartsInput, PromptInput};

use crate::{Specials, Tokenizer};
use anchor::Ground;
use segments::Segments;
use separator::Separator;

/// Turns requests into prompts for one model and configuration.
pub struct Composer {
    tokenizer: Tokenizer,
    leading: TokenId,
    ground: Ground,
    separator: Option<Separator>,
}

/// A composed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// The prompt; its documents are the request's, in order and all of them, or those between separators.
    pub prompt: Prompt,
}

/// What the prompts of a batch have in common.
struct Shared {
    instructions: Vec<TokenId>,
    documents: Vec<Document>,
    add_special_tokens: bool,
}

/// A prompt cut at the separators.
struct Pieces {
    tokens: Vec<Vec<TokenId>>,
    from_text: bool,
}

impl Composer {
    /// A composer whose documents stand behind `anchor`, and that splits prompts at `separator`.
    pub fn new(
        tokenizer: Tokenizer,
        anchor: &Anchor,
        separator: Option<&str>,
    ) -> Result<Self, ComposerError> {
        let leading = tokenizer.leading().ok_or(ComposerError::NoLeadingToken)?;
        let ground = Ground::new(anchor, &tokenizer, leading);
        let separator = match separator {
            Some(text) => Some(Separator::new(&tokenizer, text).ok_or(ComposerError::EmptySeparator)?),
            None => None,
        };
        Ok(Self {
            tokenizer,
            leading,
            ground,
            separator,
        })
    }

    /// The tokenizer in use.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The anchor of a document of these tokens without a context of its own: the leading token first.
    pub fn anchor(&self, document: &[TokenId]) -> Arc<[TokenId]> {
        self.ground.of(&self.tokenizer, document)
    }

    /// The prompt of a request.
    pub fn compose(&self, input: CompletionInput) -> Result<Composed, ComposeError> {
        let CompletionInput {
            prompt,
            instructions,
            documents,
            add_special_tokens,
        } = input;
        let documents = documents.unwrap_or_default();
        let shared = self.shared(instructions.as_deref(), &documents, add_special_tokens)?;
        self.compose_one(&prompt, "prompt", &shared)
    }

    /// The prompts of a request that has several; instructions and documents are tokenised once and shared.
    pub fn compose_batch(
        &self,
        prompts: &[PromptInput],
        instructions: Option<&str>,
        documents: &[DocumentInput],
        add_special_tokens: bool,
    ) -> Result<Vec<Composed>, ComposeError> {
        let shared = self.shared(instructions, documents, add_special_tokens)?;
        let numbered = prompts.iter().enumerate();
        numbered
            .map(|(index, prompt)| self.compose_one(prompt, &format!("prompt[{index}]"), &shared))
            .collect()
    }

    fn shared(
        &self,
        instructions: Option<&str>,
        documents: &[DocumentInput],
        add_special_tokens: bool,
    ) -> Result<Shared, ComposeError> {
        let instructions = instructions.filter(|text| !text.is_empty());
        let instructions = instructions
            .map(|text| self.tokenizer.encode(&format!("{text}\n\n"), Specials::AsTokens))
            .unwrap_or_default();
        Ok(Shared {
            instructions,
            documents: self.compose_documents(documents)?,
            add_special_tokens,
        })
    }

    fn compose_one(
        &self,
        prompt: &PromptInput,
        path: &str,
        shared: &Shared,
    ) -> Result<Composed, ComposeError> {
        let pieces = self.pieces(prompt, path)?;
        let empty = || ComposeError::EmptyPrompt {
            param: path.to_owned(),
        };
        if pieces.tokens.iter().all(Vec::is_empty) && pieces.tokens.len() == 1 {
            return Err(empty());
        }
        let segments = match (shared.documents.is_empty(), pieces.tokens.as_slice()) {
            (true, _) => self.plain(pieces, shared),
            (false, [question]) => {
                let question = self.without_bos(question);
                if question.is_empty() {
                    return Err(empty());
                }
                self.with_documents(question, shared)
            }
            (false, _) => {
                return Err(ComposeError::SeparatorWithDocuments {
                    param: path.to_owned(),
                });
            }
        };
        let prompt = Prompt::new(segments.finish()).map_err(|_| empty())?;
        Ok(Composed { prompt })
    }

    /// `[leading] instructions | documents | question`.
    fn with_documents(&self, question: &[TokenId], shared: &Shared) -> Segments {
        let mut segments = Segments::default();
        segments.text(&[self.leading]);
        segments.text(&shared.instructions);
        for document in &shared.documents {
            segments.document(document.clone());
        }
        segments.text(question);
        segments
    }

    /// `[BOS] instructions` and the prompt, in which all pieces but the first and the last are documents. Nothing between
    /// two separators is no document.
    fn plain(&self, pieces: Pieces, shared: &Shared) -> Segments {
        let mut segments = Segments::default();
        let last = pieces.tokens.len().saturating_sub(1);
        for (index, piece) in pieces.tokens.into_iter().enumerate() {
            if index == 0 {
                self.front(&mut segments, &piece, pieces.from_text, shared);
                continue;
            }
            segments.text(self.separator.as_ref().map_or(&[], Separator::tokens));
            if index == last || piece.is_empty() {
                segments.text(&piece);
            } else {
                segments.document(self.bare_document(piece));
            }
        }
        segments
    }

    /// BOS stays or is put in front of everything, and there is never more than one.
    fn front(&self, segments: &mut Segments, piece: &[TokenId], from_text: bool, shared: &Shared) {
        let rest = self.without_bos(piece);
        let added = from_text && shared.add_special_tokens && self.tokenizer.adds_bos();
        let bos = self.tokenizer.bos().filter(|_| added || rest.len() < piece.len());
        segments.text(bos.as_slice());
        segments.text(&shared.instructions);
        segments.text(rest);
    }

    /// `tokens` without the BOS that the model's own tokenizer would have put in front. For models that get none,
    /// a BOS id is part of the prompt: in some chat formats it begins a turn.
    fn without_bos<'t>(&self, tokens: &'t [TokenId]) -> &'t [TokenId] {
        match (tokens.split_first(), self.tokenizer.bos()) {
            (Some((first, rest)), Some(bos)) if *first == bos && self.tokenizer.adds_bos() => rest,
            _ => tokens,
        }
    }

    fn pieces(&self, prompt: &PromptInput, path: &str) -> Result<Pieces, ComposeError> {
        match prompt {
            PromptInput::Text(text) => Ok(Pieces {
                tokens: self.text_pieces(text),
                from_text: true,
            }),
            PromptInput::Tokens(ids) => {
                let tokens = self.checked(ids, path)?;
                let tokens = match &self.separator {
                    Some(separator) => separator
                        .split_tokens(&tokens)
                        .into_iter()
                        .map(<[_]>::to_vec)
                        .collect(),
                    None => vec![tokens],
                };
                Ok(Pieces {
                    tokens,
                    from_text: false,
                })
            }
        }
    }

    /// The first and the last piece are the client's own words; what lies between are documents.
    fn text_pieces(&self, text: &str) -> Vec<Vec<TokenId>> {
        let pieces = self
            .separator
            .as_ref()
            .map_or_else(|| vec![text], |separator| separator.split_text(text));
        let last = pieces.len().saturating_sub(1);
        let specials = |index| {
            if index == 0 || index == last {
                Specials::AsTokens
            } else {
                Specials::AsText
            }
        };
        pieces
            .iter()
            .enumerate()
            .map(|(index, piece)| self.tokenizer.encode(piece, specials(index)))
            .collect()
    }

    /// `ids` as tokens; an id outside the vocabulary is an error that names its place under `path`.
    fn checked(&self, ids: &[u32], path: &str) -> Result<Vec<TokenId>, ComposeError> {
        let vocab_size = self.tokenizer.vocab_size();
        match ids.iter().position(|id| *id as usize >= vocab_size) {
            Some(index) => Err(ComposeError::TokenOutsideVocabulary {
                param: format!("{path}[{index}]"),
                token: ids[index],
                vocab_size,
            }),
            None => Ok(ids.iter().copied().map(TokenId).collect()),
        }
    }
}
