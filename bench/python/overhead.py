"""The cost of a call from Python, against PyTorch in the same run.

    python bench/python/overhead.py [--json]

Targets: an eager operator on small tensors at most 0.6x torch.add; a call of a compiled plan at
most 1x the call of a function of the same graph that torch.compile made (default backend, or
"eager" where that cannot be built), be it weir's own plan, one call behind the other or each
awaited, or the same function through torch.compile with weir as its backend, whose calls wait.
Exit status 1 if a target is missed. On a busy machine run it with a better priority than what
keeps it busy: the best of some rounds counts.
"""

import argparse
import json
import sys
import time

import torch

import weir

ROUNDS = 9


def measure(functions, calls):
    """The best time of a call of each, in microseconds; rounds alternate, so that what else the
    machine does meets all alike."""
    best = {name: float("inf") for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            began = time.perf_counter()
            for _ in range(calls):
                function()
            weir.synchronize()  # so that work which was only queued counts
            best[name] = min(best[name], (time.perf_counter() - began) / calls)
    return {name: 1e6 * t for name, t in best.items()}


def eager():
    a, b = weir.ones((4,)), weir.ones((4,))
    ta, tb = torch.ones(4), torch.ones(4)
    weir_add, torch_add = weir.add, torch.add
    return measure(
        {
            "weir.add": lambda: weir_add(a, b),
            "weir a + b": lambda: a + b,
            "torch.add": lambda: torch_add(ta, tb),
        },
        2000,
    )


def chain(x):
    for _ in range(4):
        x = x * 2 + 1
    return x


def plans():
    graph = weir.Graph()
    x = graph.input("x", (64,))
    with graph:
        y = chain(x)
    graph.output("y", y)
    plan = graph.compile()
    mine, theirs = weir.ones((64,)), torch.ones(64)

    def run_and_wait():
        plan(mine).synchronize()

    compiled = torch.compile(chain, dynamic=False)
    how = "torch.compile default"
    try:
        compiled(theirs)
    except Exception:  # it needs a C++ compiler
        compiled, how = torch.compile(chain, backend="eager", dynamic=False), "torch.compile eager"
        compiled(theirs)
    through_torch = torch.compile(chain, backend=weir.get_npu_backend(), dynamic=False)
    through_torch(theirs)
    return measure(
        {
            "weir plan": lambda: plan(mine),
            "weir plan, each awaited": run_and_wait,
            "torch.compile weir": lambda: through_torch(theirs),
            how: lambda: compiled(theirs),
        },
        500,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with torch.no_grad():
        eager_us, plan_us = eager(), plans()
    reference = next(v for k, v in plan_us.items() if k.startswith("torch.compile ") and "weir" not in k)
    targets = [
        ("eager operator", eager_us["weir.add"] / eager_us["torch.add"], 0.6),
        ("call of a plan", plan_us["weir plan"] / reference, 1.0),
        ("call of a plan, awaited", plan_us["weir plan, each awaited"] / reference, 1.0),
        ("call through torch.compile", plan_us["torch.compile weir"] / reference, 1.0),
    ]
    rows = {**eager_us, **plan_us}
    met = all(ratio <= target for _, ratio, target in targets)
    if args.json:
        print(json.dumps({
            "rows": [{"subject": k, "median": v, "unit": "us"} for k, v in rows.items()],
            "targets": [{"work": w, "ratio": r, "target": t, "met": r <= t} for w, r, t in targets],
        }, indent=2))  # fmt: skip
    else:
        for name, us in rows.items():
            print(f"{name:28} {us:8.2f} us")
        for work, ratio, target in targets:
            print(f"{work:28} {ratio:8.2f} x of PyTorch's (at most {target}): "
                  f"{'met' if ratio <= target else 'MISSED'}")  # fmt: skip
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
