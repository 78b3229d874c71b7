//! Text of which the end may be the beginning of a mark.

/// Text that is held back.
#[derive(Default)]
pub(super) struct Held(String);

impl Held {
    pub(super) fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// The text up to `mark`, which is consumed with it; `None` if it is not there.
    pub(super) fn take_until(&mut self, mark: &str) -> Option<String> {
        let at = self.0.find(mark)?;
        let rest = self.0.split_off(at + mark.len());
        let mut text = std::mem::replace(&mut self.0, rest);
        text.truncate(at);
        Some(text)
    }

    /// The text that can't become part of `mark` or of the white space in front of it.
    pub(super) fn take_certain(&mut self, mark: &str) -> String {
        let overlap = (1..mark.len())
            .rev()
            .find(|&n| mark.is_char_boundary(n) && self.0.ends_with(&mark[..n]));
        let certain = self.0[..self.0.len() - overlap.unwrap_or(0)].trim_end().len();
        let rest = self.0.split_off(certain);
        std::mem::replace(&mut self.0, rest)
    }

    /// Forgets white space at the beginning.
    pub(super) fn trim_start(&mut self) {
        let start = self.0.len() - self.0.trim_start().len();
        self.0.drain(..start);
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}
