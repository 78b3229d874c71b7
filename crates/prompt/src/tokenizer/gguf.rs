//! A tokenizer from the metadata of a GGUF file.

use super::{
    Encoder, Named, Tokenizer, TokenizerError,
    bpe::Bpe,
    end_of_text,
    sentencepiece::SentencePiece,
    split,
    vocabulary::{Kind, Spelling, Vocabulary},
};

/// The `tokenizer.*` metadata of a GGUF file.
#[derive(Clone, Debug, Default)]
pub struct GgufVocabulary {
    /// `tokenizer.ggml.model`: `gpt2` is byte-level BPE, `llama` is SentencePiece.
    pub model: String,
    /// `tokenizer.ggml.pre`: how BPE splits text. Not read for SentencePiece.
    pub pre: String,
    /// `tokenizer.ggml.tokens`: the spelling of each token.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type` of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    /// Empty if the file has none: all are normal.
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.merges`: BPE's merges by rank.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.scores`: SentencePiece's score of each token.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`: whether SentencePiece text gets a space in front. True if absent.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

impl Tokenizer {
    /// Builds the tokenizer that a GGUF file describes. Its token ids are those that llama.cpp gives.
    ///
    /// The text is never normalised, also where the model's own tokenizer file does so.
    pub fn from_gguf(vocabulary: GgufVocabulary) -> Result<Self, TokenizerError> {
        let spelling = spelling(&vocabulary.model)?;
        let kinds = kinds(&vocabulary)?;
        let table = Vocabulary::new(vocabulary.tokens.into_iter().zip(kinds).collect(), spelling)?;
        let (encoder, model_adds_bos) = match spelling {
            Spelling::ByteLevel => {
                let split = split::named(&vocabulary.pre).ok_or(TokenizerError::UnknownPre {
                    pre: vocabulary.pre,
                    supported: split::NAMES,
                })?;
                (
                    Encoder::Bpe(Box::new(Bpe::new(&table, &vocabulary.merges, split)?)),
                    split.adds_bos,
                )
            }
            Spelling::SentencePiece => {
                let space = vocabulary.add_space_prefix.unwrap_or(true);
                (
                    Encoder::SentencePiece(SentencePiece::new(&table, &vocabulary.scores, space)?),
                    true,
                )
            }
        };
        let named = Named {
            bos: table.named("BOS", vocabulary.bos)?,
            eos: table.named("EOS", vocabulary.eos)?,
            adds_bos: vocabulary.add_bos.unwrap_or(model_adds_bos),
            chat_template: vocabulary.chat_template,
            class: match spelling {
                Spelling::ByteLevel => "GPT2TokenizerFast".to_owned(),
                Spelling::SentencePiece => "LlamaTokenizerFast".to_owned(),
            },
        };
        Ok(Self::assemble(encoder, table, named))
    }
}

fn spelling(model: &str) -> Result<Spelling, TokenizerError> {
    match model {
        "gpt2" => Ok(Spelling::ByteLevel),
        "llama" => Ok(Spelling::SentencePiece),
        _ => Err(TokenizerError::UnknownModel(model.to_owned())),
    }
}

/// The kind of each token. What the file names as BOS, EOS, unknown or padding, and what is known to end a text,
/// is control whatever its type says: a document must not be able to spell it.
fn kinds(vocabulary: &GgufVocabulary) -> Result<Vec<Kind>, TokenizerError> {
    let (types, tokens) = (&vocabulary.token_types, &vocabulary.tokens);
    if !types.is_empty() && types.len() != tokens.len() {
        let (expected, found) = (tokens.len(), types.len());
        return Err(TokenizerError::WrongLength {
            what: "token types",
            expected,
            found,
        });
    }
    let mut kinds: Vec<_> = types.iter().map(|code| kind(*code)).collect();
    kinds.resize(tokens.len(), Kind::Normal);
    let ends = tokens
        .iter()
        .enumerate()
        .filter(|(_, text)| end_of_text::is_known(text))
        .map(|(id, _)| id);
    let named = [
        vocabulary.bos,
        vocabulary.eos,
        vocabulary.unknown,
        vocabulary.padding,
    ];
    for id in ends.chain(named.into_iter().flatten().map(|id| id as usize)) {
        if let Some(kind) = kinds.get_mut(id) {
            *kind = Kind::Control;
        }
    }
    Ok(kinds)
}

fn kind(code: i32) -> Kind {
    match code {
        2 | 3 => Kind::Control,
        4 => Kind::UserDefined,
        5 => Kind::Unused,
        6 => Kind::Byte,
        _ => Kind::Normal,
    }
}
