//! A document's tokens and anchor.

use std::sync::Arc;

use medley_kv::{Document, TokenId};

use super::{Body, ComposeError, Composer, DocumentInput, anchor};
use crate::Specials;

impl Composer {
    /// The document as prompts hold it. `path` says where it stands in the request, such as `documents[2]`, or is
    /// empty for a request that is the document itself.
    ///
    /// Text is rendered as title, blank line, text, blank line, each left out where it is empty. Token ids stand
    /// as they are, behind the title if there is one.
    pub fn compose_document(&self, document: &DocumentInput, path: &str) -> Result<Document, ComposeError> {
        let title = document.title.as_deref().filter(|title| !title.is_empty());
        let title = title.map(|title| format!("{title}\n\n")).unwrap_or_default();
        let tokens = match &document.body {
            Body::Text(text) => self.tokenizer.encode(&render(&title, text), Specials::AsText),
            Body::Tokens(ids) => {
                let path = if path.is_empty() {
                    "token_ids".to_owned()
                } else {
                    format!("{path}.token_ids")
                };
                let mut tokens = self.tokenizer.encode(&title, Specials::AsText);
                tokens.extend(self.checked(ids, &path)?);
                tokens
            }
        };
        let anchor = match &document.context {
            Some(context) => anchor::behind(&self.tokenizer, self.leading, context),
            None => Arc::clone(&self.anchor),
        };
        Ok(Document {
            name: document.id.clone(),
            tokens: tokens.into(),
            anchor,
        })
    }

    pub(super) fn compose_documents(
        &self,
        documents: &[DocumentInput],
    ) -> Result<Vec<Document>, ComposeError> {
        let numbered = documents.iter().enumerate();
        numbered
            .map(|(index, document)| self.compose_document(document, &format!("documents[{index}]")))
            .collect()
    }

    /// A document that stands inside a prompt between separators, taken as it is.
    pub(super) fn bare_document(&self, tokens: Vec<TokenId>) -> Document {
        Document {
            name: None,
            tokens: tokens.into(),
            anchor: Arc::clone(&self.anchor),
        }
    }
}

fn render(title: &str, text: &str) -> String {
    if text.is_empty() {
        title.to_owned()
    } else {
        format!("{title}{text}\n\n")
    }
}
