"""The cost of calls of compiled functions on a GPU, beside PyTorch in the same run.

    WEIR_DEVICE=cuda:0 python bench/python/cuda.py

Medians in microseconds a call: of the host's part; of the host's part where the caller keeps the
last results, so that each call gets other memory; and of the time until the GPU has finished. "One
plan" is run by weir alone; in "cut" PyTorch runs one kernel in the middle.
"""

import argparse
import statistics
import time

import torch

import weir

WARM = 50


def one_plan(x):
    return torch.relu(x @ x) + 1


def cut(x):
    return torch.cumsum(torch.relu(x @ x) + 1, 0) * 2


FUNCTIONS = {"one plan": one_plan, "cut": cut}


def median(function, calls):
    for _ in range(WARM):
        function()
    torch.cuda.synchronize()
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        function()
        took.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    return 1e6 * statistics.median(took)


def rows(name, run, x, calls):
    kept, at = [None] * 3, 0

    def keep():
        nonlocal at
        kept[at] = run(x)
        at = (at + 1) % len(kept)

    def to_the_end():
        run(x)
        torch.cuda.synchronize()

    times = [median(f, calls) for f in (lambda: run(x), keep, to_the_end)]
    print(f"{name:48}" + "".join(f"{t:8.1f}" for t in times), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300)
    calls = parser.parse_args().calls
    x = torch.randn(64, 64, device="cuda")
    print(f"{'64x64 f32, us a call':48}{'host':>8}{'kept':>8}{'to end':>8}")
    with torch.no_grad():
        for name, function in FUNCTIONS.items():
            through_weir = torch.compile(function, backend=weir.get_npu_backend())
            rows(f"{name:12}PyTorch eager", function, x, calls)
            rows(f"{name:12}torch.compile with weir", through_weir, x, calls)
            with weir.npu.stream(weir.npu.Stream()):
                rows(f"{name:12}torch.compile with weir, its stream", through_weir, x, calls)
        # Last, because its compilers keep the machine busy for a while.
        for name, function in FUNCTIONS.items():
            rows(f"{name:12}torch.compile default", torch.compile(function), x, calls)


if __name__ == "__main__":
    main()
