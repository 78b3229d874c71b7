use serde_json::json;

use super::*;

fn turns() -> Vec<Message> {
    vec![
        message(Role::User, " Who? "),
        message(Role::Assistant, "Ilse."),
        message(Role::User, "When?"),
    ]
}

#[test]
fn turns_stand_in_the_templates_words() {
    assert_eq!(
        render(CHATML, &conversation(turns())),
        "⟨<|im_start|>⟩user\nWho?⟨<|im_end|>⟩\n⟨<|im_start|>⟩assistant\nIlse.⟨<|im_end|>⟩\n\
         ⟨<|im_start|>⟩user\nWhen?⟨<|im_end|>⟩\n⟨<|im_start|>⟩assistant\n"
    );
    assert_eq!(
        render(
            LLAMA3,
            &conversation(vec![
                message(Role::System, "Be brief."),
                message(Role::User, "Hi")
            ])
        ),
        "⟨<s>⟩⟨<|start_header_id|>⟩system⟨<|end_header_id|>⟩\n\nBe brief.⟨<|eot_id|>⟩\
         ⟨<|start_header_id|>⟩user⟨<|end_header_id|>⟩\n\nHi⟨<|eot_id|>⟩\
         ⟨<|start_header_id|>⟩assistant⟨<|end_header_id|>⟩\n\n"
    );
    assert_eq!(
        render(MISTRAL, &conversation(turns())),
        "⟨<s>⟩⟨[INST]⟩  Who? ⟨[/INST]⟩ Ilse.⟨</s>⟩⟨[INST]⟩ When?⟨[/INST]⟩"
    );
}

#[test]
fn a_template_that_refuses_is_quoted() {
    let twice = conversation(vec![message(Role::User, "a"), message(Role::User, "b")]);
    let refused = refusal(MISTRAL, &twice);
    assert!(refused.contains("Roles must alternate"), "{refused}");
    let call = json!({"tool_calls": [{}, {}]});
    let calls = with_fields(message(Role::Assistant, ""), &call);
    let refused = refusal(LLAMA3, &conversation(vec![calls]));
    assert!(refused.ends_with("one tool at once!</s>"), "{refused}");
}

#[test]
fn tools_are_json_as_python_writes_it_in_the_clients_order() {
    let tool =
        json!({"type": "function", "function": {"name": "sky", "description": "<é>", "parameters": {}}});
    let asked = Conversation {
        tools: vec![tool],
        ..conversation(vec![message(Role::User, "Hi")])
    };
    let rendered = render(MISTRAL, &asked);
    let expected = "[AVAILABLE_TOOLS] [{\"type\": \"function\", \"function\": {\"name\": \"sky\", \
                    \"description\": \"<é>\", \"parameters\": {}}}][/AVAILABLE_TOOLS]";
    assert!(rendered.contains(expected), "{rendered}");
    assert!(render(LLAMA3, &asked).contains("{\n    \"type\": \"function\",\n"));
}

#[test]
fn tool_turns_are_rendered() {
    let call = json!({"tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "sky", "arguments": {"city": "Rome"}}},
    ]});
    let turns = conversation(vec![
        message(Role::User, "Sky?"),
        with_fields(message(Role::Assistant, ""), &call),
        with_fields(message(Role::Tool, "[\"blue\"]"), &json!({"tool_call_id": "1"})),
    ]);
    assert_eq!(
        render(MISTRAL, &turns),
        "⟨<s>⟩⟨[INST]⟩ Sky?⟨[/INST]⟩⟨[TOOL_CALLS]⟩ [{\"name\": \"sky\", \"arguments\": {\"city\": \"Rome\"}}]⟨</s>⟩\
         ⟨[TOOL_RESULTS]⟩ {\"content\": \"[\\\"blue\\\"]\"}⟨[/TOOL_RESULTS]⟩"
    );
    let rendered = render(LLAMA3, &turns);
    assert!(
        rendered.contains("{\"name\": \"sky\", \"parameters\": {\"city\": \"Rome\"}}⟨<|eot_id|>⟩"),
        "{rendered}"
    );
}

#[test]
fn the_last_message_may_be_continued() {
    let inside = Conversation {
        ending: Ending::Inside,
        ..conversation(vec![
            message(Role::User, "Who?"),
            message(Role::Assistant, "It was "),
        ])
    };
    let rendered = render(CHATML, &inside);
    assert!(rendered.ends_with("assistant\nIt was "), "{rendered}");
    let closed = Conversation {
        ending: Ending::Message,
        ..inside
    };
    assert!(render(CHATML, &closed).ends_with("It was⟨<|im_end|>⟩\n"));
    let nothing = Conversation {
        ending: Ending::Inside,
        ..conversation(Vec::new())
    };
    assert!(template(CHATML).render(&nothing).is_err());
}

#[test]
fn developers_are_systems_to_templates_that_do_not_know_them() {
    let asked = conversation(vec![message(Role::Developer, "Rule.")]);
    assert!(render(CHATML, &asked).contains("⟩system\nRule."));
    let knowing = "{% if messages[0].role == 'developer' %}yes{% endif %}";
    assert_eq!(render(knowing, &asked), "yes");
}

#[test]
fn variables_reach_the_template_and_can_not_replace_the_servers() {
    let mut asked = conversation(vec![message(Role::User, "Hi")]);
    asked.variables.insert("enable_thinking".to_owned(), false.into());
    let source = "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}";
    assert_eq!(render(source, &asked), "<think></think>");
    asked.variables.insert("bos_token".to_owned(), "x".into());
    assert_eq!(
        refusal(source, &asked),
        "`bos_token` is no variable of the request"
    );
}

#[test]
fn dates_are_formatted_and_bad_formats_refused() {
    let asked = conversation(Vec::new());
    assert_eq!(render("{{ strftime_now('%Y-%m-%d') }}", &asked).len(), 10);
    assert!(template("{{ strftime_now('%') }}").render(&asked).is_err());
}

#[test]
fn a_source_that_is_no_template_is_refused() {
    for source in ["{% for %}", "{{ a", "{% unknown %}"] {
        assert!(Template::new(source, Specials::default()).is_err(), "{source}");
    }
}
