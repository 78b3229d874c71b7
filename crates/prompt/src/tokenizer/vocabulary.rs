//! The table of tokens: how each is spelled, what kind it is and which bytes it stands for.
//!
//! The bytes of a token may be a part of a UTF-8 character only; whoever shows text joins bytes first.

use medley_kv::TokenId;

use super::{TokenizerError, byte_level};

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A piece of text.
    Normal,
    /// Steers the model and stands for no text, such as BOS.
    Control,
    /// Text that is one token wherever it occurs.
    UserDefined,
    /// One byte of a SentencePiece vocabulary, spelled `<0x0A>`.
    Byte,
    /// Padding of the table.
    Unused,
}

/// How the table spells text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// One character a byte.
    ByteLevel,
    /// Text with `▁` for the space.
    SentencePiece,
}

/// All tokens by id.
pub(crate) struct Vocabulary {
    texts: Vec<String>,
    kinds: Vec<Kind>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    longest: usize,
}

impl Vocabulary {
    /// A table of `(text, kind)`, its bytes computed.
    pub(crate) fn new(tokens: Vec<(String, Kind)>, spelling: Spelling) -> Result<Self, TokenizerError> {
        if tokens.is_empty() {
            return Err(TokenizerError::NoTokens);
        }
        let (texts, kinds): (Vec<_>, Vec<_>) = tokens.into_iter().unzip();
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(texts.len()));
        for (text, kind) in texts.iter().zip(&kinds) {
            bytes.extend(bytes_of(text, *kind, spelling));
            ends.push(bytes.len());
        }
        let longest = longest(&texts, &kinds, &ends);
        Ok(Self {
            texts,
            kinds,
            bytes,
            ends,
            longest,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Bytes that the longest token takes from a text; at least 1.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Every token with its spelling and kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TokenId, &str, Kind)> {
        let ids = (0..).map(TokenId);
        ids.zip(&self.texts)
            .zip(&self.kinds)
            .map(|((id, text), kind)| (id, text.as_str(), *kind))
    }

    /// The bytes that `token` stands for; empty for control tokens and ids outside the table.
    pub(crate) fn bytes(&self, token: TokenId) -> &[u8] {
        let index = token.0 as usize;
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        self.ends.get(index).map_or(&[], |end| &self.bytes[start..*end])
    }

    /// The spelling of `token`; empty for ids outside the table.
    pub(crate) fn text(&self, token: TokenId) -> &str {
        self.texts.get(token.0 as usize).map_or("", String::as_str)
    }

    /// What `token` is for; none for ids outside the table.
    pub(crate) fn kind(&self, token: TokenId) -> Option<Kind> {
        self.kinds.get(token.0 as usize).copied()
    }

    /// The first control token.
    pub(crate) fn first_control(&self) -> Option<TokenId> {
        self.kinds
            .iter()
            .position(|kind| *kind == Kind::Control)
            .map(|index| TokenId(index as u32))
    }

    /// `id` as a token of this table, or an error that calls it `name`.
    pub(crate) fn named(
        &self,
        name: &'static str,
        id: Option<u32>,
    ) -> Result<Option<TokenId>, TokenizerError> {
        match id {
            Some(id) if id as usize >= self.len() => Err(TokenizerError::NamedTokenOutside {
                name,
                id,
                len: self.len(),
            }),
            _ => Ok(id.map(TokenId)),
        }
    }
}

/// A control token stands for no bytes, but takes its spelling from a text.
fn longest(texts: &[String], kinds: &[Kind], ends: &[usize]) -> usize {
    let starts = std::iter::once(&0).chain(ends);
    let lengths = texts.iter().zip(kinds).zip(starts.zip(ends));
    lengths
        .map(|((text, kind), (start, end))| match kind {
            Kind::Control | Kind::Unused => text.len(),
            Kind::Normal | Kind::UserDefined | Kind::Byte => end - start,
        })
        .max()
        .map_or(1, |longest| longest.max(1))
}

fn bytes_of(text: &str, kind: Kind, spelling: Spelling) -> Vec<u8> {
    match (kind, spelling) {
        (Kind::Control | Kind::Unused, _) => Vec::new(),
        (Kind::Byte, _) => byte_token(text).into_iter().collect(),
        (Kind::Normal, Spelling::ByteLevel) => {
            byte_level::bytes_of(text).unwrap_or_else(|| text.as_bytes().to_vec())
        }
        (Kind::UserDefined, Spelling::ByteLevel) => text.as_bytes().to_vec(),
        (_, Spelling::SentencePiece) => text.replace('▁', " ").into_bytes(),
    }
}

/// The byte that a token like `<0x0A>` spells.
pub(crate) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_is_counted_in_bytes_of_the_text_that_it_is_read_from() {
        let longest = |list: &[(&str, Kind)]| {
            let tokens = list.iter().map(|(text, kind)| ((*text).to_owned(), *kind));
            let table = Vocabulary::new(tokens.collect(), Spelling::ByteLevel).expect("table");
            table.longest()
        };
        assert_eq!(longest(&[("Ġab", Kind::Normal), ("a", Kind::Normal)]), 3);
        assert_eq!(longest(&[("Ġab", Kind::Normal), ("<end>", Kind::Control)]), 5);
        assert_eq!(longest(&[("", Kind::Unused)]), 1);
    }

    #[test]
    fn bytes_follow_the_spelling() {
        let tokens = |list: &[(&str, Kind)]| {
            list.iter()
                .map(|(t, k)| ((*t).to_owned(), *k))
                .collect::<Vec<_>>()
        };
        let pieces = [
            ("▁a", Kind::Normal),
            ("<0x0A>", Kind::Byte),
            ("<s>", Kind::Control),
            ("", Kind::Unused),
        ];
        let table = Vocabulary::new(tokens(&pieces), Spelling::SentencePiece).expect("table");
        let bytes: Vec<_> = (0..5).map(|id| table.bytes(TokenId(id)).to_vec()).collect();
        assert_eq!(bytes, [b" a".to_vec(), b"\n".to_vec(), vec![], vec![], vec![]]);

        let levels = [
            ("Ġa", Kind::Normal),
            ("Ã", Kind::Normal),
            ("<Ġ>", Kind::UserDefined),
        ];
        let table = Vocabulary::new(tokens(&levels), Spelling::ByteLevel).expect("table");
        assert_eq!(table.bytes(TokenId(0)), b" a");
        assert_eq!(table.bytes(TokenId(1)), [0xC3]);
        assert_eq!(table.bytes(TokenId(2)), "<Ġ>".as_bytes());
    }
}
