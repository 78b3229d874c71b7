"""Schemathesis: what is described is what is answered, whatever is asked."""

import pathlib
import subprocess
import sys
import urllib.request

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def fake(binary):
    """The address of a server on the fake backend, which is as fast as its requests come."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([binary.parent / "examples" / "fake_server"], **pipes)
    yield process.stdout.readline().strip()
    process.communicate()
    assert process.returncode == 0


def test_all_checks_hold_for_every_endpoint(fake):
    command = [pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / "schemathesis.toml", "run"]
    options = ["--checks", "all", "--max-examples", "40", "--seed", "1", "--continue-on-failure", "--no-color"]
    run = subprocess.run([*command, fake + "/openapi.json", *options], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr
    assert b'"status":"ready"' in urllib.request.urlopen(fake + "/health").read()
