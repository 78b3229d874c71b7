"""The tokenizer endpoints as lm-eval's remote tokenizer calls them, and API keys as OpenAI's client sends them."""

import json
import urllib.error
import urllib.request

import openai
import pytest

from conftest import serving, wait_until_ready


def call(address, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def encode(address, text):
    return call(address, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]


def test_the_tokenizer_says_what_its_tokens_are(address):
    info = call(address, "/tokenizer_info")
    assert encode(address, info["eos_token"]) == [info["eos_token_id"]]
    assert encode(address, info["bos_token"]) == [info["bos_token_id"]]
    assert "<|im_start|>" in info["chat_template"]
    assert info["added_tokens_decoder"][str(info["eos_token_id"])]["content"] == info["eos_token"]


def test_tokens_are_the_text(address):
    for text in ("", "Hello world", " two  spaces\n", "<|im_start|>user\nÄ 漢 🙂<|im_end|>"):
        assert call(address, "/detokenize", {"tokens": encode(address, text)}) == {"prompt": text}


def test_a_completion_counts_the_tokens_that_tokenize_gives(address, client):
    for text in ("Once upon a time", "<|im_start|>user\nHi<|im_end|>\n"):
        count = call(address, "/tokenize", {"prompt": text})["count"]
        usage = client.completions.create(model="default", prompt=text, max_tokens=1).usage
        assert usage.prompt_tokens == count


def test_a_key_is_wanted_and_taken(binary, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# clients\nfrom-file\n")
    arguments = ["--api-key", "from-flag", "--api-key-file", keys, "--host-cache-size", "256MiB"]
    with serving(binary, *arguments) as (address, process):
        wait_until_ready(process, address)

        def client(key):
            return openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=0)

        for key in ("from-flag", "from-file"):
            assert client(key).completions.create(model="default", prompt="Once", max_tokens=1).usage
        with pytest.raises(openai.AuthenticationError) as refused:
            client("wrong").models.list()
        assert refused.value.code == "invalid_api_key"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            call(address, "/tokenizer_info")
