//! Thoughts between two marks at the beginning of a reply.

use super::held::Held;

pub(super) const BEGIN: &str = "<think>";
pub(super) const END: &str = "</think>";
pub(super) const MARKS: [&str; 2] = [BEGIN, END];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space and a part of the first mark so far.
    Start,
    /// Behind the first mark and white space.
    Opened,
    Inside,
    /// Behind the second mark and white space.
    Closed,
    Content,
}

/// Parts thoughts from content. White space around the marks is neither.
pub(super) struct Reasoning {
    held: Held,
    place: Place,
}

impl Reasoning {
    /// `may`: there may be thoughts; `inside`: the prompt has opened them.
    pub(super) fn new(may: bool, inside: bool) -> Self {
        let place = match (may, inside) {
            (true, true) => Place::Opened,
            (true, false) => Place::Start,
            (false, _) => Place::Content,
        };
        Self {
            held: Held::default(),
            place,
        }
    }

    /// The thoughts and the content that `text` makes certain.
    pub(super) fn push(&mut self, text: &str) -> (String, String) {
        self.held.push(text);
        let mut thought = String::new();
        if self.place == Place::Start {
            self.start();
        }
        if self.place == Place::Opened {
            self.held.trim_start();
            if !self.held.as_str().is_empty() {
                self.place = Place::Inside;
            }
        }
        if self.place == Place::Inside {
            match self.held.take_until(END) {
                Some(text) => {
                    thought.push_str(text.trim_end());
                    self.place = Place::Closed;
                }
                None => thought = self.held.take_certain(END),
            }
        }
        if self.place == Place::Closed {
            self.held.trim_start();
            if !self.held.as_str().is_empty() {
                self.place = Place::Content;
            }
        }
        let content = match self.place {
            Place::Content => self.held.take(),
            Place::Start | Place::Opened | Place::Inside | Place::Closed => String::new(),
        };
        (thought, content)
    }

    /// What was held back.
    pub(super) fn finish(&mut self) -> (String, String) {
        let rest = self.held.take();
        match self.place {
            Place::Opened | Place::Inside => (rest, String::new()),
            Place::Start | Place::Closed | Place::Content => (String::new(), rest),
        }
    }

    fn start(&mut self) {
        let text = self.held.as_str().trim_start();
        if text.starts_with(BEGIN) {
            self.held.take_until(BEGIN);
            self.place = Place::Opened;
        } else if !BEGIN.starts_with(text) {
            self.place = Place::Content;
        }
    }
}
