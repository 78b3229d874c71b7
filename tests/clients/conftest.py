"""A server on the small real model, as a user starts it."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(process, address, patience=120):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        try:
            return urllib.request.urlopen(address + "/health", timeout=5).read()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise TimeoutError(address)


@pytest.fixture(scope="session")
def binary():
    return pathlib.Path(os.environ.get("MEDLEY_BIN", "target/release/medley")).resolve()


@contextlib.contextmanager
def serving(binary, *arguments, **popen):
    """A server of its own: its address and its process."""
    port = free_port()
    process = subprocess.Popen([binary, "serve", "--port", str(port), *arguments], **popen)
    address = f"http://127.0.0.1:{port}"
    try:
        yield address, process
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, "SIGTERM ends the server with exit code 0"


@pytest.fixture(scope="session")
def address(binary):
    with serving(binary, "--blend-separator", " # # ", "--host-cache-size", "1GiB") as (address, process):
        wait_until_ready(process, address)
        yield address


@pytest.fixture(scope="session")
def client(address):
    return openai.OpenAI(base_url=address + "/v1", api_key="unused", max_retries=0)
