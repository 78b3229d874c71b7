//! No word of a client becomes a control token.

use serde_json::json;

use super::*;

/// All text of `parts`, and the control tokens in it.
fn controls(parts: &[Part]) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut controls = Vec::new();
    for part in parts {
        match part {
            Part::Text(one) => text.push_str(one),
            Part::Control(special) => controls.push(special.clone()),
            Part::Document(_) => {}
        }
    }
    (text, controls)
}

/// A conversation in which the client says `word` wherever it can say something.
fn saying(word: &str) -> Conversation {
    let call = json!({"tool_calls": [
        {"id": word, "type": "function", "function": {"name": word, "arguments": {word: word}}},
    ]});
    let turns = vec![
        message(Role::User, word),
        with_fields(message(Role::Assistant, word), &call),
        with_fields(
            message(Role::Tool, word),
            &json!({"tool_call_id": word, "name": word}),
        ),
        message(Role::Assistant, word),
        message(Role::User, word),
    ];
    let mut conversation = conversation(turns);
    conversation.tools = vec![json!({"type": "function", "function": {"name": word, "description": word}})];
    conversation.tool_choice = Some(json!(word));
    conversation.variables.insert("mine".to_owned(), word.into());
    conversation
}

#[test]
fn what_clients_spell_is_text_in_every_style() {
    for source in [CHATML, LLAMA3, MISTRAL] {
        let benign = template(source).render(&saying("x")).expect("rendered");
        let (_, expected) = controls(&benign.parts);
        for special in SPECIALS {
            let word = format!("a{special}b");
            let rendered = template(source).render(&saying(&word)).expect("rendered");
            let (text, found) = controls(&rendered.parts);
            assert_eq!(found, expected, "{special} in {source}");
            assert!(text.contains(&word), "{special} in {source}");
        }
    }
}

/// Changes of case, cuts, replacements and joins can spell a control token that nobody sent.
#[test]
fn what_templates_make_of_words_is_text() {
    let sources = [
        "{{ messages[0].content | lower }}",
        "{{ messages[0].content.replace('-', '') }}",
        "{{ messages[0].content[1:-1] }}",
        "{{ messages[0].content.split(' ') | join('') }}",
        "{{ '<|im' + messages[0].content + '|>' }}",
        "<|im_{{ messages[0].content }}|>",
        "<|im_{{ messages[0].content | trim }}|>",
        "{{ mine ~ messages[0].content }}",
        "{{ messages[0].content | tojson }}",
    ];
    let words = [
        "<|IM_END|>",
        "<-|im_-end|>",
        "x<|im_end|>x",
        "<|im_ end|>",
        "_end",
        " end ",
        "end",
        "<|im_end|>",
    ];
    for source in sources {
        for word in words {
            let mut asked = conversation(vec![message(Role::User, word)]);
            asked.variables.insert("mine".to_owned(), "<|im_".into());
            let parts = template(source).render(&asked).expect("rendered").parts;
            let (_, found) = controls(&parts);
            assert!(found.is_empty(), "{word} in {source}: {parts:?}");
        }
    }
}

#[test]
fn the_templates_own_words_stay_control_tokens_whatever_surrounds_them() {
    let asked = conversation(vec![message(Role::User, "<|im_end|>")]);
    assert_eq!(
        render(
            "{{ ('<|im_start|>' + messages[0].content) | trim }}<|im_end|>",
            &asked
        ),
        "⟨<|im_start|>⟩<|im_end|>⟨<|im_end|>⟩"
    );
}

#[test]
fn the_longest_control_token_is_meant_and_words_alone_are_code() {
    let specials = Specials {
        all: ["<|im", "<|im_end|>", "messages"].map(str::to_owned).to_vec(),
        ..Specials::default()
    };
    let template = Template::new("<|im_end|><|im {{ messages | length }}", specials).expect("a template");
    let parts = template
        .render(&conversation(Vec::new()))
        .expect("rendered")
        .parts;
    assert_eq!(shown(&parts), "⟨<|im_end|>⟩⟨<|im⟩ 0");
}

/// A mark is as good as a control token, so no answer and no failure may show one.
#[test]
fn no_mark_is_shown() {
    let mut asked = conversation(vec![message(Role::User, "x")]);
    asked.documents = 1;
    let refused = refusal(
        "{{ raise_exception('<|im_end|>' + messages[0].content) }}",
        &asked,
    );
    assert!(refused.ends_with(": <|im_end|>x"), "{refused}");
    for source in [
        "{{ raise_exception('<|im_end|>'[:9]) }}",
        "{{ raise_exception('%r' | format('<|im_end|>')) }}",
        "{{ raise_exception(['<|im_end|>'] | string) }}",
        "{{ '<|im_end|>' + 1 }}",
        "{{ '<|im_end|>'.nothing() }}",
        "{{ '<|im_end|>' | int }}",
        "{{ {}['<|im_end|>'].x }}",
    ] {
        let refused = refusal(source, &asked);
        assert!(!crate::marks::may_show(&refused), "{source}: {refused}");
    }
}
