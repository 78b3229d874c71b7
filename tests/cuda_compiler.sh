#!/usr/bin/env bash
# Finds CUDA's compiler, or installs it from PyPI into a folder (about 400 MB; no GPU and no driver are needed to compile),
# and prints what CUDA_HOME must be.
# usage: tests/cuda_compiler.sh FOLDER
set -euo pipefail
folder=$1
for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  if test -n "$home" -a -x "$home/bin/nvcc"; then
    echo "$home"
    exit
  fi
done
home=$folder/nvidia/cu13
# The versions belong together: a newer nvvm than ptxas fails with "Unsupported .version".
test -x "$home/bin/nvcc" ||
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$folder" \
    nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
    nvidia-cuda-cccl==13.0.85 >&2
echo "$home"
