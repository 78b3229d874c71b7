//! JSON as Python writes it: what templates of Hugging Face mean by `tojson`.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// `value` with a space behind each comma and colon, or over lines with this indent. Letters are not escaped.
pub(crate) fn python(value: &serde_json::Value, indent: Option<usize>) -> String {
    let mut bytes = Vec::new();
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)),
        Some(indent) => {
            let spaces = " ".repeat(indent);
            let pretty = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))
        }
    };
    // A value always serialises, to UTF-8.
    written
        .ok()
        .and_then(|()| String::from_utf8(bytes).ok())
        .unwrap_or_default()
}

/// On one line, with spaces.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_spaces_the_order_and_the_letters_are_pythons() {
        let value = json!({"b": [1, 2.0, null, true], "a": {"é": "<\"'>"}, "e": []});
        let line = r#"{"b": [1, 2.0, null, true], "a": {"é": "<\"'>"}, "e": []}"#;
        assert_eq!(python(&value, None), line);
        assert_eq!(
            python(&json!({"a": [1], "b": {}}), Some(4)),
            "{\n    \"a\": [\n        1\n    ],\n    \"b\": {}\n}"
        );
    }
}
