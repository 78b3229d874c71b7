//! A document's tokens and anchor.

use std::{num::NonZeroUsize, panic, thread};

use medley_kv::{Document, TokenId};

use super::{Body, ComposeError, Composer, DocumentInput, anchor};
use crate::Specials;

/// Bytes of text for which a thread of its own pays: some milliseconds of tokenising.
const THREAD_BYTES: usize = 8 << 10;

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
            None => self.anchor(&tokens),
        };
        Ok(Document {
            name: document.id.clone(),
            tokens: tokens.into(),
            anchor,
        })
    }

    /// Long documents are tokenised side by side: beside a GPU's prefill, tokenising one after the other is slow.
    pub(super) fn compose_documents(
        &self,
        documents: &[DocumentInput],
    ) -> Result<Vec<Document>, ComposeError> {
        let bytes: usize = documents.iter().map(DocumentInput::bytes).sum();
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = cores.min(documents.len()).min(bytes / THREAD_BYTES).max(1);
        self.compose_on(threads, documents)
    }

    /// The documents, composed by so many threads; the first error if there are several.
    fn compose_on(&self, threads: usize, documents: &[DocumentInput]) -> Result<Vec<Document>, ComposeError> {
        let compose = |first: usize, documents: &[DocumentInput]| -> Result<Vec<Document>, ComposeError> {
            let numbered = (first..).zip(documents);
            numbered
                .map(|(index, document)| self.compose_document(document, &format!("documents[{index}]")))
                .collect()
        };
        if threads <= 1 {
            return compose(0, documents);
        }
        let each = documents.len().div_ceil(threads);
        let composed: Vec<_> = thread::scope(|scope| {
            let shares = documents.chunks(each).enumerate();
            let running: Vec<_> = shares
                .map(|(share, documents)| scope.spawn(move || compose(share * each, documents)))
                .collect();
            let finished = running.into_iter().map(|thread| thread.join());
            finished
                .map(|result| result.unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
                .collect()
        });
        let composed: Result<Vec<_>, _> = composed.into_iter().collect();
        composed.map(|shares| shares.concat())
    }

    /// A document that stands inside a prompt between separators, taken as it is.
    pub(super) fn bare_document(&self, tokens: Vec<TokenId>) -> Document {
        Document {
            name: None,
            anchor: self.anchor(&tokens),
            tokens: tokens.into(),
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

#[cfg(test)]
mod tests {
    use crate::composer::{Body, ComposeError, DocumentInput, tests::composer};

    fn document(text: String) -> DocumentInput {
        DocumentInput {
            id: None,
            title: None,
            body: Body::Text(text),
            context: None,
        }
    }

    #[test]
    fn documents_side_by_side_are_those_one_after_the_other() {
        let composer = composer();
        let documents: Vec<_> = (0..13).map(|i| document("abc de ".repeat(i * 7))).collect();
        let alone = composer.compose_on(1, &documents);
        for threads in [2, 3, 5, 13] {
            assert_eq!(composer.compose_on(threads, &documents), alone);
        }
    }

    #[test]
    fn the_first_of_several_errors_is_told() {
        let composer = composer();
        let mut documents: Vec<_> = (0..9).map(|_| document("a".to_owned())).collect();
        for bad in [3, 7] {
            documents[bad].body = Body::Tokens(vec![u32::MAX]);
        }
        let path = |result: Result<_, ComposeError>| result.expect_err("bad ids").to_string();
        assert!(path(composer.compose_on(1, &documents)).contains("documents[3]"));
        assert!(path(composer.compose_on(4, &documents)).contains("documents[3]"));
    }
}
