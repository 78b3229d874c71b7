//! Marks inside texts that nobody can write who has not seen them.
//!
//! A mark is a lead of 122 random bits and a number, spelled in characters for private use: letters of no case, no
//! white space, nothing that JSON escapes. So it passes through whatever a template does with text.

use uuid::Uuid;

/// Begins a lead.
const START: char = '\u{E010}';
/// Digits of a number, in base 16.
const DIGITS: usize = 6;
/// Characters of a torn lead that are taken for one.
const TORN: usize = 9;

/// A set of marks, numbered from 0.
pub(crate) struct Marks {
    lead: String,
}

/// What a text with marks consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch<'t> {
    /// What stands between marks; may be empty.
    Text(&'t str),
    /// The mark of this number.
    Mark(usize),
}

impl<'t> Stretch<'t> {
    /// The text; empty for a mark.
    pub(crate) fn text(self) -> &'t str {
        match self {
            Self::Text(text) => text,
            Self::Mark(_) => "",
        }
    }
}

/// Whether `text` may show a mark or a piece of one, also with its characters escaped.
pub(crate) fn may_show(text: &str) -> bool {
    let characters = text.chars().any(|c| ('\u{E000}'..=START).contains(&c));
    characters || text.to_ascii_lowercase().contains("e010")
}

impl Marks {
    /// Marks like no others.
    pub(crate) fn new() -> Self {
        let random = Uuid::new_v4().as_u128();
        let digits = (0..32).map(|place| digit(random >> (4 * place)));
        Self {
            lead: std::iter::once(START).chain(digits).collect(),
        }
    }

    /// The mark of `number`, which is below 16⁶.
    pub(crate) fn mark(&self, number: usize) -> String {
        let digits = (0..DIGITS)
            .rev()
            .map(|place| digit((number >> (4 * place)) as u128));
        self.lead.chars().chain(digits).collect()
    }

    /// `text` cut at the marks.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Vec<Stretch<'t>> {
        let mut stretches = Vec::new();
        for (index, piece) in text.split(self.lead.as_str()).enumerate() {
            let rest = match (index, read(piece)) {
                (0, _) | (_, None) => piece,
                (_, Some((number, rest))) => {
                    stretches.push(Stretch::Mark(number));
                    rest
                }
            };
            stretches.push(Stretch::Text(rest));
        }
        stretches
    }

    /// Whether a piece of a mark, torn off by something that cut a text, stands in `text`.
    pub(crate) fn is_torn(&self, text: &str) -> bool {
        let end = self.lead.char_indices().nth(TORN).map_or(0, |(end, _)| end);
        text.contains(&self.lead[..end])
    }
}

fn digit(value: u128) -> char {
    char::from_u32(0xE000 + (value & 15) as u32).unwrap_or(START)
}

/// The number at the beginning of `text`, and the rest.
fn read(text: &str) -> Option<(usize, &str)> {
    let mut number = 0;
    let mut chars = text.chars();
    for _ in 0..DIGITS {
        let value = (chars.next()? as usize).checked_sub(0xE000)?;
        number = number * 16 + (value < 16).then_some(value)?;
    }
    Some((number, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_marks_and_at_no_others() {
        let (marks, others) = (Marks::new(), Marks::new());
        let foreign = others.mark(1);
        let text = format!("a{}{}{foreign}", marks.mark(0), marks.mark(0xABCDE));
        let expected = [
            Stretch::Text("a"),
            Stretch::Mark(0),
            Stretch::Text(""),
            Stretch::Mark(0xABCDE),
            Stretch::Text(&foreign),
        ];
        assert_eq!(marks.split(&text), expected);
    }

    #[test]
    fn a_torn_mark_is_seen() {
        let marks = Marks::new();
        let torn: String = marks.mark(3).chars().take(20).collect();
        assert!(marks.is_torn(&format!("a{torn}")));
        assert!(!marks.is_torn("a\u{E010}\u{E000}"));
        assert!(!marks.is_torn(&Marks::new().mark(3)));
    }
}
