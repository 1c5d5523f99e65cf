"""The gain of automatic streams: a mixture of experts on one stream and on those that the compiler chooses.

    python bench/python/auto_streams.py [--rounds N]

Rounds take turns; medians of microseconds a call. On a busy machine the figures mean nothing.
"""

import argparse
import statistics
import time

import torch

import weir


class Expert(torch.nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


class Experts(torch.nn.Module):
    """A shared expert, and others that every token goes to by weight."""

    def __init__(self, hidden, inner, experts):
        super().__init__()
        self.router = torch.nn.Linear(hidden, experts, bias=False)
        self.experts = torch.nn.ModuleList(Expert(hidden, inner) for _ in range(experts))
        self.shared = Expert(hidden, inner)

    def forward(self, x):
        weights, y = torch.softmax(self.router(x), -1), self.shared(x)
        for i, expert in enumerate(self.experts):
            y = y + weights[:, i : i + 1] * expert(x)
        return y


def compiled(model, x, automatic):
    torch._dynamo.reset()
    config = weir.CompilerConfig()
    config.auto_streams = automatic
    run = torch.compile(model, backend=weir.get_npu_backend(compiler_config=config))
    for _ in range(40):  # the first calls try both
        y = run(x)
    torch.testing.assert_close(y, model(x), rtol=1e-3, atol=1e-4)
    return run


def compare(model, x, rounds):
    ways = {"eager": model, "one": compiled(model, x, False), "auto": compiled(model, x, True)}
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            began = time.perf_counter()
            for _ in range(5):
                run(x)
            times[name].append((time.perf_counter() - began) / 5 * 1e6)
    return {name: statistics.median(t) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    print("hidden inner experts tokens   eager     one    auto  one/auto")
    with torch.no_grad():
        for hidden, inner, experts, tokens in ((128, 256, 8, 16), (256, 512, 8, 32), (512, 1024, 4, 64)):
            torch.manual_seed(0)
            us = compare(Experts(hidden, inner, experts).eval(), torch.randn(tokens, hidden), rounds)
            print(f"{hidden:6} {inner:5} {experts:7} {tokens:6} {us['eager']:7.0f} {us['one']:7.0f}"
                  f" {us['auto']:7.0f} {us['one'] / us['auto']:9.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
