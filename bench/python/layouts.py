"""Operators on operands of awkward layout on `cpu`, against PyTorch in the same run.

    python bench/python/layouts.py [--json] [--one-core] [PART]

Broadcasts along short dims, operands whose neighbours lie along different dims, softmax along a
dim that is not the last, the sort of one long row. PART runs only the cases with it in their name.
On a busy machine the best of some rounds counts. --one-core gives weir and PyTorch one thread each and
measures processor time instead of wall time; other processes disturb it least.
"""

import argparse
import json
import statistics
import time

import torch

import weir

ROUNDS = 7
SECONDS = 0.03  # a round of one function
clock = time.perf_counter


def timed(function, calls):
    began = clock()
    for _ in range(calls):
        function()
    weir.synchronize()  # so that work which was only queued counts
    return (clock() - began) / calls


def measure(functions):
    """What a call of each takes, in microseconds; rounds alternate, so that what else the machine
    does meets all alike. The best round counts by the clock, and the one in the middle by the
    processor's time, which the system adds up only now and then."""
    times = {name: [timed(function, 2)] for name, function in functions.items()}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            calls = max(1, int(SECONDS / max(min(times[name]), 1e-6)))
            times[name].append(timed(function, calls))
    pick = min if clock is time.perf_counter else statistics.median
    return {name: 1e6 * pick(t) for name, t in times.items()}


def binary(shape, other, dtype=torch.float32, turn=None):
    a = torch.rand(shape).to(dtype)
    b = torch.rand(other).to(dtype)
    wa, wb = weir.from_numpy(a.float().numpy()), weir.from_numpy(b.float().numpy())
    if dtype != torch.float32:
        name = {torch.bfloat16: "bf16", torch.float64: "f64"}[dtype]
        wa, wb = weir.cast(wa, name), weir.cast(wb, name)
    if turn:
        b, wb = b.permute(turn), weir.permute(wb, turn)
    return {"weir": lambda: weir.mul(wa, wb), "torch": lambda: torch.mul(a, b)}


def softmax(shape, dim):
    a = torch.rand(shape)
    wa = weir.from_numpy(a.numpy())
    return {"weir": lambda: weir.softmax(wa, dim), "torch": lambda: torch.softmax(a, dim)}


def stack(shape, n):
    a = [torch.rand(shape) for _ in range(n)]
    wa = [weir.from_numpy(t.numpy()).reshape((*shape, 1)) for t in a]
    return {"weir": lambda: weir.concat(wa, -1), "torch": lambda: torch.stack(a, -1)}


def total(shape):
    a = torch.rand(shape)
    wa = weir.from_numpy(a.numpy())
    return {"weir": lambda: weir.sum(wa, -1), "torch": lambda: a.sum(-1)}


def sort(n):
    a = torch.rand(n)
    wa = weir.from_numpy(a.numpy())
    return {"weir": lambda: weir.sort(wa), "torch": lambda: torch.sort(a, stable=True)}


CASES = {
    "broadcast [256,256,4] * [256,1,4]": lambda: binary((256, 256, 4), (256, 1, 4)),
    "broadcast [256,256,4] * [256,256,1]": lambda: binary((256, 256, 4), (256, 256, 1)),
    "broadcast [256,256,4] * [256,1,1]": lambda: binary((256, 256, 4), (256, 1, 1)),
    "broadcast [256,1,4] * [1,256,1]": lambda: binary((256, 1, 4), (1, 256, 1)),
    "broadcast [65536,3] * [65536,1]": lambda: binary((65536, 3), (65536, 1)),
    "broadcast [32,64,5,7] * [32,1,5,1]": lambda: binary((32, 64, 5, 7), (32, 1, 5, 1)),
    "broadcast bf16 [256,256,4] * [256,1,4]": lambda: binary(
        (256, 256, 4), (256, 1, 4), torch.bfloat16
    ),
    "layout [1024,1024] * [1024,1024].T": lambda: binary((1024, 1024), (1024, 1024), turn=(1, 0)),
    "layout [4096,4096] * [4096,4096].T": lambda: binary((4096, 4096), (4096, 4096), turn=(1, 0)),
    "layout [64,128,256] * permuted (2,1,0)": lambda: binary(
        (64, 128, 256), (256, 128, 64), turn=(2, 1, 0)
    ),
    "layout [8,64,64,32] * permuted (0,3,1,2)": lambda: binary(
        (8, 64, 64, 32), (8, 64, 32, 64), turn=(0, 3, 1, 2)
    ),
    "layout bf16 [1024,1024] * [1024,1024].T": lambda: binary(
        (1024, 1024), (1024, 1024), torch.bfloat16, turn=(1, 0)
    ),
    "softmax [1024,1024] dim 0": lambda: softmax((1024, 1024), 0),
    "softmax [64,64,256] dim 1": lambda: softmax((64, 64, 256), 1),
    "softmax [4096,16] dim 0": lambda: softmax((4096, 16), 0),
    "softmax [65536,8] dim 1": lambda: softmax((65536, 8), 1),
    "stack 4 of [256,256] as [256,256,4]": lambda: stack((256, 256), 4),
    "sum [256,256,4] dim 2": lambda: total((256, 256, 4)),
    "sort one row of 1,000,000": lambda: sort(1000000),
    "sort one row of 100,000": lambda: sort(100000),
}


def main():
    global clock
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.add_argument("--one-core", action="store_true", help="processor time of one thread")
    parser.add_argument("part", nargs="?", default="")
    args = parser.parse_args()
    if args.one_core:
        torch.set_num_threads(1)
        weir.set_device("cpu:cores=1")
        clock = time.process_time
    rows = []
    for work, make in CASES.items():
        if args.part in work:
            best = measure(make())
            ratio = best["weir"] / best["torch"]
            rows.append({"work": work, **best, "ratio": ratio, "unit": "us"})
            if not args.json:
                print(f"{work:42} {best['weir']:9.1f} us {best['torch']:9.1f} us  {ratio:5.2f}x")
    if args.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
