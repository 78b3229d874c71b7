//! A tokenizer from a `tokenizer.json`, with what `tokenizer_config.json` says beside it.
//!
//! Only BPE models are read: no decoder-only model of note uses another kind. The file's normaliser and splitting
//! are the library's business; its post-processor only tells whether the model expects BOS.

use std::{collections::HashSet, str::FromStr};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Encoder, Named, Tokenizer, TokenizerError,
    bpe::Bpe,
    end_of_text,
    vocabulary::{Kind, Spelling, Vocabulary, byte_token},
};

/// The class that reads every `tokenizer.json`.
const ANY_CLASS: &str = "PreTrainedTokenizerFast";

/// The parts of `tokenizer_config.json` that matter here.
#[derive(Default, Deserialize)]
struct Config {
    bos_token: Option<Name>,
    eos_token: Option<Name>,
    add_bos_token: Option<bool>,
    chat_template: Option<ChatTemplate>,
    tokenizer_class: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Plain(String),
    Described { content: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ChatTemplate {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

impl Tokenizer {
    /// Builds the tokenizer of a `tokenizer.json`; BOS, EOS and the chat template come from the text of the
    /// `tokenizer_config.json` that stands beside it.
    pub fn from_json(tokenizer_json: &[u8], tokenizer_config: Option<&str>) -> Result<Self, TokenizerError> {
        let config: Config = match tokenizer_config {
            Some(text) => serde_json::from_str(text).map_err(TokenizerError::Config)?,
            None => Config::default(),
        };
        let mut file = File::read(tokenizer_json, &config)?;
        let table = file.table()?;
        let as_tokens = file.build()?;
        let post_processed = as_tokens.encode_fast("", true).map_err(TokenizerError::Library)?;
        file.forget_control_tokens();
        let encoder = Encoder::Bpe(Box::new(Bpe::from_parts(file.build()?, as_tokens)));
        let id = |name: &Option<Name>| name.as_ref().and_then(|name| id_of(&table, name.text()));
        let (bos, eos) = (id(&config.bos_token), id(&config.eos_token));
        let begins_with_bos = bos.is_some_and(|bos| post_processed.get_ids().first() == Some(&bos));
        let named = Named {
            bos: table.named("BOS", bos)?,
            eos: table.named("EOS", eos)?,
            adds_bos: config.add_bos_token.unwrap_or(begins_with_bos),
            chat_template: config.chat_template.and_then(ChatTemplate::default_text),
            class: config.tokenizer_class.unwrap_or_else(|| ANY_CLASS.to_owned()),
        };
        Ok(Self::assemble(encoder, table, named))
    }
}

impl Name {
    fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Described { content: text } => text,
        }
    }
}

impl ChatTemplate {
    fn default_text(self) -> Option<String> {
        match self {
            Self::One(text) => Some(text),
            Self::Named(list) => list.into_iter().find(|t| t.name == "default").map(|t| t.template),
        }
    }
}

fn id_of(table: &Vocabulary, spelling: &str) -> Option<u32> {
    table
        .iter()
        .find(|(_, text, _)| *text == spelling)
        .map(|(id, _, _)| id.0)
}

/// A tokenizer file whose added tokens all have their ids in the model's vocabulary, so that leaving some out
/// moves no other.
struct File {
    root: Map<String, Value>,
    vocab: Map<String, Value>,
    added: Vec<Added>,
}

impl File {
    fn read(bytes: &[u8], config: &Config) -> Result<Self, TokenizerError> {
        let mut root: Map<String, Value> = serde_json::from_slice(bytes).map_err(TokenizerError::Json)?;
        let added = root
            .get("added_tokens")
            .cloned()
            .unwrap_or_else(|| Value::Array(Vec::new()));
        let mut added: Vec<Added> = serde_json::from_value(added).map_err(TokenizerError::Json)?;
        for token in &mut added {
            let named = [&config.bos_token, &config.eos_token].into_iter().flatten();
            token.special |= end_of_text::is_known(&token.content)
                || named.into_iter().any(|name| name.text() == token.content);
        }
        for unwanted in ["truncation", "padding"] {
            root.insert(unwanted.to_owned(), Value::Null);
        }
        let model = model(&mut root)?;
        if !matches!(model.get("type"), None | Some(Value::Null)) && model.get("type") != Some(&"BPE".into())
        {
            return Err(TokenizerError::Unsupported("its model is not BPE"));
        }
        let Some(Value::Object(mut vocab)) = model.remove("vocab") else {
            return Err(TokenizerError::Unsupported("its model has no vocabulary"));
        };
        for token in &added {
            vocab.insert(token.content.clone(), token.id.into());
        }
        if !model
            .get("unk_token")
            .and_then(Value::as_str)
            .is_some_and(|unknown| vocab.contains_key(unknown))
        {
            model.insert("unk_token".to_owned(), Value::Null);
        }
        Ok(Self { root, vocab, added })
    }

    fn table(&mut self) -> Result<Vocabulary, TokenizerError> {
        let spelling = self.spelling()?;
        let byte_fallback = model(&mut self.root)?.get("byte_fallback") == Some(&true.into());
        let ids = self
            .vocab
            .iter()
            .filter_map(|(text, id)| Some((text, u32::try_from(id.as_u64()?).ok()?)));
        let ids: Vec<_> = ids.collect();
        let len = ids.iter().map(|(_, id)| *id as usize + 1).max().unwrap_or(0);
        if len > MAX_TOKENS {
            return Err(TokenizerError::Unsupported("its token ids are too large"));
        }
        let mut tokens = vec![(String::new(), Kind::Unused); len];
        for (text, id) in ids {
            let byte = byte_fallback && byte_token(text).is_some();
            tokens[id as usize] = (text.clone(), if byte { Kind::Byte } else { Kind::Normal });
        }
        for token in &self.added {
            let kind = if token.special {
                Kind::Control
            } else {
                Kind::UserDefined
            };
            if let Some(entry) = tokens.get_mut(token.id as usize) {
                *entry = (token.content.clone(), kind);
            }
        }
        Vocabulary::new(tokens, spelling)
    }

    fn spelling(&self) -> Result<Spelling, TokenizerError> {
        let decoder = self.root.get("decoder").map(Value::to_string).unwrap_or_default();
        if decoder.contains("\"ByteLevel\"") {
            Ok(Spelling::ByteLevel)
        } else if decoder.contains('▁') {
            Ok(Spelling::SentencePiece)
        } else {
            Err(TokenizerError::Unsupported(
                "its decoder is neither byte-level nor SentencePiece's",
            ))
        }
    }

    fn build(&mut self) -> Result<tokenizers::Tokenizer, TokenizerError> {
        let vocab = self.vocab.clone();
        model(&mut self.root)?.insert("vocab".to_owned(), Value::Object(vocab));
        let text = Value::Object(self.root.clone()).to_string();
        tokenizers::Tokenizer::from_str(&text).map_err(TokenizerError::Library)
    }

    /// Takes the control tokens out of the vocabulary, the merges and the added tokens.
    fn forget_control_tokens(&mut self) {
        let control: HashSet<_> = self
            .added
            .iter()
            .filter(|t| t.special)
            .map(|t| t.content.clone())
            .collect();
        self.vocab.retain(|text, _| !control.contains(text));
        if let Some(Value::Array(added)) = self.root.get_mut("added_tokens") {
            added.retain(|token| {
                !token["content"]
                    .as_str()
                    .is_some_and(|text| control.contains(text))
            });
        }
        let Some(Value::Object(model)) = self.root.get_mut("model") else {
            return;
        };
        if model
            .get("unk_token")
            .and_then(Value::as_str)
            .is_some_and(|text| control.contains(text))
        {
            model.insert("unk_token".to_owned(), Value::Null);
        }
        if let Some(Value::Array(merges)) = model.get_mut("merges") {
            merges.retain(|merge| {
                parts(merge).is_none_or(|(left, right)| {
                    let joined = format!("{left}{right}");
                    ![left, right, &joined]
                        .into_iter()
                        .any(|text| control.contains(text))
                })
            });
        }
    }
}

/// More ids than any model has: a file with larger ones would make the table take memory without bound.
const MAX_TOKENS: usize = 1 << 24;

fn model(root: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, TokenizerError> {
    root.get_mut("model")
        .and_then(Value::as_object_mut)
        .ok_or(TokenizerError::Unsupported("it has no model"))
}

/// The two parts of a merge, written as `"a b"` or as `["a", "b"]`.
fn parts(merge: &Value) -> Option<(&str, &str)> {
    match merge {
        Value::String(text) => text.split_once(' '),
        Value::Array(pair) => Some((pair.first()?.as_str()?, pair.get(1)?.as_str()?)),
        _ => None,
    }
}
