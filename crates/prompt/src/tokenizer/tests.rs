use super::*;
use crate::test_vocabulary::{byte_level, byte_level_tokenizer, sentencepiece};

fn ids(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}

/// Joins one to nine of `fragments`.
fn random_text(random: &mut fastrand::Rng, fragments: &[&str]) -> String {
    (0..random.usize(1..10))
        .map(|_| fragments[random.usize(..fragments.len())])
        .collect()
}

#[test]
fn control_token_text_is_text_whatever_the_pre_tokenizer_and_merges_do() {
    for pre in split::NAMES.split(", ") {
        let mut vocabulary = GgufVocabulary {
            pre: pre.to_owned(),
            ..byte_level()
        };
        let stop = vocabulary.tokens.len() as u32 + 2;
        vocabulary.tokens.extend(["st", "op", "stop"].map(str::to_owned));
        vocabulary.token_types.extend([1, 1, 3]);
        vocabulary
            .merges
            .extend(["s t", "o p", "st op"].map(str::to_owned));
        let tokenizer = Tokenizer::from_gguf(vocabulary).expect(pre);
        let text = "<bos>a<|im_end|>stop";
        let as_text = tokenizer.encode(text, Specials::AsText);
        assert!(
            as_text.iter().all(|token| ![0, 1, stop].contains(&token.0)),
            "{pre}: {as_text:?}"
        );
        assert_eq!(tokenizer.decode(&as_text), text, "{pre}");
        assert_eq!(
            ids(&tokenizer.encode(text, Specials::AsTokens)),
            [0, 3 + 97, 1, stop],
            "{pre}"
        );
    }
}

#[test]
fn sentencepiece_can_not_join_pieces_to_a_control_token() {
    let tokenizer = Tokenizer::from_gguf(sentencepiece()).expect("vocabulary");
    let as_text = tokenizer.encode("<s>a</s><unk>", Specials::AsText);
    assert!(as_text.iter().all(|token| token.0 > 2), "{as_text:?}");
    assert_eq!(tokenizer.decode(&as_text), " <s>a</s><unk>");
    let as_tokens = tokenizer.encode("<s>a</s><unk>", Specials::AsTokens);
    assert_eq!(
        as_tokens
            .iter()
            .map(|t| tokenizer.token_text(*t))
            .collect::<Vec<_>>(),
        ["<s>", "▁a", "</s>", "<unk>"]
    );
}

#[test]
fn text_survives_the_round_trip() {
    let fragments = [
        "a", " ", "  ", "\n", "<bos>", "<", "s>", "<s>", "hello", "é", "漢", "👍🏽", "7", "\u{301}", "'S",
        "<0x0A>",
    ];
    let bytes = byte_level_tokenizer();
    let pieces = Tokenizer::from_gguf(sentencepiece()).expect("vocabulary");
    for seed in 0..500 {
        let text = random_text(&mut fastrand::Rng::with_seed(seed), &fragments);
        assert_eq!(
            bytes.decode(&bytes.encode(&text, Specials::AsText)),
            text,
            "seed {seed}"
        );
        assert_eq!(
            pieces.decode(&pieces.encode(&text, Specials::AsText)),
            format!(" {text}"),
            "seed {seed}"
        );
    }
}

#[test]
fn a_character_split_across_tokens_comes_back_whole() {
    let tokenizer = byte_level_tokenizer();
    let tokens = tokenizer.encode("é", Specials::AsText);
    assert_eq!(
        tokens
            .iter()
            .map(|t| tokenizer.token_bytes(*t))
            .collect::<Vec<_>>(),
        [[0xC3], [0xA9]]
    );
    assert_eq!(tokenizer.decode(&tokens), "é");
    assert_eq!(tokenizer.decode(&tokens[..1]), "\u{FFFD}");
}

#[test]
fn control_tokens_and_unknown_ids_have_no_bytes() {
    let tokenizer = byte_level_tokenizer();
    assert_eq!(tokenizer.token_bytes(TokenId(0)), b"");
    assert_eq!(tokenizer.token_bytes(TokenId(tokenizer.vocab_size() as u32)), b"");
    assert_eq!(tokenizer.token_text(TokenId(1)), "<|im_end|>");
    assert_eq!(tokenizer.decode(&[TokenId(0), TokenId(3 + 97)]), "a");
}

#[test]
fn a_user_defined_token_is_one_token_in_both_readings() {
    let tokenizer = byte_level_tokenizer();
    for specials in [Specials::AsText, Specials::AsTokens] {
        assert_eq!(ids(&tokenizer.encode("a<tool>a", specials)), [3 + 97, 2, 3 + 97]);
    }
    assert_eq!(tokenizer.token_bytes(TokenId(2)), b"<tool>");
}

#[test]
fn bos_is_added_only_if_there_is_one_and_the_file_or_the_kind_of_model_says_so() {
    let adds = |vocabulary| Tokenizer::from_gguf(vocabulary).expect("vocabulary").adds_bos();
    let llama3 = GgufVocabulary {
        pre: "llama-bpe".to_owned(),
        add_bos: None,
        ..byte_level()
    };
    assert!(adds(byte_level()));
    assert!(!adds(GgufVocabulary {
        bos: None,
        ..byte_level()
    }));
    assert!(!adds(GgufVocabulary {
        add_bos: None,
        ..byte_level()
    }));
    assert!(adds(llama3.clone()));
    assert!(!adds(GgufVocabulary {
        add_bos: Some(false),
        ..llama3
    }));
    assert!(adds(sentencepiece()));
    assert!(!adds(GgufVocabulary {
        add_bos: Some(false),
        ..sentencepiece()
    }));
}

#[test]
fn tokens_that_end_a_text_are_control_tokens_whatever_their_type() {
    let mut vocabulary = byte_level();
    let end = vocabulary.tokens.len() as u32;
    vocabulary.tokens.push("<|endoftext|>".to_owned());
    vocabulary.token_types.push(4);
    let tokenizer = Tokenizer::from_gguf(vocabulary).expect("vocabulary");
    assert_eq!(ids(tokenizer.end_of_text()), [1, end]);
    assert!(
        !tokenizer
            .encode("<|endoftext|>", Specials::AsText)
            .contains(&TokenId(end))
    );
}

#[test]
fn files_that_can_not_be_right_are_refused() {
    let error = |vocabulary| {
        Tokenizer::from_gguf(vocabulary)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    let wrong = |edit: fn(&mut GgufVocabulary)| {
        let mut vocabulary = byte_level();
        edit(&mut vocabulary);
        error(vocabulary)
    };
    assert!(wrong(|v| v.pre = "tekken".to_owned()).contains("\"tekken\": expected one of qwen2"));
    assert!(wrong(|v| v.model = "bert".to_owned()).contains("expected gpt2 or llama"));
    assert!(wrong(|v| v.token_types.truncate(9)).contains("9 token types for"));
    assert!(wrong(|v| v.bos = Some(9999)).contains("the BOS token 9999"));
    assert!(wrong(|v| (v.tokens, v.token_types) = Default::default()).contains("no tokens"));
    assert!(
        error(GgufVocabulary {
            scores: vec![],
            ..sentencepiece()
        })
        .contains("0 scores for")
    );
    let mut missing = sentencepiece();
    missing.tokens[3 + 0x41] = "x".to_owned();
    assert!(error(missing).contains("byte 0x41"));
}

#[test]
fn a_clone_shares_its_tables_across_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let tokenizer = byte_level_tokenizer();
    shared(&tokenizer);
    assert!(Arc::ptr_eq(&tokenizer.0, &tokenizer.clone().0));
}

/// The definition, pair by pair over the whole text: join the best-scored neighbours, the leftmost among equals.
fn joined_slowly(vocabulary: &GgufVocabulary, text: &str) -> Vec<u32> {
    let normal = |piece: &str| {
        let id = vocabulary.tokens.iter().position(|token| token == piece)?;
        (vocabulary.token_types[id] == 1).then_some(id)
    };
    let mut symbols: Vec<String> = format!(" {text}")
        .replace(' ', "▁")
        .chars()
        .map(String::from)
        .collect();
    loop {
        let mut best: Option<(usize, f32)> = None;
        for left in 0..symbols.len().saturating_sub(1) {
            if let Some(id) = normal(&format!("{}{}", symbols[left], symbols[left + 1])) {
                let score = vocabulary.scores[id];
                if best.is_none_or(|(_, so_far)| score > so_far) {
                    best = Some((left, score));
                }
            }
        }
        let Some((left, _)) = best else { break };
        let right = symbols.remove(left + 1);
        symbols[left].push_str(&right);
    }
    let spell = |symbol: &String| match normal(symbol) {
        Some(id) => vec![id as u32],
        None => symbol.bytes().map(|byte| 3 + u32::from(byte)).collect(),
    };
    symbols.iter().flat_map(spell).collect()
}

#[test]
fn sentencepiece_joins_as_its_definition_says() {
    let mut vocabulary = sentencepiece();
    for (id, score) in vocabulary.scores.iter_mut().enumerate() {
        *score = -((id % 3) as f32);
    }
    let tokenizer = Tokenizer::from_gguf(vocabulary.clone()).expect("vocabulary");
    for seed in 0..500 {
        let text = random_text(
            &mut fastrand::Rng::with_seed(seed),
            &["a", "aa", "b", " ", "<s>", "é", "ab", "/"],
        );
        let found = ids(&tokenizer.encode(&text, Specials::AsText));
        assert_eq!(found, joined_slowly(&vocabulary, &text), "seed {seed}: {text:?}");
    }
}
