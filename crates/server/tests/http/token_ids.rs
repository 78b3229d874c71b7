//! The ids of a choice's tokens.

use serde_json::json;

use crate::{
    fake::Fake,
    setup::{post, server},
};

#[tokio::test]
async fn a_whole_answer_carries_those_of_the_prompt_and_of_the_text() {
    let body = json!({"prompt": ["Hi", "Yo"], "documents": ["d"], "return_token_ids": true});
    let reply = post(&server(&Fake::says(&["a", "b"])), body).await;
    let choice = &reply.json()["choices"][1];
    assert_eq!(choice["token_ids"], json!([97, 98]));
    assert_eq!(choice["prompt_token_ids"], json!([256, 100, 10, 10, 89, 111]));
}

#[tokio::test]
async fn a_stream_says_those_of_the_prompt_once_and_each_token_of_the_text() {
    let body = json!({"prompt": "Hi", "n": 2, "return_token_ids": true, "stream": true});
    let chunks = post(&server(&Fake::says(&["a", "", "b"])), body).await.chunks();
    for index in 0..2 {
        let mine = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let mine: Vec<_> = mine.filter(|choice| choice["index"] == index).collect();
        let prompts: Vec<_> = mine
            .iter()
            .filter_map(|choice| choice.get("prompt_token_ids"))
            .collect();
        assert_eq!(prompts, [&json!([256, 72, 105])]);
        assert!(mine[0].get("prompt_token_ids").is_some(), "in the first chunk");
        let tokens: Vec<_> = mine.iter().filter_map(|choice| choice.get("token_ids")).collect();
        assert_eq!(tokens, [&json!([97]), &json!([0]), &json!([98])]);
    }
}

#[tokio::test]
async fn without_being_asked_for_there_are_none() {
    let reply = post(&server(&Fake::says(&["a"])), json!({"prompt": "Hi"})).await;
    let choice = &reply.json()["choices"][0];
    assert!(choice.get("token_ids").is_none() && choice.get("prompt_token_ids").is_none());
}
