"""An independent forward pass in numpy, from the dequantised weights of a GGUF file: what exact mode is compared with.

Usage: reference.py MODEL.gguf TOKENS.json OUT.f32

TOKENS.json is a list of token ids. OUT gets the logits of every position, [positions, vocabulary], little-endian f32.
Weights are dequantised by the `gguf` package; everything else is the plain formula of the llama and qwen2 decoders:
no cache, no pages, full causal attention, f32 products, f64 angles.
"""

import json
import sys

import gguf
import numpy as np


class Model:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.architecture = bytes(self.reader.fields["general.architecture"].parts[-1]).decode()
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}

    def number(self, key):
        return self.reader.fields[f"{self.architecture}.{key}"].parts[-1][0]

    def weight(self, name):
        tensor = self.tensors[name]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def linear(self, name, x):
        y = x @ self.weight(name + ".weight").T
        return y + self.weight(name + ".bias") if name + ".bias" in self.tensors else y


def normalise(x, weight, epsilon):
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + epsilon).astype(np.float32) * weight


def rotate(x, base, interleaved):
    """x: [positions, heads, size]. llama files pair neighbours, qwen2 files pair halves."""
    size = x.shape[-1]
    angles = np.arange(x.shape[0])[:, None] * base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    cos, sin = np.cos(angles)[:, None].astype(np.float32), np.sin(angles)[:, None].astype(np.float32)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : size // 2], x[..., size // 2 :])
    rotated = a * cos - b * sin, a * sin + b * cos
    return np.stack(rotated, -1).reshape(x.shape) if interleaved else np.concatenate(rotated, -1)


def attend(q, k, v):
    """q: [positions, heads, size]; k, v: [positions, kv heads, size]. Causal, full."""
    group = q.shape[1] // k.shape[1]
    positions = np.arange(q.shape[0])
    future = positions[None, :] > positions[:, None]
    out = np.empty_like(q)
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // group].T / np.sqrt(q.shape[-1])
        scores[future] = -np.inf
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, head] = scores / scores.sum(-1, keepdims=True) @ v[:, head // group]
    return out


def forward(model, tokens):
    heads, kv_heads = int(model.number("attention.head_count")), int(model.number("attention.head_count_kv"))
    epsilon, base = model.number("attention.layer_norm_rms_epsilon"), float(model.number("rope.freq_base"))
    interleaved = model.architecture == "llama"
    embedding = model.weight("token_embd.weight")
    x = embedding[tokens]
    for layer in range(int(model.number("block_count"))):
        block = f"blk.{layer}."
        y = normalise(x, model.weight(block + "attn_norm.weight"), epsilon)
        q = model.linear(block + "attn_q", y).reshape(len(tokens), heads, -1)
        k = model.linear(block + "attn_k", y).reshape(len(tokens), kv_heads, -1)
        v = model.linear(block + "attn_v", y).reshape(len(tokens), kv_heads, -1)
        y = attend(rotate(q, base, interleaved), rotate(k, base, interleaved), v)
        x = x + model.linear(block + "attn_output", y.reshape(len(tokens), -1))
        y = normalise(x, model.weight(block + "ffn_norm.weight"), epsilon)
        gate, up = model.linear(block + "ffn_gate", y), model.linear(block + "ffn_up", y)
        x = x + model.linear(block + "ffn_down", gate / (1 + np.exp(-gate)) * up)
    x = normalise(x, model.weight("output_norm.weight"), epsilon)
    head = model.weight("output.weight") if "output.weight" in model.tensors else embedding
    return x @ head.T


def main(path, tokens, out):
    with open(tokens) as file:
        tokens = json.load(file)
    forward(Model(path), tokens).astype("<f4").tofile(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
