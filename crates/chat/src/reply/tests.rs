use super::*;

/// All news of a text cut at these places, neighbours of one kind joined.
fn read_at(reading: Reading, text: &str, cuts: &[usize]) -> Vec<News> {
    let mut reader = Reader::new(reading);
    let (mut news, mut from) = (Vec::new(), 0);
    for to in cuts.iter().copied().chain([text.len()]) {
        news.extend(reader.push(&text[from..to]));
        from = to;
    }
    news.extend(reader.finish());
    news.into_iter().fold(Vec::new(), |mut joined, one| {
        match (joined.last_mut(), one) {
            (Some(News::Content(last)), News::Content(text))
            | (Some(News::Reasoning(last)), News::Reasoning(text)) => last.push_str(&text),
            (_, one) => joined.push(one),
        }
        joined
    })
}

/// The news, which are the same however the text is cut.
fn read(reading: Reading, text: &str) -> Vec<News> {
    let whole = read_at(reading, text, &[]);
    let places: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
    assert_eq!(read_at(reading, text, &places), whole, "{text}");
    for at in places {
        assert_eq!(read_at(reading, text, &[at]), whole, "{text} cut at {at}");
    }
    whole
}

fn tools(format: ToolFormat) -> Reading {
    Reading {
        tools: Some(format),
        parallel: true,
        ..Reading::default()
    }
}

fn content(text: &str) -> News {
    News::Content(text.to_owned())
}

fn thought(text: &str) -> News {
    News::Reasoning(text.to_owned())
}

fn called(name: &str, arguments: &str) -> News {
    News::Call(ToolCall {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

#[test]
fn without_formats_all_is_content() {
    let text = " <think>a</think> <tool_call>{}</tool_call>[TOOL_CALLS] ";
    assert_eq!(read(Reading::default(), text), [content(text)]);
}

#[test]
fn hermes_calls_stand_anywhere() {
    let text = "Let me see.\n<tool_call>\n{\"name\": \"sky\", \"arguments\": {\"city\": \"Köln\", \"a\": 1}}\n</tool_call>\n\
                <tool_call>{\"name\": \"now\"}</tool_call>\n\nDone < 1. ";
    let expected = [
        content("Let me see."),
        called("sky", r#"{"city":"Köln","a":1}"#),
        called("now", "{}"),
        content("Done < 1. "),
    ];
    assert_eq!(read(tools(ToolFormat::Hermes), text), expected);
    let open = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n";
    assert_eq!(read(tools(ToolFormat::Hermes), open), [called("now", "{}")]);
}

#[test]
fn hermes_calls_that_are_none_are_content_as_they_stand() {
    for text in [
        "a <tool_call>{\"name\": 7}</tool_call>",
        "<tool_call>{\"name\": \"x\", \"argum",
        "b <tool_call>\nno json\n</tool_call> c",
        "<tool_cal",
        "a\n\n",
    ] {
        let joined: String = read(tools(ToolFormat::Hermes), text)
            .into_iter()
            .map(|one| match one {
                News::Content(text) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
    }
}

#[test]
fn llama_calls_are_the_whole_reply() {
    let format = tools(ToolFormat::Llama3Json);
    let one = r#"{"name": "sky", "parameters": {"city": "Rome"}}"#;
    let call = called("sky", r#"{"city":"Rome"}"#);
    for text in [
        one.to_owned(),
        format!("<|python_tag|>{one}"),
        format!("\n {one}\n"),
    ] {
        assert_eq!(read(format, &text), std::slice::from_ref(&call));
    }
    assert_eq!(read(format, &format!("{one}; {one}")), [call.clone(), call]);
    for text in [
        "Rome is {not} JSON",
        "{\"name\": \"sky\"",
        "{\"a\": 1}",
        "{\"name\": \"Eve\", \"age\": 7}",
        "<|pyth",
        "<|python_tag|>print(1)",
    ] {
        assert_eq!(read(format, text), [content(text)]);
    }
    assert_eq!(
        read(format, &format!("{one} and more")),
        [content(&format!("{one} and more"))]
    );
}

#[test]
fn mistral_calls_stand_behind_their_mark() {
    let format = tools(ToolFormat::Mistral);
    let list = "Yes. [TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {\"x\": [1]}}, {\"name\": \"b\", \"arguments\": {}}]";
    let expected = [content("Yes."), called("a", r#"{"x":[1]}"#), called("b", "{}")];
    assert_eq!(read(format, list), expected);
    let named = "[TOOL_CALLS]a[CALL_ID]123456789[ARGS]{\"x\": 1}[TOOL_CALLS]b{\"y\": 2}";
    assert_eq!(
        read(format, named),
        [called("a", r#"{"x":1}"#), called("b", r#"{"y":2}"#)]
    );
    for text in [
        "[TOOL_CALLS]",
        "[TOOL_CALLS] [{\"name\"",
        "[TOOL_CALLS]nothing",
        "[TOOL_",
    ] {
        assert_eq!(read(format, text), [content(text)]);
    }
}

#[test]
fn one_call_is_kept_where_there_may_be_one() {
    let reading = Reading {
        parallel: false,
        ..tools(ToolFormat::Mistral)
    };
    let text = "[TOOL_CALLS] [{\"name\": \"a\"}, {\"name\": \"b\"}]";
    assert_eq!(read(reading, text), [called("a", "{}")]);
}

#[test]
fn thoughts_end_where_they_are_closed() {
    let may = Reading {
        reasoning: true,
        ..Reading::default()
    };
    let opened = Reading {
        thinking: true,
        ..may
    };
    let (a, b) = (thought("Hm <b>.\nSo"), content("Yes.</think>\n"));
    let text = "<think>\nHm <b>.\nSo\n</think>\n\nYes.</think>\n";
    assert_eq!(read(may, text), [a.clone(), b.clone()]);
    assert_eq!(
        read(opened, text.strip_prefix("<think>").expect("a mark")),
        [a, b]
    );
    assert_eq!(read(may, "Yes. <think>"), [content("Yes. <think>")]);
    assert_eq!(read(may, " <thin"), [content(" <thin")]);
    assert_eq!(read(opened, "cut off "), [thought("cut off ")]);
    assert_eq!(read(may, "<think></think>x"), [content("x")]);
}

#[test]
fn a_thinking_model_calls_tools_behind_its_thoughts() {
    let reading = Reading {
        reasoning: true,
        ..tools(ToolFormat::Hermes)
    };
    let text = "<think>I <tool_call> now.</think>\n<tool_call>{\"name\": \"a\"}</tool_call>";
    assert_eq!(
        read(reading, text),
        [thought("I <tool_call> now."), called("a", "{}")]
    );
}

#[test]
fn only_the_marks_of_what_is_read_are_marks() {
    let reader = Reader::new(tools(ToolFormat::Mistral));
    assert!(reader.is_mark("[TOOL_CALLS]") && !reader.is_mark("<think>"));
    assert!(!Reader::new(Reading::default()).is_mark("[TOOL_CALLS]"));
}

#[test]
fn a_template_tells_its_format() {
    let of = ToolFormat::of_template;
    assert_eq!(of("{{ '<tool_call>' }}"), Some(ToolFormat::Hermes));
    assert_eq!(of("[TOOL_CALLS]"), Some(ToolFormat::Mistral));
    assert_eq!(of("{{ tools }} \"parameters\": "), Some(ToolFormat::Llama3Json));
    assert_eq!(of("{{ messages }}"), None);
    assert_eq!("mistral".parse(), Ok(ToolFormat::Mistral));
    assert!("Hermes".parse::<ToolFormat>().is_err());
}
