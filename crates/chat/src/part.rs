//! What a rendered conversation consists of.

/// A stretch of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A control token, by its spelling.
    Control(String),
    /// Text: what looks like a control token in it is none.
    Text(String),
    /// The document of this number.
    Document(usize),
}

/// Adds `text`, which continues a text that stands last. Empty text adds nothing.
pub(crate) fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}
