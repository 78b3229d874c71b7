//! From token bytes to text that can be sent: whole UTF-8 characters, and never a part of a stop string.
//!
//! **Invariant:** the concatenation of all texts that come out is the decoded byte stream up to the first
//! occurrence of a stop string, however the bytes were split into tokens.

/// What a token made certain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// Text that can be sent.
    pub text: String,
    /// Whether a stop string was completed; nothing more follows.
    pub stopped: bool,
}

/// Assembles a text.
pub(crate) struct TextStream {
    stops: Vec<String>,
    /// Bytes of a character that is not complete.
    bytes: Vec<u8>,
    /// Text that may be the beginning of a stop string.
    held: String,
}

impl TextStream {
    /// A text that ends at the first of `stops`; empty ones are ignored.
    pub(crate) fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|s| !s.is_empty()).cloned().collect();
        Self {
            stops,
            bytes: Vec::new(),
            held: String::new(),
        }
    }

    /// Adds a token's bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Pushed {
        self.bytes.extend_from_slice(bytes);
        self.decode();
        // The first one to be complete, as if bytes came one by one: the earliest end, then the earliest start.
        let ends = self
            .stops
            .iter()
            .filter_map(|s| self.held.find(s.as_str()).map(|at| (at + s.len(), at)));
        if let Some((_, at)) = ends.min() {
            self.held.truncate(at);
            return Pushed {
                text: std::mem::take(&mut self.held),
                stopped: true,
            };
        }
        let keep = self
            .stops
            .iter()
            .map(|s| overlap(&self.held, s))
            .max()
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Pushed {
            text: std::mem::replace(&mut self.held, rest),
            stopped: false,
        }
    }

    /// The text that was held back; bytes of an incomplete character are dropped.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Moves whole characters from `bytes` to `held`; bytes that can't begin a character become U+FFFD.
    fn decode(&mut self) {
        loop {
            match std::str::from_utf8(&self.bytes) {
                Ok(text) => {
                    self.held.push_str(text);
                    self.bytes.clear();
                    return;
                }
                Err(error) => {
                    let (valid, rest) = self.bytes.split_at(error.valid_up_to());
                    self.held.push_str(&String::from_utf8_lossy(valid));
                    let Some(bad) = error.error_len() else {
                        self.bytes = rest.to_vec();
                        return;
                    };
                    self.held.push(char::REPLACEMENT_CHARACTER);
                    self.bytes = rest[bad..].to_vec();
                }
            }
        }
    }
}

/// Length of the longest end of `text` that begins `stop` without completing it.
fn overlap(text: &str, stop: &str) -> usize {
    let (text, stop) = (text.as_bytes(), stop.as_bytes());
    let longest = text.len().min(stop.len() - 1);
    // Both are whole characters, so a match begins at a character's first byte and the cut is a boundary.
    (1..=longest)
        .rev()
        .find(|&n| text.ends_with(&stop[..n]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &[u8], stops: &[&str], cuts: &[usize]) -> (String, Vec<String>) {
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        let mut stream = TextStream::new(&stops);
        let (mut sent, mut from) = (Vec::new(), 0);
        for &to in cuts.iter().chain([&bytes.len()]) {
            let pushed = stream.push(&bytes[from..to]);
            sent.push(pushed.text);
            from = to;
            if pushed.stopped {
                return (sent.concat(), sent);
            }
        }
        sent.push(stream.finish());
        (sent.concat(), sent)
    }

    #[test]
    fn text_does_not_depend_on_how_bytes_are_split() {
        let text = "naïve 漢字 🙂 ab STOP-ish sto STOP tail 🙂";
        for seed in 0..2000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let stops = ["STOP t", "🙂 tail", "xyz"];
            let stops = &stops[..rng.usize(0..=stops.len())];
            let mut cuts: Vec<usize> = (0..rng.usize(0..12)).map(|_| rng.usize(0..text.len())).collect();
            cuts.sort_unstable();
            let end = stops
                .iter()
                .filter_map(|s| text.find(s))
                .min()
                .unwrap_or(text.len());
            let (all, sent) = run(text.as_bytes(), stops, &cuts);
            assert_eq!(all, text[..end], "seed {seed}");
            assert!(
                !sent.iter().any(|s| s.contains('\u{fffd}')),
                "seed {seed}: a character was split"
            );
        }
    }

    #[test]
    fn of_overlapping_stop_strings_the_first_complete_one_wins_however_bytes_are_split() {
        let (text, stops) = ("xabcXabc", ["abcX", "bc", "cXa"]);
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut cuts: Vec<usize> = (0..rng.usize(0..6)).map(|_| rng.usize(0..text.len())).collect();
            cuts.sort_unstable();
            assert_eq!(run(text.as_bytes(), &stops, &cuts).0, "xa", "seed {seed}");
        }
    }

    #[test]
    fn the_beginning_of_a_stop_string_waits_until_it_is_sure() {
        let mut stream = TextStream::new(&["END".to_owned()]);
        assert_eq!(stream.push(b"a E").text, "a ");
        assert_eq!(stream.push(b"N").text, "");
        assert_eq!(stream.push(b"x").text, "ENx");
        assert_eq!(
            stream.push(b"EEN"),
            Pushed {
                text: "E".to_owned(),
                stopped: false
            }
        );
        assert_eq!(
            stream.push(b"D more"),
            Pushed {
                text: String::new(),
                stopped: true
            }
        );
    }

    #[test]
    fn broken_bytes_become_replacement_characters_and_unfinished_ones_are_dropped() {
        let (all, _) = run(b"a\xff\xe6\xbc", &[], &[]);
        assert_eq!(all, "a\u{fffd}");
    }
}
