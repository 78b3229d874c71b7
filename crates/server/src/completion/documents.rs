//! Documents in every accepted shape, as the composer takes them.

use medley_kv::Prompt;
use medley_openai::{DocumentData, DocumentFields, DocumentObject, DocumentParam};
use medley_prompt::{Body, DocumentInput};

use crate::error::ApiError;

/// Ids that may refer to a stored document begin with this.
const REFERENCE: &str = "doc_";

/// The documents of a request.
pub(super) fn inputs(documents: Vec<DocumentParam>, most: usize) -> Result<Vec<DocumentInput>, ApiError> {
    if documents.len() > most {
        let message = format!("a request may carry {most} documents, not {}", documents.len());
        return Err(ApiError::invalid("documents", message));
    }
    documents
        .into_iter()
        .enumerate()
        .map(|(index, document)| input(index, document))
        .collect()
}

/// Separators make documents too.
pub(super) fn check_count(prompt: &Prompt, most: usize) -> Result<(), ApiError> {
    let documents = prompt.documents().count();
    if documents > most {
        let message = format!("a prompt may have {most} documents at most, not {documents}");
        return Err(ApiError::invalid("prompt", message));
    }
    Ok(())
}

fn input(index: usize, document: DocumentParam) -> Result<DocumentInput, ApiError> {
    match document {
        DocumentParam::Text(text) => Ok(DocumentInput {
            id: None,
            title: None,
            body: Body::Text(text),
            context: None,
        }),
        DocumentParam::Object(object) => object_input(index, object),
    }
}

fn object_input(index: usize, object: DocumentObject) -> Result<DocumentInput, ApiError> {
    let DocumentObject {
        id,
        title,
        text,
        data,
        token_ids,
        context,
    } = object;
    let data = data.map(fields);
    let wrong = |what: &str| Err(ApiError::invalid(format!("documents[{index}]"), what));
    let (title, body) = match (text, data, token_ids) {
        (Some(text), None, None) => (title, Body::Text(text)),
        (None, None, Some(ids)) => (title, Body::Tokens(ids)),
        (
            None,
            Some(DocumentFields {
                title: inner,
                snippet: Some(text),
            }),
            None,
        ) => (inner.or(title), Body::Text(text)),
        (None, Some(_), None) => return wrong("`data` needs a `snippet`"),
        (None, None, None) if id.as_ref().is_some_and(|id| id.starts_with(REFERENCE)) => {
            return Err(ApiError::DocumentNotFound(index));
        }
        (None, None, None) => return wrong("a document needs `text`, `data` or `token_ids`"),
        _ => return wrong("a document takes one of `text`, `data` and `token_ids`"),
    };
    Ok(DocumentInput {
        id,
        title,
        body,
        context,
    })
}

fn fields(data: DocumentData) -> DocumentFields {
    match data {
        DocumentData::Text(text) => DocumentFields {
            title: None,
            snippet: Some(text),
        },
        DocumentData::Fields(fields) => fields,
    }
}
