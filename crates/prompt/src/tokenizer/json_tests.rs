use serde_json::{Value, json};

use super::*;
use crate::test_vocabulary::byte_level;

/// `byte_level` as a `tokenizer.json`, its added tokens outside the model's vocabulary as many files have them.
fn file() -> Value {
    let vocabulary = byte_level();
    let numbered = vocabulary.tokens.iter().enumerate();
    let vocab: serde_json::Map<_, _> = numbered
        .skip(3)
        .map(|(id, text)| (text.clone(), id.into()))
        .collect();
    let added = |id: u32, content: &str, special: bool| {
        json!({"id": id, "content": content, "special": special, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false})
    };
    let merges: Vec<_> = vocabulary
        .merges
        .iter()
        .filter(|merge| *merge != "<bos >")
        .collect();
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "added_tokens": [added(0, "<bos>", true), added(1, "<|im_end|>", true), added(2, "<tool>", false)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [0], "tokens": ["<bos>"]}},
        },
        "model": {"type": "BPE", "unk_token": "<bos>", "vocab": vocab, "merges": merges},
    })
}

fn read(file: &Value, config: &Value) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_json(file.to_string().as_bytes(), Some(&config.to_string()))
}

fn config() -> Value {
    json!({"bos_token": {"content": "<bos>"}, "eos_token": "<|im_end|>", "add_bos_token": null})
}

#[test]
fn a_json_file_and_a_gguf_file_of_one_vocabulary_agree() {
    let json = read(&file(), &config()).expect("file");
    let gguf = Tokenizer::from_gguf(GgufVocabulary {
        pre: "gpt-2".to_owned(),
        ..byte_level()
    })
    .expect("vocabulary");
    for text in ["hello hello", "a<bos>b <|im_end|>", "<tool> é漢\n\n  # # ", ""] {
        for specials in [Specials::AsText, Specials::AsTokens] {
            assert_eq!(
                json.encode(text, specials),
                gguf.encode(text, specials),
                "{text:?} {specials:?}"
            );
        }
    }
    assert_eq!(json.vocab_size(), gguf.vocab_size());
    let bytes = |tokenizer: &Tokenizer| {
        (0..300)
            .map(|id| tokenizer.token_bytes(TokenId(id)).to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(bytes(&json), bytes(&gguf));
    assert_eq!(
        (json.bos(), json.end_of_text()),
        (Some(TokenId(0)), &[TokenId(1)][..])
    );
}

#[test]
fn the_post_processor_tells_whether_bos_is_added_unless_the_configuration_does() {
    let adds = |file: &Value, config: &Value| read(file, config).expect("file").adds_bos();
    let mut without = file();
    without["post_processor"] = Value::Null;
    let says = |value: bool| json!({"bos_token": "<bos>", "add_bos_token": value});
    assert!(adds(&file(), &config()));
    assert!(!adds(&without, &config()));
    assert!(adds(&without, &says(true)));
    assert!(!adds(&file(), &says(false)));
    assert!(!adds(&file(), &json!({})), "no BOS is named");
}

#[test]
fn a_document_can_not_reach_a_control_token_through_the_vocabulary_or_the_unknown_token() {
    let mut file = file();
    file["model"]["ignore_merges"] = true.into();
    file["model"]["vocab"]["stop"] = 500.into();
    let added = file["added_tokens"].as_array_mut().expect("list");
    let mut stop = added[0].clone();
    (stop["id"], stop["content"]) = (500.into(), "stop".into());
    added.push(stop);
    file["model"]["vocab"].as_object_mut().expect("map").remove("Ã");
    let tokenizer = read(&file, &config()).expect("file");
    let tokens = tokenizer.encode("stop é<bos>", Specials::AsText);
    assert!(
        tokens.iter().all(|token| ![0, 1, 500].contains(&token.0)),
        "{tokens:?}"
    );
    assert_eq!(tokenizer.encode("stop", Specials::AsTokens), [TokenId(500)]);
    assert_eq!(
        (tokenizer.vocab_size(), tokenizer.token_bytes(TokenId(499))),
        (501, &[][..])
    );
}

#[test]
fn a_sentencepiece_file_spells_spaces_and_bytes() {
    let file = json!({
        "version": "1.0", "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}]},
        "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
            "vocab": {"a": 0, "▁": 1, "▁a": 2, "<0xC3>": 3, "<0xA9>": 4}, "merges": [["▁", "a"]]},
    });
    let tokenizer = read(&file, &json!({})).expect("file");
    let tokens = tokenizer.encode("a aé", Specials::AsText);
    assert_eq!(tokens, [0, 2, 3, 4].map(TokenId));
    assert_eq!(tokenizer.decode(&tokens), "a aé");
}

#[test]
fn the_default_chat_template_is_taken() {
    let template = |value: Value| {
        let tokenizer = read(&file(), &json!({"chat_template": value})).expect("file");
        tokenizer.chat_template().map(str::to_owned)
    };
    assert_eq!(template("x".into()).as_deref(), Some("x"));
    let list = json!([{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]);
    assert_eq!(template(list).as_deref(), Some("d"));
    assert_eq!(template(Value::Null), None);
}

#[test]
fn files_of_other_kinds_are_refused_with_the_reason() {
    let error = |edit: fn(&mut Value)| {
        let mut file = file();
        edit(&mut file);
        read(&file, &config())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(error(|f| f["model"]["type"] = "Unigram".into()).contains("not BPE"));
    assert!(error(|f| f["model"]["vocab"] = Value::Null).contains("no vocabulary"));
    assert!(error(|f| f["model"] = Value::Null).contains("no model"));
    assert!(error(|f| f["decoder"] = Value::Null).contains("decoder"));
    assert!(error(|f| f["model"]["vocab"]["x"] = u32::MAX.into()).contains("too large"));
    assert!(error(|f| f["added_tokens"][0]["id"] = u32::MAX.into()).contains("too large"));
    assert!(Tokenizer::from_json(b"{", None).is_err());
    assert!(Tokenizer::from_json(b"[]", None).is_err());
}

#[test]
fn only_added_tokens_of_a_file_can_end_a_text() {
    let mut file = file();
    file["model"]["vocab"]["</s>"] = 500.into();
    let mut end = file["added_tokens"][2].clone();
    (end["id"], end["content"]) = (501.into(), "<|endoftext|>".into());
    file["added_tokens"].as_array_mut().expect("list").push(end);
    let tokenizer = read(&file, &config()).expect("file");
    assert_eq!(
        tokenizer.end_of_text(),
        [1, 501].map(TokenId),
        "500 is a piece of text"
    );
    assert!(
        !tokenizer
            .encode("<|endoftext|>", Specials::AsText)
            .contains(&TokenId(501))
    );
}
