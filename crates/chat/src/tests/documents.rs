use super::*;
use crate::RenderError;

fn with_documents(documents: usize, messages: Vec<Message>) -> Conversation {
    Conversation {
        documents,
        ..conversation(messages)
    }
}

fn piecewise(role: Role, pieces: Vec<Piece>) -> Message {
    Message {
        content: pieces,
        ..message(role, "")
    }
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

#[test]
fn documents_stand_before_the_last_users_text() {
    let turns = vec![
        message(Role::User, "Hi"),
        message(Role::Assistant, "Hello"),
        message(Role::User, "Who?"),
    ];
    let rendered = render(CHATML, &with_documents(2, turns));
    assert!(rendered.contains("user\nHi⟨"), "{rendered}");
    assert!(rendered.contains("user\n{0}{1}Who?⟨"), "{rendered}");
}

#[test]
fn documents_stand_where_a_template_puts_them() {
    let asked = with_documents(2, vec![message(Role::User, "Who?")]);
    assert_eq!(
        render(MISTRAL, &asked),
        "⟨<s>⟩[DOCUMENTS]\n{0}\n{1}[/DOCUMENTS]⟨[INST]⟩ Who?⟨[/INST]⟩"
    );
}

#[test]
fn a_template_that_only_sometimes_shows_documents_or_repeats_them_leaves_them_to_the_user() {
    let turn = "{{ messages[0].content }}";
    for documents in [
        "{% if documents and mine %}{{ documents[0].text }}{% endif %}",
        "{% for d in documents %}{{ d.text ~ d.text }}{% endfor %}",
        "{% for d in documents %}{{ d.text[:20] }}{% endfor %}",
        "{% for d in documents %}{{ d.text | length }}{% endfor %}",
    ] {
        let asked = with_documents(2, vec![message(Role::User, "Who?")]);
        assert_eq!(
            render(&format!("{documents}{turn}"), &asked),
            "{0}{1}Who?",
            "{documents}"
        );
    }
}

#[test]
fn documents_in_messages_stand_where_they_are_sent() {
    let asked = with_documents(
        1,
        vec![
            piecewise(Role::User, vec![Piece::Document(1), text("A?")]),
            message(Role::Assistant, "a"),
            piecewise(
                Role::User,
                vec![
                    text("See"),
                    Piece::Document(2),
                    Piece::Document(3),
                    text("B?"),
                    text("C?"),
                ],
            ),
        ],
    );
    let rendered = render(CHATML, &asked);
    assert!(rendered.contains("user\n{1}A?⟨"), "{rendered}");
    assert!(rendered.contains("user\n{0}See\n{2}{3}B?\nC?⟨"), "{rendered}");
}

#[test]
fn documents_survive_what_templates_do_with_content() {
    let mut asked = with_documents(1, vec![message(Role::User, "Who?\n")]);
    let content = |filter: &str| format!("{{{{ messages[0].content{filter} }}}}");
    for (filter, expected) in [
        (" | trim", "{0}Who?"),
        (".strip()", "{0}Who?"),
        (" | upper", "{0}WHO?\n"),
        (".lower()", "{0}who?\n"),
        (" | tojson", "\"{0}Who?\\n\""),
        (".replace('?', '!')", "{0}Who!\n"),
        (".split('W') | join('V')", "{0}Vho?\n"),
    ] {
        assert_eq!(render(&content(filter), &asked), expected, "{filter}");
    }
    asked.documents = 0;
    assert_eq!(render(&content(" | trim"), &asked), "Who?");
}

#[test]
fn documents_that_a_template_drops_are_refused() {
    let turns = |source| template(source).render(&with_documents(2, vec![message(Role::User, "Who?")]));
    assert_eq!(turns("nothing"), Err(RenderError::Document(0)));
    let twice = "{{ messages[0].content }}{{ messages[0].content }}";
    assert_eq!(turns(twice), Err(RenderError::Document(0)));
    assert_eq!(
        turns("{{ messages[0].content[:60] }}"),
        Err(RenderError::Document(0))
    );
    let asked = with_documents(1, vec![message(Role::System, "a")]);
    assert_eq!(template(CHATML).render(&asked), Err(RenderError::NoUser));
}

#[test]
fn what_was_asked_ends_before_the_answer_to_the_documents() {
    let asked = |conversation: &Conversation| {
        let rendered = template(CHATML).render(conversation).expect("rendered");
        rendered
            .when_asked
            .map(|parts| (shown(&parts), shown(&rendered.parts)))
    };
    let first = vec![piecewise(Role::User, vec![Piece::Document(0), text("A?")])];
    assert_eq!(asked(&conversation(first.clone())), None);
    let later = [
        first.clone(),
        vec![message(Role::Assistant, "a"), message(Role::User, "B?")],
    ];
    let (earlier, whole) = asked(&conversation(later.concat())).expect("an answer came before");
    assert_eq!(earlier, render(CHATML, &conversation(first)));
    assert!(whole.starts_with(&earlier), "{whole}");
    // Those of the whole conversation belong to the last question.
    let shared = with_documents(
        1,
        vec![
            message(Role::User, "A?"),
            message(Role::Assistant, "a"),
            message(Role::User, "B?"),
        ],
    );
    assert_eq!(asked(&shared), None);
    let tool_turn = [
        shared.messages,
        vec![message(Role::Assistant, "call"), message(Role::Tool, "b")],
    ];
    let (earlier, _) = asked(&with_documents(1, tool_turn.concat())).expect("a call came before");
    assert!(
        earlier.ends_with("{0}B?⟨<|im_end|>⟩\n⟨<|im_start|>⟩assistant\n"),
        "{earlier}"
    );
}
