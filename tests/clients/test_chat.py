"""OpenAI's Python client's chat against a real server: answers, streams, documents, log-probabilities and tools."""

import json
import os
import pathlib

import openai
import pytest

from conftest import serving, wait_until_ready

DOCUMENTS = [
    {"id": "bridge", "title": "The old bridge", "text": "The stone bridge of Arven was finished in 1611 by the mason Ilse Kerr. " * 6},
    {"id": "mill", "title": "The mill", "text": "The mill below the bridge ground rye until the flood of 1744. " * 7},
]
MESSAGES = [
    {"role": "system", "content": "Answer from the documents."},
    {"role": "user", "content": "Who built the bridge?"},
]


def ask(client, messages=MESSAGES, **more):
    more = {"temperature": 0, "max_completion_tokens": 16, **more}
    return client.chat.completions.create(model="default", messages=messages, **more)


def test_an_answer_is_an_openai_answer(client):
    answer = ask(client)
    [choice] = answer.choices
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert choice.message.tool_calls is None and choice.message.refusal is None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_says_the_same_as_a_whole_answer(client):
    body = {"documents": DOCUMENTS}
    whole = ask(client, extra_body=body)
    chunks = list(ask(client, extra_body=body, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == [] and chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    assert chunks[-1].medley["plan"] == "blended"


def test_the_clients_own_stream_helper_assembles_the_answer(client):
    # It takes no answers that were cut off, so this one ends before its third word.
    stop = " " + ask(client).choices[0].message.content.split()[2]
    with client.chat.completions.stream(model="default", messages=MESSAGES, temperature=0, stop=stop) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == ask(client, stop=stop).choices[0].message.content


def test_documents_are_reused_in_another_order_and_across_endpoints(client):
    client.completions.create(model="default", prompt="Who?", max_tokens=1, extra_body={"documents": DOCUMENTS})
    answer = ask(client, extra_body={"documents": DOCUMENTS[::-1]})
    assert [d["source"] for d in answer.medley["documents"]] == ["host"] * 2
    assert [d["id"] for d in answer.medley["documents"]] == ["mill", "bridge"]
    assert answer.usage.prompt_tokens_details.cached_tokens > 0.5 * answer.usage.prompt_tokens


def test_documents_stand_in_messages(client):
    parts = [
        {"type": "document", "title": "The old bridge", "source": {"type": "text", "media_type": "text/plain", "data": DOCUMENTS[0]["text"]}},
        {"type": "search_result", "source": "https://arven.example/mill", "title": "The mill", "content": [{"type": "text", "text": DOCUMENTS[1]["text"]}]},
        {"type": "text", "text": "Who built the bridge?"},
    ]
    answer = ask(client, [{"role": "user", "content": parts}])
    assert [d["id"] for d in answer.medley["documents"]] == [None, "https://arven.example/mill"]
    assert answer.medley["plan"] == "blended"


def test_log_probabilities(client):
    answer = ask(client, logprobs=True, top_logprobs=3, max_completion_tokens=4)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    for token in tokens:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob)
        assert token.bytes is None or bytes(token.bytes).decode() == token.token
    chunks = ask(client, logprobs=True, max_completion_tokens=4, stream=True)
    streamed = [t for c in chunks for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
    assert [t.token for t in streamed] == [t.token for t in tokens]


def test_several_answers_and_stops(client):
    answer = ask(client, n=2, temperature=1, seed=3, max_completion_tokens=5)
    assert [c.index for c in answer.choices] == [0, 1]
    first = ask(client).choices[0].message.content.split()[1]
    stopped = ask(client, stop=[first]).choices[0]
    assert first not in stopped.message.content and stopped.finish_reason == "stop"


def test_a_conversation_goes_on(client):
    first = ask(client, extra_body={"documents": DOCUMENTS})
    messages = [*MESSAGES, first.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "When?"}]
    assert ask(client, messages, extra_body={"documents": DOCUMENTS}).choices[0].message.content


BAD = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role"),
    ({"instructions": "x"}, "instructions"),
    ({"tools": [{"type": "function", "function": {"name": "a"}}]}, "tools"),
    ({"messages": [{"role": "user", "content": "word " * 9000}]}, "messages"),
    ({"documents": ["d"], "messages": [{"role": "system", "content": "x"}]}, "documents"),
]


@pytest.mark.parametrize("change, param", BAD)
def test_bad_input_is_named(client, change, param):
    messages = change.get("messages", MESSAGES)
    body = {key: value for key, value in change.items() if key != "messages"}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, messages, extra_body=body)
    assert caught.value.body["param"] == param
    assert caught.value.body["message"]


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TOOL_MODEL = pathlib.Path(os.environ.get("MEDLEY_TEST_MODELS", "~/.cache/medley/models")).expanduser() / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


@pytest.fixture(scope="module")
def tool_client(binary):
    """A model that calls tools, which it writes without the marks of its template."""
    arguments = ("--model", TOOL_MODEL, "--host-cache-size", "1GiB", "--max-model-len", "2048", "--tool-call-parser", "llama3_json")
    with serving(binary, *arguments) as (address, process):
        wait_until_ready(process, address, patience=240)
        yield openai.OpenAI(base_url=address + "/v1", api_key="unused", max_retries=0)


def test_a_tool_is_called_whole_and_streamed(tool_client):
    messages = [{"role": "user", "content": "How is the weather in Rome?"}]
    answer = ask(tool_client, messages, tools=[TOOL], max_completion_tokens=48)
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    [call] = choice.message.tool_calls
    assert call.type == "function" and call.id.startswith("call_")
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Rome"})
    chunks = list(ask(tool_client, messages, tools=[TOOL], max_completion_tokens=48, stream=True))
    [streamed] = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert (streamed.index, streamed.function.name, streamed.function.arguments) == (0, call.function.name, call.function.arguments)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_tool_turns_are_taken(tool_client):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": json.dumps({"city": "Paris"})}}
    messages = [
        {"role": "user", "content": "How is the weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny, 31 degrees"},
        {"role": "assistant", "content": "Sunny, 31 degrees."},
        {"role": "user", "content": "And how is it in Rome?"},
    ]
    message = ask(tool_client, messages, tools=[TOOL], max_completion_tokens=32).choices[0].message
    assert message.content or message.tool_calls


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_calls_that_can_not_be_forced_are_refused(tool_client, choice):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(tool_client, tools=[TOOL], tool_choice=choice)
    assert caught.value.body["param"] == "tool_choice"
