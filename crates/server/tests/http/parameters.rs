//! What parameters become, and which are refused.

use medley_generate::Adjustments;
use medley_kv::{BlendMode, BlendOptions, ReportDetail, Strategy, TokenId};
use serde_json::{Value, json};

use crate::{
    fake::Fake,
    setup::{config, post, server, server_with},
};

async fn run(extra: Value) -> medley_generate::Request {
    let fake = Fake::says(&["x"]);
    let reply = post(&server(&fake), with_prompt(&extra)).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
    fake.requests().remove(0)
}

fn with_prompt(extra: &Value) -> Value {
    let mut body = json!({"prompt": "Hi"});
    let fields = extra.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body
}

#[tokio::test]
async fn absent_parameters_take_openais_defaults() {
    let request = run(json!({})).await;
    assert_eq!(request.max_tokens, 16);
    assert_eq!(
        (
            request.sampling.temperature,
            request.sampling.top_p,
            request.sampling.top_k
        ),
        (1.0, 1.0, 0)
    );
    assert_eq!(&request.stop_tokens[..], [TokenId(257)]);
    assert!(request.stop.is_empty() && request.cache_salt.is_none());
    assert_eq!(request.blend, BlendOptions::default());
}

#[tokio::test]
async fn parameters_reach_the_engine() {
    let request = run(json!({
        "max_tokens": 7, "temperature": 0, "top_p": 0.5, "top_k": 20, "seed": 3, "stop": ["a", "b"],
        "stop_token_ids": [9], "ignore_eos": true, "cache_salt": "user-7", "best_of": 1,
        "blend": {"mode": "exact", "recompute_ratio": 0.5, "strategy": "heads", "hops": 2, "rounds": 3,
                  "check_layer": 4, "report": "tokens"},
    }))
    .await;
    assert_eq!(request.max_tokens, 7);
    let sampling = request.sampling;
    assert_eq!(
        (
            sampling.temperature,
            sampling.top_p,
            sampling.top_k,
            sampling.seed
        ),
        (0.0, 0.5, 20, Some(3))
    );
    assert_eq!(request.stop, ["a", "b"]);
    assert_eq!(&request.stop_tokens[..], [TokenId(9)]);
    assert_eq!(request.cache_salt.as_deref(), Some("user-7"));
    let blend = request.blend;
    assert_eq!(
        (blend.mode, blend.strategy, blend.report),
        (BlendMode::Exact, Strategy::Heads, ReportDetail::Tokens)
    );
    assert_eq!(
        (blend.ratio.get(), blend.hops, blend.rounds, blend.check_layer),
        (0.5, 2, 3, 4)
    );
}

#[tokio::test]
async fn what_changes_logits_reaches_the_engine() {
    let request = run(json!({
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.25, "min_p": 0.125, "min_tokens": 3,
        "logit_bias": {"200": -100, "7": 2.5}, "priority": -4,
    }))
    .await;
    let expected = Adjustments {
        bias: [(TokenId(7), 2.5), (TokenId(200), -100.0)].into(),
        repetition_penalty: 1.25,
        frequency_penalty: -0.5,
        presence_penalty: 0.5,
        min_p: 0.125,
        min_tokens: 3,
    };
    assert_eq!((request.adjustments, request.precedence), (expected, -4));
    let plain = run(json!({"presence_penalty": null, "logit_bias": {}})).await;
    assert_eq!((plain.adjustments, plain.precedence), (Adjustments::default(), 0));
}

#[tokio::test]
async fn what_blend_leaves_open_is_the_servers_default() {
    let mut config = config();
    config.blend_defaults.strategy = Strategy::Heads;
    let fake = Fake::says(&["x"]);
    post(
        &server_with(&fake, config),
        with_prompt(&json!({"blend": {"rounds": 2}})),
    )
    .await;
    let blend = fake.requests()[0].blend;
    assert_eq!((blend.strategy, blend.rounds), (Strategy::Heads, 2));
}

#[tokio::test]
async fn stop_may_be_one_string_and_top_k_minus_one_is_all() {
    let request = run(json!({"stop": "END", "top_k": -1})).await;
    assert_eq!(request.stop, ["END"]);
    assert_eq!(request.sampling.top_k, 0);
}

#[tokio::test]
async fn max_tokens_is_clamped_to_the_room_left() {
    assert_eq!(
        run(json!({"max_tokens": 1_000_000_000_000_u64})).await.max_tokens,
        200 - 3
    );
}

#[tokio::test]
async fn bos_is_left_out_when_asked() {
    assert_eq!(run(json!({"add_special_tokens": false})).await.prompt.len(), 2);
}

#[tokio::test]
async fn neutral_values_of_unsupported_parameters_are_fine() {
    run(json!({
        "response_format": {"type": "text"},
        "suffix": null, "user": "u", "metadata": {"a": 1}, "bad_words": [], "use_beam_search": false,
        "length_penalty": 1.0, "include_stop_str_in_output": false, "guided_json": null,
    }))
    .await;
}

#[tokio::test]
async fn unsupported_parameters_are_refused_and_never_ignored() {
    let server = server(&Fake::says(&["x"]));
    for (param, value) in [
        ("suffix", json!("s")),
        ("prompt_logprobs", json!(1)),
        ("response_format", json!({"type": "json_object"})),
        ("structured_outputs", json!({"regex": "a"})),
        ("guided_json", json!({"type": "object"})),
        ("guided_regex", json!("a+")),
        ("guided_choice", json!(["a", "b"])),
        ("guided_grammar", json!("root ::= \"a\"")),
        ("max_completion_tokens", json!(5)),
        ("truncate_prompt_tokens", json!(100)),
        ("allowed_token_ids", json!([1])),
        ("bad_words", json!(["a"])),
        ("use_beam_search", json!(true)),
        ("length_penalty", json!(0.5)),
        ("include_stop_str_in_output", json!(true)),
    ] {
        let reply = post(&server, with_prompt(&json!({param: value}))).await;
        let message = reply.is_error(400, "unsupported_parameter", Some(param));
        assert!(message.contains(param), "{message}");
    }
}

#[tokio::test]
async fn values_out_of_range_are_refused_with_their_parameter() {
    let server = server(&Fake::says(&["x"]));
    for (extra, param) in [
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"top_p": 1.5}), "top_p"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"n": 0}), "n"),
        (json!({"n": 129}), "n"),
        (json!({"n": 2, "best_of": 1}), "best_of"),
        (json!({"n": 2, "best_of": 21}), "best_of"),
        (json!({"best_of": 0}), "best_of"),
        (json!({"best_of": 2, "stream": true}), "best_of"),
        (json!({"prompt": vec!["a"; 7], "best_of": 20}), "best_of"),
        (json!({"presence_penalty": 2.1}), "presence_penalty"),
        (json!({"frequency_penalty": -2.1}), "frequency_penalty"),
        (json!({"repetition_penalty": 0}), "repetition_penalty"),
        (json!({"repetition_penalty": -1}), "repetition_penalty"),
        (json!({"repetition_penalty": 1e300}), "repetition_penalty"),
        (json!({"min_p": 1.1}), "min_p"),
        (json!({"min_tokens": 17}), "min_tokens"),
        (json!({"min_tokens": 3, "max_tokens": 2}), "min_tokens"),
        (json!({"logit_bias": {"258": 1}}), "logit_bias.258"),
        (json!({"logit_bias": {"-1": 1}}), "logit_bias.-1"),
        (json!({"logit_bias": {"word": 1}}), "logit_bias.word"),
        (json!({"logit_bias": {"5": 100.5}}), "logit_bias.5"),
        (json!({"logit_bias": {"5": 1, "05": 1}}), "logit_bias.5"),
        (json!({"logprobs": 6}), "logprobs"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop_token_ids": [1, 258]}), "stop_token_ids[1]"),
        (json!({"stream_options": {}}), "stream_options"),
        (json!({"cache_salt": ""}), "cache_salt"),
        (json!({"cache_salt": "x".repeat(1025)}), "cache_salt"),
        (
            json!({"blend": {"recompute_ratio": 1.1}}),
            "blend.recompute_ratio",
        ),
        (json!({"blend": {"rounds": 0}}), "blend.rounds"),
        (json!({"blend": {"hops": 9}}), "blend.hops"),
        (json!({"blend": {"check_layer": 0}}), "blend.check_layer"),
        (json!({"prompt": []}), "prompt"),
        (
            json!({"prompt": ["a", ""], "add_special_tokens": false}),
            "prompt[1]",
        ),
        (json!({"prompt": [1, 258]}), "prompt[1]"),
        (json!({"prompt": [[1], [2, 999]]}), "prompt[1][1]"),
        (json!({"prompt": ["a", "b"], "n": 65}), "n"),
    ] {
        let reply = post(&server, with_prompt(&extra)).await;
        assert_eq!(reply.status, 400, "{extra}");
        reply.is_error(400, "invalid_value", Some(param));
    }
}

#[tokio::test]
async fn a_salt_is_measured_in_characters() {
    assert!(
        run(json!({"cache_salt": "é".repeat(1024)}))
            .await
            .cache_salt
            .is_some()
    );
}

#[tokio::test]
async fn stop_strings_have_4096_bytes_at_most() {
    let server = server(&Fake::says(&["x"]));
    let stop = |bytes: usize| json!({"prompt": "Hi", "stop": ["a", "x".repeat(bytes)]});
    assert_eq!(post(&server, stop(4096)).await.status, 200);
    let message = post(&server, stop(4097))
        .await
        .is_error(400, "invalid_value", Some("stop"));
    assert!(message.contains("4096") && message.contains("4097"), "{message}");
}
