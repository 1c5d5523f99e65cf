"""Matrix products and attention on `cpu`, against PyTorch in the same run.

    python bench/python/products.py [--cores N] [--seconds S] [--limit S] [--json] [PART ...]

Square products (B as [k, n] and as a transposed [n, k]), products of few rows with a matrix of
4096 x 4096, attention of 16 heads; f32, bf16 and f16. Calls back to back, rounds take turns,
medians, and at the end which rows PyTorch is ahead in. Rounds are fewer once the run is behind --limit.
PART runs only the cases with it in their name. On a busy machine the figures mean nothing.
"""

import argparse
import json
import os
import statistics
import time

SETTLE = 0.05  # until the threads of the other have stopped spinning


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.03, help="of a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=140, help="seconds for all rows, about")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("parts", nargs="*", metavar="PART")
    return parser.parse_args()


options = _options()
# before the libraries count them
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])

import torch  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import weir  # noqa: E402

torch.set_num_threads(options.cores)
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def _both(dtype, *shape):
    values = torch.randn(shape)
    ours = weir.from_numpy(values.numpy())
    return values.to(TYPES[dtype]), ours if dtype == "f32" else weir.cast(ours, dtype)


def product(dtype, m, n, k, transposed):
    a, wa = _both(dtype, m, k)
    b, wb = _both(dtype, *((n, k) if transposed else (k, n)))
    if transposed:
        return lambda: weir.linear(wa, wb), lambda: torch.nn.functional.linear(a, b)
    return lambda: weir.matmul(wa, wb), lambda: torch.matmul(a, b)


def attention(dtype, heads, key_heads, queries, keys, d):
    (q, wq), (k, wk), (v, wv) = (
        _both(dtype, 1, h, n, d) for h, n in ((heads, queries), (key_heads, keys), (key_heads, keys))
    )
    grouped = heads != key_heads
    return (
        lambda: weir.attention(wq, wk, wv),
        lambda: scaled_dot_product_attention(q, k, v, enable_gqa=grouped),
    )


def cases():
    for dtype in TYPES:
        for size in (1000, 2048, 4096):
            for order in ("kn", "nk"):
                yield (f"matmul {dtype} {size} {order}", product,
                       (dtype, size, size, size, order == "nk"))  # fmt: skip
    for dtype in TYPES:
        for rows in (1, 4, 8):
            for order in ("kn", "nk"):
                yield (f"matvec {dtype} {rows} rows {order}", product,
                       (dtype, rows, 4096, 4096, order == "nk"))  # fmt: skip
    for dtype in TYPES:
        yield f"attention {dtype} 1024", attention, (dtype, 16, 16, 1024, 1024, 64)
        yield f"attention {dtype} decode 4096", attention, (dtype, 16, 16, 1, 4096, 64)
        yield f"attention {dtype} decode grouped 4096", attention, (dtype, 32, 4, 1, 4096, 128)


def _timed(function, calls):
    began = time.perf_counter()
    for _ in range(calls):
        function()
    weir.synchronize()  # so that work which was only queued counts
    return (time.perf_counter() - began) / calls


def _error(ours, theirs):
    theirs = theirs.float()
    ours = torch.from_numpy(weir.cast(ours, "f32").numpy())
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def measure(functions, rounds):
    times = [[], []]
    calls = [max(1, int(options.seconds / max(_timed(f, 2), 1e-6))) for f in functions]
    for _ in range(rounds):
        for i, function in enumerate(functions):
            time.sleep(SETTLE)
            _timed(function, 1)  # to its end, or it would count as well
            times[i].append(_timed(function, calls[i]))
    return [1e3 * statistics.median(t) for t in times]


def chosen():
    return [c for c in cases() if not options.parts or any(part in c[0] for part in options.parts)]


def main():
    rows = []
    began = time.perf_counter()
    torch.manual_seed(0)
    with torch.no_grad():
        for i, (name, make, sizes) in enumerate(chosen()):
            functions = make(*sizes)
            error = _error(functions[0](), functions[1]())
            late = time.perf_counter() - began > options.limit * i / len(chosen())
            ours, theirs = measure(functions, min(3, options.rounds) if i and late else options.rounds)
            rows.append({"name": name, "weir": ours, "torch": theirs, "error": error})
            if not options.json:
                print(f"{name:34s} {options.cores} cores  weir {ours:9.3f} ms  torch {theirs:9.3f} ms"
                      f"  ratio {ours / theirs:5.2f}  difference {error:.1e}", flush=True)  # fmt: skip
    if options.json:
        print(json.dumps({"cores": options.cores, "rows": rows}, indent=1))
        return
    behind = [r for r in rows if r["weir"] > r["torch"]]
    print(f"{len(behind)} of {len(rows)} rows behind PyTorch, {time.perf_counter() - began:.0f} s")
    for row in sorted(behind, key=lambda r: r["torch"] / r["weir"]):
        print(f"  {row['name']:34s} {row['weir'] / row['torch']:5.2f}")


if __name__ == "__main__":
    main()
