"""Bad configuration and bad models: exit code 64, a message that names what is wrong."""

import subprocess

import pytest

CASES = [
    (["--blend-ratio", "2"], "blend-ratio"),
    (["--blend-strategy", "best"], "blend-strategy"),
    (["--model", "./absent.gguf"], "absent.gguf"),
    (["--host-cache-size", "much"], "host-cache-size"),
    (["--config", "absent.toml"], "absent.toml"),
    (["--device", "cuda"], "cuda"),
]


def serve(binary, *arguments):
    return subprocess.run([binary, "serve", "--port", "0", *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments, named", CASES)
def test_bad_configuration_is_named(binary, arguments, named):
    ended = serve(binary, *arguments)
    assert ended.returncode == 64, ended
    assert named in ended.stderr


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
