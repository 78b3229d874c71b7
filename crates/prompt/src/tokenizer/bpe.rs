//! A byte-level BPE tokenizer of the tokenizer library, built from a table of tokens and merges.

use medley_kv::TokenId;
use tokenizers::{
    AddedToken, SplitDelimiterBehavior, Tokenizer,
    models::bpe::{BPE, Vocab},
    pre_tokenizers::{
        PreTokenizerWrapper,
        byte_level::ByteLevel,
        sequence::Sequence,
        split::{Split as SplitAt, SplitPattern},
    },
};

use super::{
    Specials, TokenizerError,
    split::Split,
    vocabulary::{Kind, Vocabulary},
};

/// The two readings of text that a vocabulary has.
///
/// The reading as text doesn't know the control tokens at all: neither their spelling nor a merge can make one.
pub(crate) struct Bpe {
    as_text: Tokenizer,
    as_tokens: Tokenizer,
}

impl Bpe {
    /// Byte-level BPE with ranked `merges`, each two spellings with a space between.
    pub(crate) fn new(table: &Vocabulary, merges: &[String], split: Split) -> Result<Self, TokenizerError> {
        let build = |specials| build(table, merges, split, specials).map_err(TokenizerError::Library);
        Ok(Self {
            as_text: build(Specials::AsText)?,
            as_tokens: build(Specials::AsTokens)?,
        })
    }

    /// Two tokenizers made elsewhere, both unable to refuse a text.
    pub(crate) fn from_parts(as_text: Tokenizer, as_tokens: Tokenizer) -> Self {
        Self { as_text, as_tokens }
    }

    pub(crate) fn encode(&self, text: &str, specials: Specials) -> Vec<TokenId> {
        let tokenizer = match specials {
            Specials::AsText => &self.as_text,
            Specials::AsTokens => &self.as_tokens,
        };
        match tokenizer.encode_fast(text, false) {
            Ok(encoding) => encoding.get_ids().iter().copied().map(TokenId).collect(),
            Err(error) => {
                debug_assert!(
                    false,
                    "the library fails only without the unknown token it was told of: {error}"
                );
                Vec::new()
            }
        }
    }
}

fn build(
    table: &Vocabulary,
    merges: &[String],
    split: Split,
    specials: Specials,
) -> Result<Tokenizer, tokenizers::Error> {
    let known = |kind| specials == Specials::AsTokens || kind != Kind::Control;
    let vocab: Vocab = table
        .iter()
        .filter(|(_, _, kind)| known(*kind))
        .map(|(id, text, _)| (text.to_owned(), id.0))
        .collect();
    let merges = usable(merges, &vocab);
    let model = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .ignore_merges(split.whole_pieces)
        .build()?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(split)?));
    tokenizer.add_tokens(&added(table, specials));
    Ok(tokenizer)
}

/// Merges whose two parts and result all have tokens; the others could never be seen in the output.
fn usable(merges: &[String], vocab: &Vocab) -> Vec<(String, String)> {
    let pairs = merges.iter().filter_map(|merge| merge.split_once(' '));
    let usable = pairs.filter(|(left, right)| {
        vocab.contains_key(*left)
            && vocab.contains_key(*right)
            && vocab.contains_key(&format!("{left}{right}"))
    });
    usable
        .map(|(left, right)| (left.to_owned(), right.to_owned()))
        .collect()
}

fn pre_tokenizer(split: Split) -> Result<Sequence, tokenizers::Error> {
    let mut steps = Vec::new();
    for pattern in split.patterns {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        let step = SplitAt::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
        steps.push(PreTokenizerWrapper::Split(step));
    }
    steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(
        false, false, false,
    )));
    Ok(Sequence::new(steps))
}

fn added(table: &Vocabulary, specials: Specials) -> Vec<AddedToken> {
    let wanted = |kind| match kind {
        Kind::UserDefined => true,
        Kind::Control => specials == Specials::AsTokens,
        Kind::Normal | Kind::Byte | Kind::Unused => false,
    };
    let tokens = table.iter().filter(|(_, _, kind)| wanted(*kind));
    tokens
        .map(|(_, text, kind)| AddedToken::from(text, kind == Kind::Control).normalized(false))
        .collect()
}
