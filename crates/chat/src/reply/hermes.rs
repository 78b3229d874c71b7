//! Tool calls as JSON objects between two marks, anywhere in the reply.

use super::{News, call, held::Held};

pub(super) const BEGIN: &str = "<tool_call>";
pub(super) const END: &str = "</tool_call>";

/// Reads such a reply.
#[derive(Default)]
pub(super) struct Hermes {
    held: Held,
    inside: bool,
    /// A call came before: white space behind it is none of the content.
    behind: bool,
}

impl Hermes {
    pub(super) fn push(&mut self, text: &str, news: &mut Vec<News>) {
        self.held.push(text);
        loop {
            if self.behind && !self.inside {
                self.held.trim_start();
            }
            let mark = if self.inside { END } else { BEGIN };
            let Some(text) = self.held.take_until(mark) else {
                break;
            };
            if self.inside {
                self.close(&text, END, news);
            } else {
                self.content(text.trim_end().to_owned(), news);
            }
            self.inside = !self.inside;
        }
        if !self.inside {
            let certain = self.held.take_certain(BEGIN);
            self.content(certain, news);
        }
    }

    /// A call that is not closed may be whole.
    pub(super) fn finish(&mut self, news: &mut Vec<News>) {
        let rest = self.held.take();
        if self.inside {
            self.close(&rest, "", news);
        } else {
            news.push(News::Content(rest));
        }
    }

    fn content(&mut self, text: String, news: &mut Vec<News>) {
        self.behind &= text.is_empty();
        news.push(News::Content(text));
    }

    fn close(&mut self, text: &str, end: &str, news: &mut Vec<News>) {
        let parsed = serde_json::from_str(text).ok().as_ref().and_then(call);
        self.behind = parsed.is_some();
        news.push(match parsed {
            Some(call) => News::Call(call),
            None => News::Content(format!("{BEGIN}{text}{end}")),
        });
    }
}
