//! Documents in every accepted shape, as the composer takes them.

use medley_kv::Prompt;
use medley_openai::{DocumentData, DocumentObject, DocumentParam};
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
        DocumentParam::Object(object) => object_input(index, *object),
    }
}

fn object_input(index: usize, object: DocumentObject) -> Result<DocumentInput, ApiError> {
    let path = format!("documents[{index}]");
    let names = [
        ("text", object.text),
        ("content", object.content),
        ("snippet", object.snippet),
        ("page_content", object.page_content),
    ];
    let text = only(&path, names)?;
    let data = object.data.map(|data| fields(&path, data)).transpose()?;
    let (id, title, context) = (object.id, object.title, object.context);
    let wrong = |what: &str| Err(ApiError::invalid(&path, what));
    let (title, body) = match (text, data, object.token_ids) {
        (Some(text), None, None) => (title, Body::Text(text)),
        (None, None, Some(ids)) => (title, Body::Tokens(ids)),
        (None, Some((inner, Some(text))), None) => (inner.or(title), Body::Text(text)),
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

/// Title and text of `data`.
fn fields(path: &str, data: DocumentData) -> Result<(Option<String>, Option<String>), ApiError> {
    match data {
        DocumentData::Text(text) => Ok((None, Some(text))),
        DocumentData::Fields(fields) => {
            let names = [
                ("snippet", fields.snippet),
                ("text", fields.text),
                ("content", fields.content),
            ];
            Ok((fields.title, only(&format!("{path}.data"), names)?))
        }
    }
}

/// The text that is there under one of its names.
fn only<const N: usize>(
    path: &str,
    names: [(&'static str, Option<String>); N],
) -> Result<Option<String>, ApiError> {
    let mut given = names.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let first = given.next();
    match (first, given.next()) {
        (Some((first, _)), Some((second, _))) => Err(ApiError::invalid(
            format!("{path}.{second}"),
            format!("`{first}` and `{second}` are two names of a document's text: send one of them"),
        )),
        (first, _) => Ok(first.map(|(_, text)| text)),
    }
}
