use medley_kv::Segment;

use super::*;
use crate::{
    GgufVocabulary,
    test_vocabulary::{byte_level, byte_level_tokenizer},
};

const BOS: TokenId = TokenId(0);
const SEPARATOR: &str = " # # ";

pub(super) fn composer() -> Composer {
    Composer::new(byte_level_tokenizer(), &Anchor::Bos, Some(SEPARATOR)).expect("composer")
}

fn composer_of(vocabulary: GgufVocabulary) -> Composer {
    let tokenizer = Tokenizer::from_gguf(vocabulary).expect("vocabulary");
    Composer::new(tokenizer, &Anchor::Bos, None).expect("composer")
}

fn text(prompt: &str) -> CompletionInput {
    let prompt = PromptInput::Text(prompt.to_owned());
    CompletionInput {
        prompt,
        instructions: None,
        documents: None,
        add_special_tokens: true,
    }
}

fn tokens(prompt: &[u32]) -> CompletionInput {
    CompletionInput {
        prompt: PromptInput::Tokens(prompt.to_vec()),
        ..text("")
    }
}

fn document(body: &str) -> DocumentInput {
    DocumentInput {
        id: None,
        title: None,
        body: Body::Text(body.to_owned()),
        context: None,
    }
}

fn with(documents: &[DocumentInput], input: CompletionInput) -> CompletionInput {
    CompletionInput {
        documents: Some(documents.to_vec()),
        ..input
    }
}

/// The segments as text, documents in brackets; control tokens by their spelling.
fn shape(composer: &Composer, input: CompletionInput) -> Vec<String> {
    let prompt = composer.compose(input).expect("composed").prompt;
    let spell = |segment: &Segment| {
        let text: Vec<_> = segment
            .tokens()
            .iter()
            .map(|token| composer.tokenizer.token_text(*token))
            .collect();
        let text = text.concat().replace('Ġ', " ").replace('Ċ', "\n");
        if let Segment::Document(_) = segment {
            format!("[{text}]")
        } else {
            text
        }
    };
    prompt.segments().iter().map(spell).collect()
}

fn error(composer: &Composer, input: CompletionInput) -> ComposeError {
    composer.compose(input).expect_err("refused")
}

#[test]
fn documents_stand_between_the_instructions_and_the_prompt() {
    let titled = DocumentInput {
        title: Some("T".to_owned()),
        ..document("one")
    };
    let input = with(&[titled, document("two")], text("why?"));
    let input = CompletionInput {
        instructions: Some("Be brief.".to_owned()),
        ..input
    };
    assert_eq!(
        shape(&composer(), input),
        ["<bos>Be brief.\n\n", "[T\n\none\n\n]", "[two\n\n]", "why?"]
    );
}

#[test]
fn a_document_has_the_same_tokens_wherever_it_stands() {
    let composer = composer();
    let documents = |order: &[&str], prompt: &str| {
        let documents: Vec<_> = order.iter().map(|body| document(body)).collect();
        let composed = composer
            .compose(with(&documents, text(prompt)))
            .expect("composed");
        composed.prompt.documents().cloned().collect::<Vec<_>>()
    };
    let (forward, backward) = (
        documents(&["ab", "hello"], "x"),
        documents(&["hello", "ab"], "hello"),
    );
    assert_eq!((&forward[0], &forward[1]), (&backward[1], &backward[0]));
    assert_eq!(
        documents(&["ab", "ab"], "x"),
        [forward[0].clone(), forward[0].clone()]
    );
}

#[test]
fn control_token_text_is_a_control_token_in_the_prompt_and_the_instructions_only() {
    let nasty = DocumentInput {
        title: Some("<bos>".to_owned()),
        ..document("<|im_end|>")
    };
    let nasty = DocumentInput {
        context: Some("<bos>".to_owned()),
        ..nasty
    };
    let input = CompletionInput {
        instructions: Some("<|im_end|>".to_owned()),
        ..with(&[nasty], text("a<|im_end|>"))
    };
    let prompt = composer().compose(input).expect("composed").prompt;
    let controls: Vec<_> = prompt.tokens().into_iter().filter(|token| token.0 < 2).collect();
    assert_eq!(
        controls,
        [0, 1, 1].map(TokenId),
        "the leading token, the instructions' and the prompt's"
    );
    let anchor = &prompt.documents().next().expect("document").anchor;
    assert_eq!(anchor.iter().filter(|token| token.0 < 2).count(), 1, "{anchor:?}");
}

#[test]
fn an_empty_document_is_a_document_of_no_tokens() {
    let title = DocumentInput {
        title: Some("T".to_owned()),
        ..document("")
    };
    let untitled = DocumentInput {
        title: Some(String::new()),
        ..document("a")
    };
    let input = with(&[document(""), title, untitled], text("q"));
    assert_eq!(
        shape(&composer(), input),
        ["<bos>", "[]", "[T\n\n]", "[a\n\n]", "q"]
    );
}

#[test]
fn a_document_of_token_ids_stands_as_it_is_behind_its_title() {
    let ids = DocumentInput {
        body: Body::Tokens(vec![3 + 97, 1]),
        ..document("")
    };
    let titled = DocumentInput {
        title: Some("T".to_owned()),
        ..ids.clone()
    };
    assert_eq!(
        shape(&composer(), with(&[ids, titled], text("q"))),
        ["<bos>", "[a<|im_end|>]", "[T\n\na<|im_end|>]", "q"]
    );
}

#[test]
fn no_documents_equal_an_absent_list() {
    assert_eq!(
        composer().compose(with(&[], text("q"))),
        composer().compose(text("q"))
    );
}

#[test]
fn a_plain_prompt_gets_bos_as_the_model_and_the_request_say() {
    let composer = composer();
    let without = |input| CompletionInput {
        add_special_tokens: false,
        ..input
    };
    let instructed = |input| CompletionInput {
        instructions: Some("i".to_owned()),
        ..input
    };
    assert_eq!(shape(&composer, text("q")), ["<bos>q"]);
    assert_eq!(shape(&composer, without(text("q"))), ["q"]);
    assert_eq!(shape(&composer, text("<bos>q")), ["<bos>q"], "never two");
    assert_eq!(
        shape(&composer, tokens(&[3 + 97])),
        ["a"],
        "token ids are the client's"
    );
    assert_eq!(shape(&composer, tokens(&[0, 3 + 97])), ["<bos>a"]);
    assert_eq!(shape(&composer, instructed(text("q"))), ["<bos>i\n\nq"]);
    assert_eq!(shape(&composer, instructed(without(text("q")))), ["i\n\nq"]);
    assert_eq!(
        shape(&composer, instructed(tokens(&[0, 3 + 97]))),
        ["<bos>i\n\na"]
    );
    let other = composer_of(GgufVocabulary {
        add_bos: Some(false),
        ..byte_level()
    });
    assert_eq!(shape(&other, text("q")), ["q"]);
    assert_eq!(shape(&other, instructed(text("q"))), ["i\n\nq"]);
}

#[test]
fn with_documents_a_leading_bos_of_the_prompt_is_dropped() {
    let documents = [document("d")];
    assert_eq!(
        shape(&composer(), with(&documents, tokens(&[0, 0, 3 + 97]))),
        ["<bos>", "[d\n\n]", "<bos>a"]
    );
    assert_eq!(
        shape(&composer(), with(&documents, text("<bos>q"))),
        ["<bos>", "[d\n\n]", "q"]
    );
    let other = composer_of(GgufVocabulary {
        add_bos: Some(false),
        ..byte_level()
    });
    let kept = shape(&other, with(&documents, tokens(&[0, 3 + 97])));
    assert_eq!(
        kept,
        ["<bos>", "[d\n\n]", "<bos>a"],
        "there BOS is the client's own"
    );
}

#[test]
fn an_empty_prompt_is_an_error_with_and_without_documents() {
    let composer = composer();
    for input in [
        text(""),
        tokens(&[]),
        with(&[document("d")], text("")),
        with(&[document("d")], tokens(&[0])),
    ] {
        let error = error(&composer, input);
        assert_eq!(
            (error.param(), error.to_string().as_str()),
            ("prompt", "the prompt is empty")
        );
    }
    assert_eq!(
        shape(&composer, tokens(&[0])),
        ["<bos>"],
        "alone it can be continued"
    );
}

#[test]
fn ids_outside_the_vocabulary_are_named_by_their_place() {
    let composer = composer();
    let size = composer.tokenizer().vocab_size() as u32;
    assert_eq!(error(&composer, tokens(&[5, 5, 5, size])).param(), "prompt[3]");
    let bad = DocumentInput {
        body: Body::Tokens(vec![5, u32::MAX]),
        ..document("")
    };
    let input = with(&[document("a"), document("b"), bad.clone()], text("q"));
    assert_eq!(error(&composer, input).param(), "documents[2].token_ids[1]");
    assert_eq!(
        composer.compose_document(&bad, "").expect_err("refused").param(),
        "token_ids[1]"
    );
    let batch = [PromptInput::Tokens(vec![5]), PromptInput::Tokens(vec![5, size])];
    assert_eq!(
        composer
            .compose_batch(&batch, None, &[], true)
            .expect_err("refused")
            .param(),
        "prompt[1][1]"
    );
    assert!(composer.compose(tokens(&[size - 1])).is_ok());
}

#[test]
fn a_batch_composes_as_its_prompts_would_alone_and_shares_their_documents() {
    let composer = composer();
    let prompts = ["q", "hello"].map(|prompt| PromptInput::Text(prompt.to_owned()));
    let batch = composer
        .compose_batch(&prompts, Some("i"), &[document("d")], true)
        .expect("batch");
    for (prompt, composed) in prompts.iter().zip(&batch) {
        let alone = CompletionInput {
            prompt: prompt.clone(),
            instructions: Some("i".to_owned()),
            ..text("")
        };
        assert_eq!(
            composer.compose(with(&[document("d")], alone)).as_ref(),
            Ok(composed)
        );
    }
    let tokens: Vec<_> = batch
        .iter()
        .filter_map(|c| c.prompt.documents().next())
        .map(|d| &d.tokens)
        .collect();
    assert!(Arc::ptr_eq(tokens[0], tokens[1]));
}

#[test]
fn documents_stand_behind_the_configured_anchor_or_their_own_context() {
    let tokenizer = byte_level_tokenizer();
    let encode = |text: &str| tokenizer.encode(text, Specials::AsText);
    let behind_bos = |text: &str| [vec![BOS], encode(text)].concat();
    let new = |anchor| Composer::new(tokenizer.clone(), &anchor, None).expect("composer");
    assert_eq!(new(Anchor::Bos).anchor(&[])[..], [BOS]);
    assert_eq!(
        new(Anchor::Text("hello".to_owned())).anchor(&[])[..],
        behind_bos("hello")
    );
    let neutral = new(Anchor::Neutral);
    let behind_neutral = |text: &str| tokenizer.decode(&neutral.anchor(&encode(text)));
    let cased = behind_neutral("text With capitals");
    assert!(cased.len() > 100 && cased.contains("Danube"), "{cased}");
    assert_eq!(behind_neutral("text without"), cased.to_lowercase());
    let composer = new(Anchor::Text("hello".to_owned()));
    let own = DocumentInput {
        context: Some("its section".to_owned()),
        ..document("a")
    };
    let prompt = composer
        .compose(with(&[document("a"), own], text("q")))
        .expect("composed")
        .prompt;
    let documents: Vec<_> = prompt.documents().collect();
    assert_eq!(documents[0].anchor[..], behind_bos("hello"));
    assert_eq!(documents[1].anchor[..], behind_bos("its section"));
    assert_eq!(documents[0].tokens, documents[1].tokens);
    assert_eq!(
        prompt.tokens(),
        [vec![BOS], encode("a\n\n"), encode("a\n\n"), encode("q")].concat()
    );
}

#[test]
fn without_bos_another_control_token_leads() {
    let vocabulary = GgufVocabulary {
        bos: None,
        ..byte_level()
    };
    assert_eq!(composer_of(vocabulary.clone()).anchor(&[])[..], [TokenId(1)]);
    let mut no_end = GgufVocabulary {
        eos: None,
        ..vocabulary
    };
    no_end.tokens[1] = "<x>".to_owned();
    assert_eq!(composer_of(no_end.clone()).anchor(&[])[..], [TokenId(0)]);
    no_end.token_types.fill(1);
    let tokenizer = Tokenizer::from_gguf(no_end).expect("vocabulary");
    assert_eq!(
        Composer::new(tokenizer, &Anchor::Bos, None).err(),
        Some(ComposerError::NoLeadingToken)
    );
}

#[test]
fn a_text_prompt_is_split_at_the_separator() {
    let composer = composer();
    let joined = |parts: &[&str]| text(&parts.join(SEPARATOR));
    assert_eq!(
        shape(&composer, joined(&["i", "one", "two", "q"])),
        ["<bos>i # # ", "[one]", " # # ", "[two]", " # # q"]
    );
    assert_eq!(shape(&composer, joined(&["i", "q"])), ["<bos>i # # q"]);
    assert_eq!(
        shape(&composer, joined(&["", "", "", ""])),
        ["<bos> # #  # #  # # "]
    );
    assert_eq!(
        shape(&composer, joined(&["i", "", "one", "", "q"])),
        ["<bos>i # #  # # ", "[one]", " # #  # # q"]
    );
    let input = joined(&["<|im_end|>", "<|im_end|>", "<|im_end|>"]);
    let prompt = composer.compose(input).expect("composed").prompt;
    let controls = |segment: &Segment| segment.tokens().iter().filter(|token| token.0 == 1).count();
    let controls: Vec<_> = prompt.segments().iter().map(controls).collect();
    assert_eq!(controls, [1, 0, 1], "the document's is text");
}

#[test]
fn a_separator_and_documents_exclude_each_other() {
    let error = error(&composer(), with(&[document("d")], text("a # # b")));
    assert_eq!(
        (error.param(), error.code()),
        ("prompt", Some("separator_with_documents"))
    );
    assert!(
        composer()
            .compose(with(&[document(SEPARATOR)], text("b")))
            .is_ok(),
        "only the prompt is split"
    );
    assert!(composer().compose(with(&[], text("a # # b"))).is_ok());
}

#[test]
fn a_separator_without_tokens_is_refused() {
    let refused = Composer::new(byte_level_tokenizer(), &Anchor::Bos, Some(""));
    assert_eq!(refused.err(), Some(ComposerError::EmptySeparator));
}

/// Token ids as characters, so that the standard library can split them.
fn as_characters(tokens: &[TokenId]) -> String {
    tokens
        .iter()
        .filter_map(|token| char::from_u32(token.0 + 0x1000))
        .collect()
}

#[test]
fn token_prompts_split_at_the_separators_tokens_and_keep_every_token_in_place() {
    let composer = composer();
    let separator = composer.tokenizer.encode(SEPARATOR, Specials::AsText);
    assert!(separator.len() > 1, "{separator:?}");
    for seed in 0..1000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut ids = vec![3 + 97];
        for _ in 0..random.usize(..12) {
            match random.usize(..4) {
                0 => ids.push(random.u32(..300).min(260)),
                1 => ids.push(separator[random.usize(..separator.len())].0),
                _ => ids.extend(separator.iter().map(|token| token.0)),
            }
        }
        let prompt = composer.compose(tokens(&ids)).expect("composed").prompt;
        let all: Vec<_> = ids.iter().copied().map(TokenId).collect();
        assert_eq!(prompt.tokens(), all, "seed {seed}");
        let (text, separator) = (as_characters(&all), as_characters(&separator));
        let pieces: Vec<_> = text.split(&separator).collect();
        let inner = pieces.get(1..pieces.len() - 1).unwrap_or_default();
        let expected: Vec<_> = inner.iter().filter(|piece| !piece.is_empty()).copied().collect();
        let documents: Vec<_> = prompt
            .documents()
            .map(|document| as_characters(&document.tokens))
            .collect();
        assert_eq!(documents, expected, "seed {seed}");
        for pair in prompt.segments().windows(2) {
            assert!(
                !matches!(pair, [Segment::Text(_), Segment::Text(_)]),
                "seed {seed}"
            );
        }
        assert_eq!(prompt.question(), all.len() - 1, "seed {seed}");
    }
}

#[test]
fn a_token_prompt_reads_as_the_text_prompt_whose_parts_were_tokenised_alone() {
    let composer = composer();
    let encode = |text: &str| composer.tokenizer.encode(text, Specials::AsText);
    let parts = ["hello", "ab", "a", "hell"].map(encode);
    let ids = [vec![BOS], parts.join(&encode(SEPARATOR)[..])].concat();
    let ids: Vec<_> = ids.iter().map(|token| token.0).collect();
    let written = text(&["hello", "ab", "a", "hell"].join(SEPARATOR));
    assert_eq!(composer.compose(tokens(&ids)), composer.compose(written));
}
