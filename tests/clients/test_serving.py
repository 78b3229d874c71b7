"""Servers of their own: small ones, ones whose log nobody reads, ones with a log for machines."""

import http.client
import json
import os
import subprocess
import time
import urllib.request

import pytest

from conftest import serving, wait_until_ready

LONG = "one two three four five six seven eight nine ten " * 70
DOCUMENT = "The stone bridge of Arven was finished in 1611 by the mason Ilse Kerr. " * 4


def post(connection, body):
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def connect(address):
    return http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)


def test_one_place_and_no_queue_serve_one_request_after_another(binary):
    with serving(binary, "--max-num-seqs", "1", "--max-queue", "0") as (address, process):
        wait_until_ready(process, address)
        connection = connect(address)
        for more in ({"max_tokens": 1}, {"max_tokens": 5}, {"stream": True}, {"documents": [DOCUMENT], "max_tokens": 2}):
            statuses = [post(connection, {"prompt": "Once", **more})[0] for _ in range(15)]
            assert statuses == [200] * 15, more
        status, body = post(connection, {"prompt": ["a", "b", "c"]})
        assert (status, json.loads(body)["error"]["param"]) == (400, "prompt")
        assert b"--max-num-seqs" in body


def test_small_memory_is_said_and_bounds_requests(binary, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as stderr, serving(binary, "--host-cache-size", "30MiB", stderr=stderr) as (address, process):
        wait_until_ready(process, address)
        [model] = json.load(urllib.request.urlopen(address + "/v1/models"))["data"]
        assert model["max_model_len"] == 640
        status, body = post(connect(address), {"prompt": LONG})
        error = json.loads(body)["error"]
        assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", "prompt")
        assert "640" in error["message"] and "documents" not in error["message"]
    [warning] = [line for line in log.read_text().splitlines() if "WARN" in line and "held" in line]
    assert "640" in warning and "--host-cache-size" in warning


@pytest.fixture(scope="module")
def machine_log(binary, tmp_path_factory):
    """The log in JSON of a server that loaded, answered a stream and was told to stop; and how long the stream took."""
    log = tmp_path_factory.mktemp("log") / "log"
    environment = {**os.environ, "MEDLEY_PROT": "1"}
    arguments = ["--log-format", "json", "--shutdown-timeout", "7"]
    with log.open("w") as stderr, serving(binary, *arguments, stderr=stderr, env=environment) as (address, process):
        wait_until_ready(process, address)
        connection = connect(address)
        started = time.monotonic()
        connection.request(
            "POST",
            "/v1/completions",
            json.dumps({"prompt": "Once", "max_tokens": 40, "ignore_eos": True, "stream": True}),
            {"content-type": "application/json"},
        )
        answer = connection.getresponse()
        head = time.monotonic() - started
        assert answer.read().endswith(b"data: [DONE]\n\n")
        whole = time.monotonic() - started
    return [json.loads(line) for line in log.read_text().splitlines()], head, whole


def test_a_log_for_machines_is_json_to_the_last_line(machine_log):
    lines, _, _ = machine_log
    messages = [line["message"] for line in lines]
    assert "loading the model" in messages and "ready" in messages, messages


def test_the_log_has_the_duration_of_whole_streams(machine_log):
    lines, head, whole = machine_log
    [answered] = [line for line in lines if line["message"] == "answered"]
    assert head < answered["ms"] / 1000 <= whole


def test_a_variable_that_no_setting_has_is_warned_of(machine_log):
    lines, _, _ = machine_log
    assert "MEDLEY_PROT" in [line.get("name") for line in lines if line["level"] == "WARN"]


def test_the_end_says_how_long_it_waits_and_how_not_to(machine_log):
    messages = [line["message"] for line in machine_log[0]]
    assert any("7s" in message for message in messages), messages
    assert any("a second one ends" in message for message in messages), messages


def test_a_log_that_nobody_reads_any_more_does_not_end_the_server(binary):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with serving(binary, **pipes) as (address, process):
        process.stdout.readline()
        process.stdout.close()
        wait_until_ready(process, address)
        assert post(connect(address), {"prompt": "Once", "max_tokens": 1})[0] == 200


def test_a_result_that_nobody_reads_is_no_panic(binary):
    fetch = subprocess.Popen([binary, "fetch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fetch.stdout.close()
    assert b"panicked" not in fetch.stderr.read()
    assert fetch.wait(timeout=60) == 0
