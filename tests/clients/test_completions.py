"""OpenAI's Python client against a real server: text, streams, documents, reuse and errors."""

import openai
import pytest

DOCUMENTS = [
    {"id": "bridge", "title": "The old bridge", "text": "The stone bridge of Arven was finished in 1611 by the mason Ilse Kerr. " * 6},
    {"id": "mill", "title": "The mill", "text": "The mill below the bridge ground rye until the flood of 1744. " * 7},
    {"id": "market", "text": "On Thursdays the market of Arven sells wool, honey and glass. " * 8},
]
QUESTION = "Question: who built the bridge?\nAnswer:"


def ask(client, documents, **more):
    blend = more.pop("blend", {})
    body = {"documents": documents, "instructions": "Answer from the documents.", "blend": blend, "cache_salt": more.pop("cache_salt", None)}
    return client.completions.create(model="default", prompt=QUESTION, max_tokens=12, temperature=0, extra_body=body, **more)


def collect(stream):
    chunks = list(stream)
    text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    return text, chunks


def test_the_model_is_listed_and_found(client):
    [model] = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id
    assert model.max_model_len == 8192


def test_documents_in_another_order_are_reused(client):
    first = ask(client, DOCUMENTS, cache_salt="order")
    again = ask(client, DOCUMENTS[::-1], cache_salt="order")
    assert first.medley["tokens"]["reused"] == 0
    assert [d["source"] for d in again.medley["documents"]] == ["host"] * 3
    assert [d["id"] for d in again.medley["documents"]] == ["market", "mill", "bridge"]
    details = again.usage.prompt_tokens_details
    assert details.cached_tokens > 0.8 * again.usage.prompt_tokens
    assert sum(again.medley["tokens"].values()) == again.usage.prompt_tokens
    assert details.repaired_tokens == again.medley["tokens"]["repaired"] > 0


def test_a_stream_says_the_same_as_a_whole_answer(client):
    whole = ask(client, DOCUMENTS)
    text, chunks = collect(ask(client, DOCUMENTS, stream=True, stream_options={"include_usage": True}))
    assert text == whole.choices[0].text
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == [] and chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    assert chunks[-1].medley["plan"] == "blended"
    reasons = [c.choices[0].finish_reason for c in chunks[:-1] if c.choices[0].finish_reason]
    assert reasons == [whole.choices[0].finish_reason]


def test_headers_tell_the_plan(client):
    raw = client.completions.with_raw_response.create(model="default", prompt=QUESTION, max_tokens=1, extra_body={"documents": DOCUMENTS})
    counts = [int(raw.headers[f"x-medley-{kind}-tokens"]) for kind in ("exact-prefix", "reused", "computed", "repaired", "fresh")]
    assert raw.headers["x-medley-plan"] == "blended"
    assert sum(counts) == raw.parse().usage.prompt_tokens


def test_ratio_one_answers_as_exact(client):
    exact = ask(client, DOCUMENTS, blend={"mode": "exact"})
    assert exact.medley["plan"] == "exact"
    for strategy in ("auto", "heads", "deviation", "query"):
        full = ask(client, DOCUMENTS, blend={"recompute_ratio": 1.0, "strategy": strategy})
        assert full.choices[0].text == exact.choices[0].text, strategy


def test_four_forms_of_prompt(client):
    def run(prompt):
        return client.completions.create(model="default", prompt=prompt, max_tokens=3, temperature=0)

    text = run("The capital of France is")
    assert len(run(["The capital of France is", "One, two,"]).choices) == 2
    ids = run([504, 3575, 282])
    assert ids.usage.prompt_tokens == 3
    batch = run([[504, 3575, 282], [504]])
    assert [c.index for c in batch.choices] == [0, 1]
    assert batch.choices[0].text == ids.choices[0].text
    assert text.choices[0].finish_reason == "length"


def test_separators_make_documents(client):
    def run(order):
        middle = [DOCUMENTS[i]["text"] for i in order]
        prompt = " # # ".join(["Answer from the documents.", *middle, QUESTION])
        return client.completions.create(model="default", prompt=prompt, max_tokens=4, temperature=0)

    run([0, 1, 2])
    again = run([2, 0, 1])
    assert [d["source"] for d in again.medley["documents"]] == ["host"] * 3


def test_hops_and_rounds_refine_the_default_strategy(client):
    refined = ask(client, DOCUMENTS, blend={"hops": 1, "rounds": 2})
    assert [refined.medley[key] for key in ("strategy", "hops", "rounds")] == ["query", 1, 2]
    plain = ask(client, DOCUMENTS)
    assert [plain.medley[key] for key in ("strategy", "hops", "rounds")] == ["query", 0, 1]


def test_a_seed_fixes_the_text(client):
    def run(seed):
        return client.completions.create(model="default", prompt="Once upon a time", max_tokens=16, temperature=1.0, seed=seed).choices[0].text

    assert run(5) == run(5)
    assert len({run(seed) for seed in range(6)}) > 1


BAD = [
    ({"prompt": ""}, "prompt", None),
    ({"prompt": []}, "prompt", None),
    ({"prompt": [10**9]}, "prompt", None),
    ({"documents": [{"id": "doc_0123"}]}, "documents[0].id", "document_not_found"),
    ({"blend": {"recompute_ratio": 1.5}}, "blend.recompute_ratio", None),
    ({"blend": {"recompute_ratio": "much"}}, "blend.recompute_ratio", None),
    ({"blend": {"strategy": "best"}}, "blend.strategy", None),
    ({"blend": {"mode": "fast"}}, "blend.mode", "invalid_value"),
    ({"blend": {"ratio": 0.3}}, "blend.ratio", "unknown_parameter"),
    ({"documents": [{"text": "a", "titel": "b"}]}, "documents[0].titel", "unknown_parameter"),
    ({"documents": [{"text": "a", "content": "b"}]}, "documents[0].content", "invalid_value"),
    ({"max_completion_tokens": 5}, "max_completion_tokens", "unsupported_parameter"),
    ({"guided_regex": "a"}, "guided_regex", "unsupported_parameter"),
    ({"blend": {"strategy": "deviation", "check_layer": 99}}, "blend.check_layer", None),
    ({"prompt": "a # # b # # c", "documents": ["d"]}, "prompt", None),
    ({"prompt": "word " * 9000}, "prompt", "context_length_exceeded"),
    ({"documents": 7}, "documents", None),
    ({"max_tokens": "many"}, "max_tokens", None),
    ({"suffix": "end"}, "suffix", "unsupported_parameter"),
    ({"max_tokens": 0}, "max_tokens", None),
    ({"logit_bias": {"50000000": 1}}, "logit_bias.50000000", None),
    ({"logit_bias": {"a": 1}}, "logit_bias.a", None),
    ({"stop_token_ids": [10**9]}, "stop_token_ids[0]", None),
    ({"best_of": 2, "stream": True}, "best_of", None),
    ({"presence_penalty": 3}, "presence_penalty", None),
    ({"min_tokens": 17}, "min_tokens", None),
]


@pytest.mark.parametrize("change, param, code", BAD)
def test_bad_input_is_named(client, change, param, code):
    body = {"prompt": "x", **change}
    prompt = body.pop("prompt")
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="default", prompt=prompt, extra_body=body)
    error = caught.value.body
    assert (error.get("param") or "").startswith(param), error
    assert error["message"] and (code is None or error["code"] == code)
    assert client.completions.create(model="default", prompt="still there", max_tokens=1).choices


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="gpt-17", prompt="x")
    assert caught.value.body["code"] == "model_not_found"


def test_choices_are_those_of_their_seeds(client):
    def run(**more):
        body = {"documents": DOCUMENTS}
        answer = client.completions.create(model="default", prompt=QUESTION, max_tokens=12, temperature=1.2, extra_body=body, **more)
        return [choice.text for choice in answer.choices]

    texts = run(n=3, seed=7)
    assert len(set(texts)) == 3
    assert texts == [run(seed=seed)[0] for seed in (7, 8, 9)]


def test_more_choices_than_run_at_once(client):
    answer = client.completions.create(model="default", prompt="Once upon a time", n=24, max_tokens=4, temperature=1.2, seed=1)
    assert [choice.index for choice in answer.choices] == list(range(24))
    assert answer.usage.completion_tokens == sum(4 for _ in answer.choices)
    assert answer.usage.prompt_tokens < 10


def test_choices_of_a_stream_come_to_their_ends(client):
    texts, ends = {}, {}
    for chunk in client.completions.create(model="default", prompt="Once upon a time", n=3, max_tokens=6, temperature=1, seed=3, stream=True):
        [choice] = chunk.choices
        texts[choice.index] = texts.get(choice.index, "") + choice.text
        if choice.finish_reason:
            ends[choice.index] = choice.finish_reason
    whole = client.completions.create(model="default", prompt="Once upon a time", n=3, max_tokens=6, temperature=1, seed=3)
    assert [texts[index] for index in range(3)] == [choice.text for choice in whole.choices]
    assert set(ends) == {0, 1, 2}


def mean(choice):
    return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)


def test_the_best_of_several_are_returned(client):
    def run(**more):
        return client.completions.create(model="default", prompt="Once upon a time", max_tokens=6, temperature=1.3, seed=11, logprobs=0, **more)

    best, every = run(n=2, best_of=6), run(n=6)
    expected = sorted(every.choices, key=mean, reverse=True)[:2]
    assert [choice.text for choice in best.choices] == [choice.text for choice in expected]
    assert best.usage.completion_tokens == every.usage.completion_tokens


def test_an_echoed_prompt_has_log_probabilities(client):
    ids = [504, 3575, 282, 4649, 314]
    scored = client.completions.create(model="default", prompt=[ids, ids[:3]], max_tokens=1, temperature=0, logprobs=1, echo=True)
    logprobs = scored.choices[0].logprobs
    assert len(logprobs.tokens) == len(ids) + 1
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    assert all(value <= 0 for value in logprobs.token_logprobs[1:])
    assert "".join(logprobs.tokens) == scored.choices[0].text
    # A prefix of a prompt has the same ones.
    assert scored.choices[1].logprobs.token_logprobs[:3] == logprobs.token_logprobs[:3]
    # Greedily generated tokens are the most probable ones, also once they stand in the prompt.
    text = client.completions.create(model="default", prompt=ids, max_tokens=4, temperature=0, extra_body={"return_token_ids": True})
    again = client.completions.create(model="default", prompt=ids + text.choices[0].token_ids, max_tokens=0, logprobs=1, echo=True)
    tail = again.choices[0].logprobs
    assert again.usage.completion_tokens == 0 and len(tail.tokens) == len(ids) + 4
    for value, top in zip(tail.token_logprobs[len(ids):], tail.top_logprobs[len(ids):]):
        assert value == max(top.values())


def test_an_echoed_prompt_with_documents_is_run_plainly(client):
    answer = ask(client, DOCUMENTS, logprobs=1, echo=True)
    assert answer.medley["plan"] == "exact" and answer.medley["reason"]
    assert answer.medley["tokens"]["fresh"] == answer.usage.prompt_tokens
    assert len(answer.choices[0].logprobs.tokens) == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_bias_forces_and_forbids(client):
    def run(**more):
        return client.completions.create(model="default", prompt="Once upon a time", max_tokens=4, temperature=0, extra_body={"return_token_ids": True}, **more).choices[0]

    free = run()
    assert run(logit_bias={"504": 100}).token_ids == [504] * 4
    assert free.token_ids[0] not in run(logit_bias={str(free.token_ids[0]): -100}).token_ids
    assert len(free.prompt_token_ids) == 4


def test_penalties_end_repetitions(client):
    def run(extra=None, **more):
        body = {"return_token_ids": True, **(extra or {})}
        choice = client.completions.create(
            model="default", prompt="a", max_tokens=64, temperature=0, logit_bias={"504": 100}, extra_body=body, **more
        ).choices[0]
        return choice.token_ids

    assert run() == [504] * 64
    penalised = run(frequency_penalty=2.0, presence_penalty=2.0)
    assert penalised[0] == 504 and set(penalised) != {504}
    assert run({"repetition_penalty": 50.0})[:2].count(504) == 1


def test_the_least_length_and_stop_tokens(client):
    def run(**more):
        return client.completions.create(model="default", prompt="Once upon a time", max_tokens=12, temperature=0, extra_body={"return_token_ids": True, **more}).choices[0]

    third = run().token_ids[2]
    ended = run(stop_token_ids=[third])
    assert ended.finish_reason == "stop" and ended.token_ids[-1] == third and len(ended.token_ids) <= 3
    longer = run(stop_token_ids=[third], min_tokens=8)
    assert len(longer.token_ids) >= 9 or longer.finish_reason == "length"
    assert third not in longer.token_ids[:8]


def test_usage_counts_up_in_every_chunk(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = list(client.completions.create(model="default", prompt="Once upon a time", max_tokens=5, temperature=0, stream=True, stream_options=options))
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts) and counts[-1] == 5
    assert all(chunk.usage.prompt_tokens == 4 for chunk in chunks)
