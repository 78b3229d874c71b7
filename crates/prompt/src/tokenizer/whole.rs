//! Whole texts: the tokens of a prompt that is nothing but a text, and the text that tokens spell.

use medley_kv::TokenId;

use super::{Specials, Tokenizer, vocabulary::Kind};

impl Tokenizer {
    /// The tokens of a plain prompt of this text. With `begin`, BOS stands in front where the model expects it, once.
    pub fn encode_prompt(&self, text: &str, begin: bool) -> Vec<TokenId> {
        let mut tokens = self.encode(text, Specials::AsTokens);
        let bos = self.bos().filter(|_| begin && self.adds_bos());
        if let Some(bos) = bos.filter(|bos| tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        tokens
    }

    /// The text from which `tokens` are read: control tokens are spelled, and the space that the tokenizer puts in front
    /// of texts is left out. Bytes that are not UTF-8 become U+FFFD.
    pub fn spell(&self, tokens: &[TokenId]) -> String {
        let (mut bytes, mut begins) = (Vec::new(), true);
        for token in tokens {
            let (piece, is_mark) = self.piece(*token);
            let prefixed = begins && !is_mark && self.0.puts_space;
            let piece = if prefixed {
                piece.strip_prefix(b" ").unwrap_or(piece)
            } else {
                piece
            };
            bytes.extend_from_slice(piece);
            begins = is_mark;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes from which `token` is read, and whether it is one of those that are found before anything is joined.
    fn piece(&self, token: TokenId) -> (&[u8], bool) {
        match self.0.table.kind(token) {
            Some(Kind::Control) => (self.token_text(token).as_bytes(), true),
            Some(Kind::UserDefined) => (self.token_bytes(token), true),
            _ => (self.token_bytes(token), false),
        }
    }

    /// The token that ends a text, as the model's files name it.
    pub fn eos(&self) -> Option<TokenId> {
        self.0.named.eos
    }

    /// The control tokens, in order.
    pub fn control_tokens(&self) -> impl Iterator<Item = (TokenId, &str)> {
        let control = self.0.table.iter().filter(|(_, _, kind)| *kind == Kind::Control);
        control.map(|(id, text, _)| (id, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_vocabulary::{byte_level_tokenizer, sentencepiece};

    fn ids(tokens: &[TokenId]) -> Vec<u32> {
        tokens.iter().map(|token| token.0).collect()
    }

    #[test]
    fn a_plain_prompt_begins_with_bos_once_if_it_is_to() {
        let tokenizer = byte_level_tokenizer();
        assert_eq!(ids(&tokenizer.encode_prompt("a", true)), [0, 3 + 97]);
        assert_eq!(ids(&tokenizer.encode_prompt("<bos>a", true)), [0, 3 + 97]);
        assert_eq!(ids(&tokenizer.encode_prompt("a", false)), [3 + 97]);
        assert_eq!(ids(&tokenizer.encode_prompt("", true)), [0]);
        assert!(tokenizer.encode_prompt("", false).is_empty());
    }

    #[test]
    fn spelled_tokens_are_the_text_that_they_were_read_from() {
        let tokenizers = [
            byte_level_tokenizer(),
            Tokenizer::from_gguf(sentencepiece()).expect("a vocabulary"),
        ];
        for tokenizer in &tokenizers {
            for text in [
                "",
                "a",
                " a",
                "  aab",
                "hello #",
                "<bos>a<tool> b",
                "<s>a</s> b\n",
                "ß 漢\u{1F600}",
            ] {
                let tokens = tokenizer.encode(text, Specials::AsTokens);
                assert_eq!(tokenizer.spell(&tokens), text, "{tokens:?}");
            }
        }
    }

    #[test]
    fn a_piece_of_a_character_is_spelled_as_the_replacement() {
        let tokenizer = byte_level_tokenizer();
        assert_eq!(tokenizer.spell(&[TokenId(3 + 0xC3)]), "\u{FFFD}");
        assert_eq!(tokenizer.spell(&[TokenId(999_999)]), "");
    }
}
