"""Sizes of blocks of weir's f32 and f16 product, beside PyTorch's on the same cores.

    python bench/sweep/sweep.py --build      compiles a library per variant into build/sweep
    python bench/sweep/sweep.py [--seconds S] [--only TEXT] [--rows M] [--cut N]

A variant changes some constants of gemm_real.h, gemm_tile.h and gemm_thin.h. With --rows the product has few rows and [k, n].
With --cut the blocks are those for N cores, on however many threads: with --cores 1 the processor time of all of them, which
says nothing of what cores cost each other. Prints GFLOP/s (with --rows GB/s), the median of the rounds and the best; rounds
take turns with PyTorch's.
"""

import argparse
import ctypes
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "build" / "sweep"
DTYPES = {"f32": 0, "f16": 1}  # weir_dtype
VARIANTS = {
    "as it is": {},
    "ahead 512": {"THIN_AHEAD": 512},
    "ahead 1024": {"THIN_AHEAD": 1024},
    "ahead 2048": {"THIN_AHEAD": 2048},
    "depth 4": {"THIN_DEPTH": 4},  # one row of f32 has half of it
    "stretch 256": {"STRETCH": 256},
    "stretch 512": {"STRETCH": 512},
}


def _set(text, name, value):
    changed = re.sub(rf"^(#define {name} )\s*\S.*?(?=/\*|$)", rf"\g<1>{value} ", text, flags=re.M)
    return re.sub(rf"\b({name} = )[^,}}\n]+", rf"\g<1>{value}", changed)


def build():
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    product = Path("ops/host/product")
    for name, constants in VARIANTS.items():
        folder = LIBRARIES / "include" / name.replace(" ", "_")
        (folder / product).mkdir(parents=True)
        for file in (ROOT / "src" / product).glob("gemm_*"):
            text = file.read_text()
            for constant, value in constants.items():
                text = _set(text, constant, value)
            (folder / product / file.name).write_text(text)
        subprocess.run(
            ["gcc", "-O3", "-march=x86-64-v4", "-mprefer-vector-width=512", "-ffp-contract=fast",
             "-shared", "-fPIC", "-fvisibility=hidden", "-DWEIR_ISA=v4", "-D_GNU_SOURCE",
             f"-I{folder}", f"-I{ROOT}/src", f"-I{ROOT}/include", str(ROOT / "bench/sweep/sweep.c"),
             str(ROOT / "src/ops/product/gemm_grid.c"), "-lpthread", "-o", str(LIBRARIES / f"{name}.so".replace(" ", "_"))],
            check=True)  # fmt: skip


def load(name):
    function = ctypes.CDLL(str(LIBRARIES / f"{name}.so".replace(" ", "_"))).sweep
    function.restype = ctypes.c_double
    size, pointer = ctypes.c_int64, ctypes.c_void_p
    function.argtypes = [ctypes.c_int, size, size, size, pointer, pointer, pointer, ctypes.c_int,
                         ctypes.c_uint, ctypes.c_uint, ctypes.c_int]  # fmt: skip
    return function


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--seconds", type=float, default=50, help="for all, about")
    parser.add_argument("--cores", default="1,2,16")
    parser.add_argument("--sizes", default="1000,2048,4096")
    parser.add_argument("--orders", default="kn,nk")
    parser.add_argument("--types", default="f32")
    parser.add_argument("--rows", type=int, help="of A; default: square products")
    parser.add_argument("--cut", type=int, help="the cores that products are cut for; default: those that run them")
    parser.add_argument("--only", default="as it is", help="variants with this in their name; several: with commas")
    return parser.parse_args()


def main():
    options = _options()
    if options.build:
        build()
        return
    import torch

    names = [n for n in VARIANTS if any(o in n for o in options.only.split(","))]
    functions = {n: load(n) for n in names}
    all_cores = [int(c) for c in options.cores.split(",")]
    cases = [(c, t, s, o) for c in all_cores for t in options.types.split(",")
             for s in map(int, options.sizes.split(",")) for o in options.orders.split(",")
             if options.rows and o == "kn" or not options.rows and (c > 2 or s < 4096)]  # fmt: skip
    torch.manual_seed(0)
    for cores in all_cores:
        seconds = functions[names[0]](0, 0, 0, 0, None, None, None, 0, cores, cores, 20)
        print(f"{cores} cores, multiply-adds alone: {cores * 100000 * 24 * 16 * 2 / seconds / 1e9:.0f}")
    for cores, dtype, size, order in cases:
        before = os.sched_getaffinity(0)
        cpus = sorted(before)[:cores]
        torch.set_num_threads(cores)
        kind = {"f32": torch.float32, "f16": torch.float16}[dtype]
        rows = options.rows or size
        a, b = torch.randn(rows, size).to(kind), torch.randn(size, size).to(kind)
        c = torch.empty(rows, size, dtype=kind)
        other = b.t() if order == "nk" else b
        flops = 2.0 * rows * size**2
        amount = flops if not options.rows else size**2 * b.element_size()
        calls = max(1, round(0.02 / max(flops / (60e9 * cores), size**2 * 4 / 150e9)))
        times = {}

        def weir(name):
            return functions[name](DTYPES[dtype], rows, size, size, a.data_ptr(), b.data_ptr(), c.data_ptr(),
                                   order == "nk", cores, options.cut or cores, calls)  # fmt: skip

        def theirs():
            torch.matmul(a, other)
            clock = time.thread_time if cores == 1 else time.perf_counter
            began = clock()
            for _ in range(calls):
                torch.matmul(a, other)
            return (clock() - began) / calls

        os.sched_setaffinity(0, cpus)
        ways = [("PyTorch", theirs)] + [(n, lambda n=n: weir(n)) for n in names]
        began = time.perf_counter()
        rounds = 0
        while rounds < 3 or time.perf_counter() - began < options.seconds / len(cases):
            turn = rounds % len(ways)  # so that nobody is always the first after a pause
            for i, (name, way) in enumerate(ways[turn:] + ways[:turn]):
                if i == 0 or ways[(turn + i - 1) % len(ways)][0] == "PyTorch":
                    time.sleep(0.02)  # its threads spin for a while
                times.setdefault(name, []).append(way())
            rounds += 1
        os.sched_setaffinity(0, before)
        error = (c.float() - torch.matmul(a, other).float()).abs().max().item()
        print(f"{dtype} {rows} x {size} {order} {cores} cores, {rounds} rounds, error {error:.1e}")
        rates = {n: [amount / t / 1e9 for t in (statistics.median(ts), min(ts))] for n, ts in times.items()}
        print("   " + "  ".join(f"{n} {median:.0f} ({best:.0f})" for n, (median, best) in
                                sorted(rates.items(), key=lambda item: -item[1][0])), flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
