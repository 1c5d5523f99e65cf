"""Attention of one token, with keys and values that grow by a copy: copied while they are read, copied
before, and not copied at all.

    growing.py [--lengths 1000,4000,16000] [--rounds N]

Four layers of 4 key heads of 32 in f32, on one core; rounds take turns. Processor time in milliseconds,
the first quartile and the median.
"""

import argparse
import statistics
import time

import numpy as np

import weir

LAYERS, HEADS, D = 4, 4, 32


def graph(device, length, grows):
    made = weir.Graph(device)
    shapes = {"q": (1, 2 * HEADS, 1, D), "k": (1, HEADS, length, D), "v": (1, HEADS, length, D),
              "k1": (1, HEADS, 1, D), "v1": (1, HEADS, 1, D)}  # fmt: skip
    inputs = [[made.input(f"{n}{i}", s, "f32") for n, s in shapes.items()] for i in range(LAYERS)]
    with made:
        for i, (q, k, v, k1, v1) in enumerate(inputs):
            if grows:
                k, v = weir.concat([k, k1], -2), weir.concat([v, v1], -2)
                made.output(f"k{i}", k)
                made.output(f"v{i}", v)
            made.output(f"out{i}", weir.attention(q, k, v))
    return made, list(shapes.values()) * LAYERS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="1000,4000,16000")
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    device = weir.Device("cpu:cores=1")
    for length in map(int, args.lengths.split(",")):
        grown, shapes = graph(device, length, True)
        plans = {
            "as it is read": grown.compile(mode="max-autotune"),
            "before": grown.compile(mode="reduce-overhead"),
            "not at all": graph(device, length, False)[0].compile(mode="max-autotune"),
        }
        rng = np.random.default_rng(0)
        inputs = [weir.asarray(rng.standard_normal(s, dtype=np.float32), device=device) for s in shapes]
        times = {way: [] for way in plans}
        for _ in range(args.rounds):
            for way, plan in plans.items():
                began = time.process_time()
                plan.run(*inputs)
                device.synchronize()
                times[way].append(1e3 * (time.process_time() - began))
        print(f"{length:6d} tokens: " + ", ".join(
            f"copied {way} {statistics.quantiles(t)[0]:.3f} {statistics.median(t):.3f}" for way, t in times.items()
        ), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
