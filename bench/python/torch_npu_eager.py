#!/usr/bin/env python3
"""torch_npu in eager mode over weir's cpu device, beside PyTorch's own CPU device.

    weir cann run -- python bench/python/torch_npu_eager.py

Shows the host's cost of an operator (a queue of small additions, with the wait for the last; and the
processor time of the thread that issues them, which says the same on a busy machine), and the forward pass of a decoder layer of
Llama's shape, of a prompt and of one token. The two devices take turns; medians of several rounds.
"""
import argparse
import statistics
import time

import torch
import torch_npu  # noqa: F401
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, mask):
        b, s, w = x.shape
        y = self.first(x)
        q, k, v = (f(y).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-1, -2)) * (w // self.heads) ** -0.5 + mask
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def wait(device):
    if device == "npu":
        torch.npu.synchronize()


def medians(make, rounds, clock):
    """Of both devices, which take turns."""
    runs = {device: make(device) for device in ("npu", "cpu")}
    times = {device: [] for device in runs}
    for turn in range(rounds + 1):
        for device, run in runs.items():
            begin = clock()
            run()
            wait(device)
            if turn:  # the first one warms
                times[device].append(clock() - begin)
    return [statistics.median(times[device]) for device in ("npu", "cpu")]


def small(device, count):
    x = torch.ones(4, device=device)

    def run():
        for _ in range(count):
            x.add(1.0)

    return run


def layer(device, args, tokens, times):
    torch.manual_seed(0)
    model = Layer(args.width, args.width // 128, args.inner).to(device)
    x = torch.randn(1, tokens, args.width, device=device)
    mask = torch.full((tokens, tokens), float("-inf")).triu(1).to(device)

    def run():
        with torch.no_grad():
            for _ in range(times):
                model(x, mask)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5504)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--count", type=int, default=2000, help="of small operators")
    parser.add_argument("--runs", type=int, default=11)
    args = parser.parse_args()
    rows = []
    each = 1e6 / args.count
    for name, make, unit, scale, clock in (
        ("small operator", lambda d: small(d, args.count), "us", each, time.perf_counter),
        ("small operator, its thread", lambda d: small(d, args.count), "us", each, time.thread_time),
        (f"layer of {args.width}, {args.tokens} tokens", lambda d: layer(d, args, args.tokens, 3), "ms", 1e3 / 3,
         time.perf_counter),
        (f"layer of {args.width}, 1 token", lambda d: layer(d, args, 1, 10), "ms", 1e2, time.perf_counter),
    ):
        rows.append((name, unit, *(scale * t for t in medians(make, args.runs, clock))))
    print(f"{'':28}  torch_npu on weir   PyTorch CPU   ratio")
    for name, unit, ours, theirs in rows:
        print(f"{name:28}  {ours:14.2f} {unit}  {theirs:9.2f} {unit}  {ours / theirs:6.2f}", flush=True)


if __name__ == "__main__":
    main()
