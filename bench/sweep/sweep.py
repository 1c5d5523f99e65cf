"""Sizes of blocks of weir's f32 and f16 product, beside PyTorch's on the same cores.

    python bench/sweep/sweep.py --build      compiles a library per variant into build/sweep
    python bench/sweep/sweep.py [--seconds S] [--only TEXT]

A variant changes some constants of gemm_real.h and gemm_tile.h. Prints GFLOP/s, the median of the rounds
and the best; rounds take turns with PyTorch's.
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
TALL = {"MR": 12, "NV": 2, "MB": 264}  # tiles of 12 rows by two vectors, in place of 8 by three
VARIANTS = {
    "as it is": {},
    "12x32": TALL,
    "stretch 256": {"STRETCH": 256},
    "stretch 512": {"STRETCH": 512},
    "12x32 stretch 256": {"STRETCH": 256, **TALL},
    "12x32 stretch 512": {"STRETCH": 512, **TALL},
    "12x32 stretch 256 kc 256": {"STRETCH": 256, "KC": 256, **TALL},
    "12x32 stretch 384 kc 384": {"STRETCH": 384, "KC": 384, **TALL},
    "12x32 stretch 512 ahead 0": {"STRETCH": 512, "AHEAD_ROWS": 0, **TALL},
}


def _set(text, name, value):
    changed = re.sub(rf"^(#define {name} ).*$", rf"\g<1>{value}", text, flags=re.M)
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
                         ctypes.c_uint, ctypes.c_int]  # fmt: skip
    return function


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--seconds", type=float, default=50, help="for all, about")
    parser.add_argument("--cores", default="1,2,16")
    parser.add_argument("--sizes", default="1000,2048,4096")
    parser.add_argument("--orders", default="kn,nk")
    parser.add_argument("--types", default="f32")
    parser.add_argument("--only", default="", help="variants with this in their name")
    return parser.parse_args()


def main():
    options = _options()
    if options.build:
        build()
        return
    import torch

    names = [n for n in VARIANTS if options.only in n]
    functions = {n: load(n) for n in names}
    all_cores = [int(c) for c in options.cores.split(",")]
    cases = [(c, t, s, o) for c in all_cores for t in options.types.split(",")
             for s in map(int, options.sizes.split(",")) for o in options.orders.split(",")
             if c > 2 or s < 4096]  # fmt: skip
    torch.manual_seed(0)
    for cores in all_cores:
        seconds = functions[names[0]](0, 0, 0, 0, None, None, None, 0, cores, 20)
        print(f"{cores} cores, multiply-adds alone: {cores * 100000 * 24 * 16 * 2 / seconds / 1e9:.0f}")
    for cores, dtype, size, order in cases:
        cpus = sorted(os.sched_getaffinity(0))[:cores]
        before = os.sched_getaffinity(0)
        torch.set_num_threads(cores)
        kind = {"f32": torch.float32, "f16": torch.float16}[dtype]
        a, b = (torch.randn(size, size).to(kind) for _ in range(2))
        c = torch.empty(size, size, dtype=kind)
        other = b.t() if order == "nk" else b
        flops = 2.0 * size**3
        calls = max(1, round(0.02 / (flops / (60e9 * cores))))
        times = {}

        def weir(name):
            return functions[name](DTYPES[dtype], size, size, size, a.data_ptr(), b.data_ptr(),
                                   c.data_ptr(), order == "nk", cores, calls)  # fmt: skip

        def theirs():
            torch.matmul(a, other)
            clock = time.thread_time if cores == 1 else time.perf_counter
            began = clock()
            for _ in range(calls):
                torch.matmul(a, other)
            return (clock() - began) / calls

        if cores < len(before):
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
        print(f"{dtype} {size} {order} {cores} cores, {rounds} rounds, error {error:.1e}")
        rates = {n: [flops / t / 1e9 for t in (statistics.median(ts), min(ts))] for n, ts in times.items()}
        print("   " + "  ".join(f"{n} {median:.0f} ({best:.0f})" for n, (median, best) in
                                sorted(rates.items(), key=lambda item: -item[1][0])), flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
