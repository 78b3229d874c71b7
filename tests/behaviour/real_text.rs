//! The promises on ratios, on the small real model and real text: prose, a timetable, code, Chinese, emoji.

use medley_kv::{BlendMode, Prompt};
use medley_prompt::{Anchor, Body, CompletionInput, Composer, DocumentInput, PromptInput, Tokenizer};

use crate::harness::{Answer, Ask, RULES, SEPARATOR, ask, distance, small_model_with_words};

const LIGHTHOUSE: &str = include_str!("texts/lighthouse.txt");
const FERRY: &str = include_str!("texts/ferry.txt");
const RETRY: &str = include_str!("texts/retry.py");
const TEA: &str = include_str!("texts/tea.txt");
const MESSAGES: &str = include_str!("texts/messages.txt");

fn document(title: Option<&str>, text: &str, context: Option<&str>) -> DocumentInput {
    DocumentInput {
        id: None,
        title: title.map(str::to_owned),
        body: Body::Text(text.to_owned()),
        context: context.map(str::to_owned),
    }
}

/// A prompt with instructions and titles.
fn with_instructions() -> CompletionInput {
    CompletionInput {
        prompt: PromptInput::Text("Question: who forecast the weather at Carrow Point?\nAnswer:".to_owned()),
        instructions: Some("Answer from the documents, in one sentence.".to_owned()),
        documents: Some(vec![
            document(Some("Carrow Point"), LIGHTHOUSE, None),
            document(Some("retry.py"), RETRY, None),
            document(None, MESSAGES, None),
        ]),
        add_special_tokens: true,
    }
}

/// The first document directly behind its anchor, one behind a context, an empty one, and one twice.
fn without_instructions() -> CompletionInput {
    CompletionInput {
        prompt: PromptInput::Text("When is the second ferry on a Sunday? 🚢 它在".to_owned()),
        instructions: None,
        documents: Some(vec![
            document(None, FERRY, None),
            document(
                None,
                MESSAGES,
                Some("Messages between friends who meet at the pier."),
            ),
            document(None, "", None),
            document(None, FERRY, None),
        ]),
        add_special_tokens: true,
    }
}

/// A text that the separator cuts, and in which text stands between documents.
fn separated() -> CompletionInput {
    let pieces = [
        "def first(call):\n",
        RETRY,
        TEA,
        "\ndef second(call):\n    return ",
    ];
    CompletionInput {
        prompt: PromptInput::Text(pieces.join(SEPARATOR)),
        instructions: None,
        documents: None,
        add_special_tokens: true,
    }
}

fn compose(tokenizer: Tokenizer, input: CompletionInput) -> Prompt {
    let composer = Composer::new(tokenizer, &Anchor::Bos, Some(SEPARATOR)).expect("a composer");
    composer.compose(input).expect("a prompt").prompt
}

/// The largest difference of any logit behind the prompt and behind what was generated, in largest logits.
fn furthest(a: &Answer, b: &Answer) -> f32 {
    assert_eq!(a.tokens, b.tokens, "another text");
    let largest = |logits: &[f32]| logits.iter().map(|x| x.abs()).fold(0.0, f32::max);
    let steps = a.logits.iter().zip(&b.logits);
    let differences = steps.map(|(a, b)| distance(a, b) / largest(b));
    differences.max_by(f32::total_cmp).unwrap_or(0.0)
}

#[test]
fn ratio_one_equals_exact_on_real_text_for_every_rule() {
    let (engine, tokenizer) = small_model_with_words(150, 80, 200);
    for input in [with_instructions(), without_instructions(), separated()] {
        let ask_for = Ask::of(compose(tokenizer.clone(), input)).max_tokens(3);
        let exact = ask(&engine, &ask_for.clone().mode(BlendMode::Exact));
        for (strategy, hops, rounds) in RULES {
            let ask_for = ask_for.clone().strategy(strategy).refined(hops, rounds);
            let blended = ask(&engine, &ask_for.ratio(1.0));
            let distance = furthest(&blended, &exact);
            assert!(
                distance < 1e-4,
                "{strategy} {hops} {rounds}: logits differ by {distance} of the largest"
            );
        }
    }
}

#[test]
fn ratio_zero_repairs_nothing_of_real_text() {
    let (engine, tokenizer) = small_model_with_words(150, 80, 200);
    let ask_for = Ask::of(compose(tokenizer, with_instructions())).max_tokens(1);
    let exact = ask(&engine, &ask_for.clone().mode(BlendMode::Exact));
    for (strategy, hops, rounds) in RULES {
        let ask_for = ask_for.clone().strategy(strategy).refined(hops, rounds);
        let answer = ask(&engine, &ask_for.ratio(0.0));
        let documents = &answer.report.documents;
        assert_eq!(answer.report.tokens.repaired, 0, "{strategy} {hops} {rounds}");
        assert!(documents.iter().all(|d| d.repaired == 0));
        let distance = distance(answer.first_logits(), exact.first_logits());
        assert!(
            distance > 1e-2,
            "unrepaired KV can't equal a full prefill here: {distance}"
        );
    }
}
