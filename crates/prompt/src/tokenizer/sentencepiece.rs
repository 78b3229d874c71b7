//! SentencePiece's BPE: the best-scored pair of neighbours is joined first, the leftmost among equals.
//!
//! Text is read as a whole, without splitting into words; `▁` stands for the space, and what no piece spells is
//! written in byte tokens. The tokenizer library ranks pairs, not results, so it can't break ties in this order.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap},
};

use medley_kv::TokenId;

use super::{
    Specials, TokenizerError,
    vocabulary::{Kind, Vocabulary, byte_token},
};

/// The pieces of a vocabulary and their scores.
pub(crate) struct SentencePiece {
    pieces: HashMap<String, Piece>,
    bytes: [TokenId; 256],
    marks: Marks,
    space_prefix: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    token: TokenId,
    score: f32,
}

impl SentencePiece {
    /// The tokenizer of `table`; `space_prefix` puts a space in front of a text and behind a special token.
    pub(crate) fn new(
        table: &Vocabulary,
        scores: &[f32],
        space_prefix: bool,
    ) -> Result<Self, TokenizerError> {
        if scores.len() != table.len() {
            let (expected, found) = (table.len(), scores.len());
            return Err(TokenizerError::WrongLength {
                what: "scores",
                expected,
                found,
            });
        }
        let known = table
            .iter()
            .zip(scores)
            .filter(|((_, _, kind), _)| !matches!(kind, Kind::Control | Kind::Byte));
        let pieces = known
            .map(|((token, text, _), score)| (text.to_owned(), Piece { token, score: *score }))
            .collect();
        Ok(Self {
            pieces,
            bytes: byte_tokens(table)?,
            marks: Marks::new(table),
            space_prefix,
        })
    }

    pub(crate) fn encode(&self, text: &str, specials: Specials) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        let (mut rest, mut after_mark) = (text, true);
        while !rest.is_empty() {
            let (plain, mark, behind) = self.marks.next(rest, specials);
            if !plain.is_empty() {
                self.encode_plain(plain, after_mark, &mut tokens);
                after_mark = false;
            }
            if let Some(mark) = mark {
                tokens.push(mark);
                after_mark = true;
            }
            rest = behind;
        }
        tokens
    }

    fn encode_plain(&self, text: &str, after_mark: bool, tokens: &mut Vec<TokenId>) {
        let prefix = if self.space_prefix && after_mark {
            "▁"
        } else {
            ""
        };
        let text = format!("{prefix}{}", text.replace(' ', "▁"));
        for symbol in Joiner::new(self, &text).join() {
            match self.pieces.get(symbol) {
                Some(piece) => tokens.push(piece.token),
                None => tokens.extend(symbol.bytes().map(|byte| self.bytes[usize::from(byte)])),
            }
        }
    }
}

fn byte_tokens(table: &Vocabulary) -> Result<[TokenId; 256], TokenizerError> {
    let mut found = [None; 256];
    for (token, text, kind) in table.iter() {
        if let (Kind::Byte, Some(byte)) = (kind, byte_token(text)) {
            found[usize::from(byte)] = Some(token);
        }
    }
    let mut tokens = [TokenId(0); 256];
    for byte in 0..=255u8 {
        tokens[usize::from(byte)] = found[usize::from(byte)].ok_or(TokenizerError::MissingByte(byte))?;
    }
    Ok(tokens)
}

/// Tokens that are found in the text before anything is joined, by their first byte and the longest first.
struct Marks(HashMap<u8, Vec<Mark>>);

struct Mark {
    text: String,
    token: TokenId,
    kind: Kind,
}

impl Marks {
    fn new(table: &Vocabulary) -> Self {
        let mut marks: HashMap<u8, Vec<Mark>> = HashMap::new();
        for (token, text, kind) in table.iter() {
            if let (Kind::Control | Kind::UserDefined, Some(first)) = (kind, text.bytes().next()) {
                marks.entry(first).or_default().push(Mark {
                    text: text.to_owned(),
                    token,
                    kind,
                });
            }
        }
        marks
            .values_mut()
            .for_each(|list| list.sort_by_key(|mark| Reverse(mark.text.len())));
        Self(marks)
    }

    /// The text before the first mark, the mark, and the text behind it.
    fn next<'t>(&self, text: &'t str, specials: Specials) -> (&'t str, Option<TokenId>, &'t str) {
        for (at, _) in text.char_indices() {
            if let Some(mark) = self.at(&text[at..], specials) {
                return (&text[..at], Some(mark.token), &text[at + mark.text.len()..]);
            }
        }
        (text, None, "")
    }

    /// The longest mark that `text` begins with.
    fn at(&self, text: &str, specials: Specials) -> Option<&Mark> {
        let active = |kind: Kind| specials == Specials::AsTokens || kind != Kind::Control;
        let marks = self.0.get(text.as_bytes().first()?)?;
        marks
            .iter()
            .find(|mark| active(mark.kind) && text.starts_with(&mark.text))
    }
}

/// A pair of neighbours that could be joined.
struct Pair {
    score: f32,
    left: usize,
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// A text as a chain of symbols, each named by the byte at which it starts.
struct Joiner<'a> {
    model: &'a SentencePiece,
    text: &'a str,
    /// Length of the symbol that starts at a byte; 0 where none does.
    lens: Vec<usize>,
    /// Start of the symbol before the one that starts at a byte.
    before: Vec<Option<usize>>,
    pairs: BinaryHeap<Pair>,
}

impl<'a> Joiner<'a> {
    fn new(model: &'a SentencePiece, text: &'a str) -> Self {
        let (mut lens, mut before) = (vec![0; text.len()], vec![None; text.len()]);
        let mut last = None;
        for (at, c) in text.char_indices() {
            lens[at] = c.len_utf8();
            before[at] = last.replace(at);
        }
        Self {
            model,
            text,
            lens,
            before,
            pairs: BinaryHeap::new(),
        }
    }

    /// The symbols that remain when no pair is left to join.
    fn join(mut self) -> Vec<&'a str> {
        for (at, _) in self.text.char_indices() {
            self.offer(at);
        }
        while let Some(pair) = self.pairs.pop() {
            if self.lens[pair.left] != 0 && self.pair_len(pair.left) == Some(pair.len) {
                self.merge(pair.left, pair.len);
            }
        }
        let starts = self.lens.iter().enumerate().filter(|(_, len)| **len != 0);
        starts.map(|(at, len)| &self.text[at..at + len]).collect()
    }

    /// Length of the symbol at `left` together with its neighbour.
    fn pair_len(&self, left: usize) -> Option<usize> {
        let len = self.lens[left];
        self.lens.get(left + len).map(|right| len + right)
    }

    fn offer(&mut self, left: usize) {
        let Some(len) = self.pair_len(left) else { return };
        if let Some(piece) = self.model.pieces.get(&self.text[left..left + len]) {
            self.pairs.push(Pair {
                score: piece.score,
                left,
                len,
            });
        }
    }

    fn merge(&mut self, left: usize, len: usize) {
        let right = left + self.lens[left];
        self.lens[right] = 0;
        self.lens[left] = len;
        if let Some(before) = self.before.get_mut(left + len) {
            *before = Some(left);
        }
        if let Some(before) = self.before[left] {
            self.offer(before);
        }
        self.offer(left);
    }
}
