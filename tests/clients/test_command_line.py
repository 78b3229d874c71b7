"""Bad configuration and bad models: exit code 64, a message that names what is wrong."""

import socket
import subprocess

import pytest

CASES = [
    (["--blend-ratio", "2"], "blend-ratio"),
    (["--blend-strategy", "best"], "blend-strategy"),
    (["--model", "./absent.gguf"], "absent.gguf"),
    (["--host-cache-size", "much"], "host-cache-size"),
    (["--config", "absent.toml"], "absent.toml"),
    (["--device", "cuda"], "cuda"),
    (["--blend-hops", "100"], "0 to 8"),
    (["--blend-check-layer", "999"], "1 to 29"),
    (["--max-model-len", "100000"], "8192"),
    (["--blend-separator", ""], "blend-separator"),
    (["--host-cache-size", "4"], "4 B is less"),
]


def serve(binary, *arguments):
    port = [] if "--port" in arguments else ["--port", "0"]
    return subprocess.run([binary, "serve", *port, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments, named", CASES)
def test_bad_configuration_is_named(binary, arguments, named):
    ended = serve(binary, *arguments)
    assert ended.returncode == 64, ended
    assert named in ended.stderr
    assert "loading the model" not in ended.stderr, "refused before the weights are read"


def test_a_port_in_use_is_named_with_a_way_out(binary):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = serve(binary, "--port", port)
    assert ended.returncode == 1, ended
    assert port in ended.stderr and "--port N" in ended.stderr


def test_a_truncated_model_is_named(binary, tmp_path):
    model = tmp_path / "cut.gguf"
    model.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 40)
    ended = serve(binary, "--model", str(model))
    assert ended.returncode == 64, ended
    assert "cut.gguf" in ended.stderr and "panicked" not in ended.stderr


def test_an_unknown_key_in_the_file_is_named(binary, tmp_path):
    config = tmp_path / "medley.toml"
    config.write_text("prot = 8080\n")
    ended = serve(binary, "--config", str(config))
    assert ended.returncode == 64, ended
    assert "prot" in ended.stderr


def test_an_unreadable_folder_is_named(binary, tmp_path):
    ended = serve(binary, "--model", str(tmp_path))
    assert ended.returncode == 64, ended
    assert str(tmp_path) in ended.stderr
