//! From token bytes to text that can be sent: whole UTF-8 characters, and never a part of a stop string.
//!
//! **Invariant:** the concatenation of all texts that come out is the decoded byte stream up to the first
//! occurrence of a stop string that is not passed over, however the bytes were split into tokens.

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
    /// Bytes of `held` in which no stop string ends.
    passed: usize,
}

impl TextStream {
    /// A text that ends at the first of `stops`; empty ones are ignored.
    pub(crate) fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|s| !s.is_empty()).cloned().collect();
        Self {
            stops,
            bytes: Vec::new(),
            held: String::new(),
            passed: 0,
        }
    }

    /// Adds a token's bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Pushed {
        self.bytes.extend_from_slice(bytes);
        self.decode();
        // The first one to be complete, as if bytes came one by one: the earliest end, then the earliest start.
        let ends = self.stops.iter().filter_map(|stop| self.end_of(stop));
        if let Some((_, at)) = ends.min() {
            self.held.truncate(at);
            return Pushed {
                text: std::mem::take(&mut self.held),
                stopped: true,
            };
        }
        self.release()
    }

    /// The same, passing over stop strings that end in these bytes. They may begin in them.
    pub(crate) fn push_through(&mut self, bytes: &[u8]) -> Pushed {
        self.bytes.extend_from_slice(bytes);
        self.decode();
        self.passed = self.held.len();
        self.release()
    }

    /// Where the first `stop` that counts ends and begins in the text that is held.
    fn end_of(&self, stop: &str) -> Option<(usize, usize)> {
        let first = (self.passed + 1).saturating_sub(stop.len());
        let from = (first..=self.held.len()).find(|&at| self.held.is_char_boundary(at))?;
        let at = from + self.held[from..].find(stop)?;
        Some((at + stop.len(), at))
    }

    /// Lets go of what can't be the beginning of a stop string.
    fn release(&mut self) -> Pushed {
        let keep = self
            .stops
            .iter()
            .map(|s| overlap(&self.held, s))
            .max()
            .unwrap_or(0);
        let certain = self.held.len() - keep;
        self.passed = self.passed.saturating_sub(certain);
        let rest = self.held.split_off(certain);
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
    use proptest::prelude::*;

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

    /// What the text is if every byte is a token of its own and all stop strings are looked for in all of it, the first
    /// `passed` bytes passed over.
    fn reference(text: &str, stops: &[String], passed: usize) -> String {
        let mut ends: Vec<_> = (passed + 1..=text.len())
            .flat_map(|end| stops.iter().map(move |stop| (end, stop)))
            .filter(|(end, stop)| text.as_bytes()[..*end].ends_with(stop.as_bytes()))
            .map(|(end, stop)| (end, end - stop.len()))
            .collect();
        ends.sort_unstable();
        let end = ends.first().map_or(text.len(), |(_, start)| *start);
        text[..end].to_owned()
    }

    /// Few letters, so that stop strings, beginnings of them and split characters are common.
    fn letters(most: usize) -> impl Strategy<Value = String> {
        let letter = proptest::sample::select(vec!["a", "b", "ab", "é", "漢", "🙂", "\u{fffc}"]);
        proptest::collection::vec(letter, 1..=most).prop_map(|letters| letters.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn text_does_not_depend_on_how_bytes_are_split(
            text in letters(24),
            stops in proptest::collection::vec(letters(4), 0..=4),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.sort_unstable();
            let names: Vec<_> = stops.iter().map(String::as_str).collect();
            let (all, sent) = run(text.as_bytes(), &names, &cuts);
            let expected = reference(&text, &stops, 0);
            prop_assert_eq!(&all, &expected);
            // Nothing is sent before it is certain: no piece goes beyond the text, and none splits a character.
            let mut length = 0;
            for piece in sent {
                prop_assert!(!piece.contains(char::REPLACEMENT_CHARACTER));
                length += piece.len();
                prop_assert!(expected.is_char_boundary(length));
            }
        }

        #[test]
        fn stop_strings_that_end_in_the_first_tokens_are_passed_over(
            text in letters(24),
            stops in proptest::collection::vec(letters(4), 1..=4),
            cut in any::<proptest::sample::Index>(),
        ) {
            let boundaries: Vec<_> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
            let cut = *cut.get(&boundaries);
            let mut stream = TextStream::new(&stops);
            let mut all = stream.push_through(&text.as_bytes()[..cut]).text;
            let mut stopped = false;
            for byte in &text.as_bytes()[cut..] {
                let pushed = stream.push(&[*byte]);
                all += &pushed.text;
                stopped = pushed.stopped;
                if stopped {
                    break;
                }
            }
            if !stopped {
                all += &stream.finish();
            }
            prop_assert_eq!(all, reference(&text, &stops, cut));
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
    fn a_stop_string_that_is_passed_over_is_text_and_one_that_ends_later_counts() {
        let stops = ["END".to_owned(), "xy".to_owned()];
        let mut stream = TextStream::new(&stops);
        assert_eq!(stream.push_through(b"a END xyEN").text, "a END xy");
        assert_eq!(
            stream.push(b"D"),
            Pushed {
                text: String::new(),
                stopped: true
            }
        );
        // "bc" ended while it was passed over, inside what may become "abcd".
        let mut stream = TextStream::new(&["abcd".to_owned(), "bc".to_owned()]);
        assert_eq!(stream.push_through(b"abc").text, "");
        assert_eq!(
            stream.push(b"-bc"),
            Pushed {
                text: "abc-".to_owned(),
                stopped: true
            }
        );
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
