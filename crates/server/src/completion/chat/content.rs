//! A message's content as pieces: its texts, and the documents among them.

use medley_chat::Piece;
use medley_openai::{ContentParam, ContentPart, ContentSource, ContentSourceObject, MedleyPart, TextBlocks};
use medley_prompt::{Body, DocumentInput};

use crate::error::{ApiError, shorten};

/// The pieces of the content at `path`. Documents are added to `documents` and have their places there as numbers.
pub(super) fn pieces(
    path: &str,
    content: ContentParam,
    documents: &mut Vec<DocumentInput>,
) -> Result<Vec<Piece>, ApiError> {
    let parts = match content {
        ContentParam::Text(text) => return Ok(vec![Piece::Text(text)]),
        ContentParam::Parts(parts) => parts,
    };
    let numbered = parts.into_iter().enumerate();
    numbered
        .map(|(index, part)| {
            Ok(match read(&format!("{path}[{index}]"), part)? {
                Read::Text(text) => Piece::Text(text),
                Read::Document(document) => {
                    documents.push(document);
                    Piece::Document(documents.len() - 1)
                }
            })
        })
        .collect()
}

enum Read {
    Text(String),
    Document(DocumentInput),
}

fn read(path: &str, part: ContentPart) -> Result<Read, ApiError> {
    match part.kind.as_str() {
        "text" => {
            let text = needed(path, "text", part.text)?;
            Ok(match part.medley {
                Some(medley) if medley.document == Some(true) => Read::Document(marked(text, medley)),
                _ => Read::Text(text),
            })
        }
        "refusal" => needed(path, "refusal", part.refusal).map(Read::Text),
        "document" => document(path, part).map(Read::Document),
        "search_result" => search_result(path, part).map(Read::Document),
        kind => {
            let message = format!(
                "this server reads parts of type `text`, `refusal`, `document` and `search_result`, not `{}`",
                shorten(kind, 64)
            );
            Err(ApiError::invalid(format!("{path}.type"), message))
        }
    }
}

/// A text that is marked as a document.
fn marked(text: String, medley: MedleyPart) -> DocumentInput {
    DocumentInput {
        id: medley.id,
        title: medley.title,
        body: Body::Text(text),
        context: medley.context,
    }
}

fn document(path: &str, part: ContentPart) -> Result<DocumentInput, ApiError> {
    let source = match needed(path, "source", part.source)? {
        ContentSource::Object(source) => source,
        ContentSource::Address(_) => {
            let message = "a document's source is an object with its text";
            return Err(ApiError::invalid(format!("{path}.source"), message));
        }
    };
    Ok(DocumentInput {
        id: None,
        title: part.title,
        body: Body::Text(source_text(&format!("{path}.source"), source)?),
        context: part.context,
    })
}

fn source_text(path: &str, source: ContentSourceObject) -> Result<String, ApiError> {
    match source.kind.as_str() {
        "text" => needed(path, "data", source.data),
        "content" => blocks(
            &format!("{path}.content"),
            needed(path, "content", source.content)?,
        ),
        kind => {
            let kind = shorten(kind, 64);
            let message = format!("this server reads sources of type `text` and `content`, not `{kind}`");
            Err(ApiError::invalid(format!("{path}.type"), message))
        }
    }
}

/// Found by a search at an address, which becomes its name.
fn search_result(path: &str, part: ContentPart) -> Result<DocumentInput, ApiError> {
    let content = needed(path, "content", part.content)?;
    let id = match part.source {
        Some(ContentSource::Address(address)) => Some(address),
        _ => None,
    };
    Ok(DocumentInput {
        id,
        title: part.title,
        body: Body::Text(blocks(&format!("{path}.content"), content)?),
        context: None,
    })
}

/// The text of blocks, each on lines of its own.
fn blocks(path: &str, blocks: TextBlocks) -> Result<String, ApiError> {
    let parts = match blocks {
        TextBlocks::Text(text) => return Ok(text),
        TextBlocks::Parts(parts) => parts,
    };
    let texts = parts.into_iter().enumerate().map(|(index, part)| {
        let path = format!("{path}[{index}]");
        if part.kind != "text" {
            let message = "a document consists of parts of type `text`";
            return Err(ApiError::invalid(format!("{path}.type"), message));
        }
        needed(&path, "text", part.text)
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn needed<T>(path: &str, field: &str, value: Option<T>) -> Result<T, ApiError> {
    value.ok_or_else(|| {
        ApiError::invalid(
            format!("{path}.{field}"),
            format!("a part of this type needs `{field}`"),
        )
    })
}
