//! Refuses prompts that can't fit before they are tokenised: megabytes would take seconds for a certain refusal.
//!
//! A text has at least as many tokens as its bytes divided by those of the longest token. What passes may still be
//! too long: that is decided by the real count.

use medley_prompt::{Body, DocumentInput, PromptInput};

use crate::error::ApiError;

/// What lengths are measured by.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// Tokens of prompt and answer together.
    pub(super) context: usize,
    /// Bytes of the longest token.
    pub(super) longest: usize,
}

impl Bound {
    /// Refuses a prompt, or what a document is computed behind, that is certainly too long.
    pub(super) fn check(
        &self,
        prompts: &[PromptInput],
        instructions: Option<&str>,
        documents: &[DocumentInput],
    ) -> Result<(), ApiError> {
        for (index, document) in documents.iter().enumerate() {
            let context = document.context.as_deref().unwrap_or_default();
            self.fits(|| format!("documents[{index}].context"), self.text(context))?;
        }
        let shared: usize = documents.iter().map(|document| self.document(document)).sum();
        let shared = shared + self.text(instructions.unwrap_or_default());
        let name = |index| match prompts {
            [_] => "prompt".to_owned(),
            _ => format!("prompt[{index}]"),
        };
        let mut numbered = prompts.iter().enumerate();
        numbered.try_for_each(|(index, prompt)| self.fits(|| name(index), shared + self.prompt(prompt)))
    }

    fn fits(&self, param: impl FnOnce() -> String, least: usize) -> Result<(), ApiError> {
        if least < self.context {
            return Ok(());
        }
        let (param, context) = (param(), self.context);
        Err(ApiError::NeverFits {
            param,
            least,
            context,
        })
    }

    fn text(&self, text: &str) -> usize {
        text.len().div_ceil(self.longest)
    }

    fn prompt(&self, prompt: &PromptInput) -> usize {
        match prompt {
            PromptInput::Text(text) => self.text(text),
            PromptInput::Tokens(ids) => ids.len(),
        }
    }

    fn document(&self, document: &DocumentInput) -> usize {
        let title = document.title.as_deref().unwrap_or_default();
        match &document.body {
            Body::Text(text) => (title.len() + text.len()).div_ceil(self.longest),
            Body::Tokens(ids) => self.text(title) + ids.len(),
        }
    }
}
