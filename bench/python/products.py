"""Matrix products and attention on `cpu`, against PyTorch and oneDNN in the same run.

    python bench/python/products.py [--cores N[,N...]] [--device SPEC]... [--seconds S] [--limit S] [--json] [PART ...]

Square products (B as [k, n] and as a transposed [n, k]), products of few rows with a matrix of
4096 x 4096, attention of 16 heads; f32, bf16 and f16. Calls back to back, rounds take turns,
medians, and at the end the rows in which PyTorch or oneDNN beats weir. Rounds are fewer once the run is behind --limit.
PART runs only the cases with it in their name. On a busy machine the figures mean nothing.

oneDNN is the one that PyTorch is built with, called as it is by torch.compile (mkldnn::_linear_pointwise). Of bf16 and f16
PyTorch's own products go there as well, so that only f32 (which is MKL's) is measured twice; it has no attention by itself.
Several numbers of cores are runs of their own, one after the other, on CPUs of different cores as far as there are.
Several devices take turns in one run, and each row has the times of all of them; the ratio is the first one's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SETTLE = 0.05  # until the threads of the other have stopped spinning


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("--device", action="append", metavar="SPEC", help="cpu by default; may be repeated")
    parser.add_argument("--seconds", type=float, default=0.03, help="of a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=140, help="seconds for all rows, about")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("parts", nargs="*", metavar="PART")
    return parser.parse_args()


def _apart(cpus):
    """The first hardware thread of each core, then the others."""
    seen, others = {}, []
    for cpu in sorted(cpus):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text() if siblings.exists() else cpu
        if core in seen:
            others.append(cpu)
        else:
            seen[core] = cpu
    return [*seen.values(), *others]


options = _options()
if "," in options.cores:
    rest = [a for a in sys.argv[1:] if a != options.cores and a not in ("--cores", f"--cores={options.cores}")]
    sys.exit(max(subprocess.call([sys.executable, __file__, "--cores", n, *rest])
                 for n in options.cores.split(",")))  # fmt: skip
options.cores = int(options.cores)
# before the libraries count them
os.sched_setaffinity(0, _apart(os.sched_getaffinity(0))[: options.cores])

import torch  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import weir  # noqa: E402

torch.set_num_threads(options.cores)
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
SPECS = options.device or ["cpu"]
DEVICES = [weir.Device(spec) for spec in SPECS]


def _both(dtype, *shape):
    """A tensor of PyTorch, and one of weir for each device."""
    values = torch.randn(shape)
    ours = [weir.from_numpy(values.numpy(), device=device) for device in DEVICES]
    return values.to(TYPES[dtype]), [o if dtype == "f32" else weir.cast(o, dtype) for o in ours]


def _with(function, *tensors):
    """A call for each device."""
    return [lambda args=args: function(*args) for args in zip(*tensors, strict=True)]


def product(dtype, m, n, k, transposed):
    a, wa = _both(dtype, m, k)
    b, wb = _both(dtype, *((n, k) if transposed else (k, n)))
    if transposed:
        ways = [*_with(weir.linear, wa, wb), lambda: torch.nn.functional.linear(a, b)]
    else:
        ways = [*_with(weir.matmul, wa, wb), lambda: torch.matmul(a, b)]
    if dtype == "f32" and torch.backends.mkldnn.is_available():
        weight = b if transposed else b.t()
        ways.append(lambda: torch.ops.mkldnn._linear_pointwise(a, weight, None, "none", [], ""))
    return ways


def attention(dtype, heads, key_heads, queries, keys, d):
    (q, wq), (k, wk), (v, wv) = (
        _both(dtype, 1, h, n, d) for h, n in ((heads, queries), (key_heads, keys), (key_heads, keys))
    )
    grouped = heads != key_heads
    return [
        *_with(weir.attention, wq, wk, wv),
        lambda: scaled_dot_product_attention(q, k, v, enable_gqa=grouped),
    ]


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
    for device in DEVICES:  # so that work which was only queued counts
        device.synchronize()
    return (time.perf_counter() - began) / calls


def _error(ours, theirs):
    theirs = theirs.float()
    ours = torch.from_numpy(weir.cast(ours, "f32").numpy())
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def measure(functions, rounds):
    times = [[] for _ in functions]
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
            results = [f() for f in functions[: len(SPECS) + 1]]
            error = max(_error(ours, results[-1]) for ours in results[:-1])
            late = time.perf_counter() - began > options.limit * i / len(chosen())
            times = measure(functions, min(3, options.rounds) if i and late else options.rounds)
            ours, theirs = times[0], times[len(SPECS) :]
            best = min(theirs)
            others = dict(zip(SPECS[1:], times[1 : len(SPECS)], strict=True))
            rows.append({"name": name, "weir": ours, "others": others, "best": best, "torch": theirs[0],
                         "onednn": theirs[-1] if len(theirs) > 1 else None, "error": error})  # fmt: skip
            if not options.json:
                also = f"  oneDNN {theirs[1]:9.3f} ms" if len(theirs) > 1 else ""
                print(f"{name:34s} {options.cores} cores  weir {ours:9.3f} ms  torch {theirs[0]:9.3f} ms{also}"
                      f"  ratio {ours / best:5.2f}  difference {error:.1e}"
                      + "".join(f"  {n} {t:.3f} ms {t / best:.2f}" for n, t in others.items()), flush=True)  # fmt: skip
    if options.json:
        print(json.dumps({"cores": options.cores, "rows": rows}, indent=1))
        return
    behind = [r for r in rows if r["weir"] > r["best"]]
    print(f"{len(behind)} of {len(rows)} rows behind the better of PyTorch and oneDNN, {time.perf_counter() - began:.0f} s")
    for row in sorted(behind, key=lambda r: r["best"] / r["weir"]):
        print(f"  {row['name']:34s} {row['weir'] / row['best']:5.2f}")


if __name__ == "__main__":
    main()
