"""Collectives between processes: weir's engines beside Open MPI, MPICH and gloo, and overlap. One command does all:

    python3 bench/python/processes.py [--json FILE] [--ranks 2,4] [--targets]

For each number of ranks and each size it starts every subject that is installed, prints the median time of an
all-reduce of f32 in microseconds, and says whether `shm` is at most as slow as the quickest of the others (target 1.0).
With --targets only those that the target is about are run, in less than six minutes on two cores. Each is run twice, in
turn, and the better of its medians counts, so that a slow moment of the machine does not. Then it puts a chain of matrix products beside
an all-reduce (target: 1.1 times the longer one), each on its own part of the cores: a rank has its share of the
machine, a quarter of it, at least one core, reduces, and the rest multiplies; once with all hardware threads, once with as
many as there are cores, once with half. (Where a machine hides which threads are of one core: taskset, and --overlap.) A share of one core has nothing to overlap with, which it says. MPICH's launcher is $TEST_MPICH or mpiexec.hydra, its library libmpi_abi.so.1 beside it or
where the system looks. Run it on a machine that does nothing else: ranks on busy cores measure the scheduler.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [4, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20]
HERE = pathlib.Path(__file__)


def measure(call, size):
    """The median of samples, each of a few calls."""
    calls = 1 if size >= 16 << 20 else 20 if size >= 256 << 10 else 200
    for _ in range(3):
        call()
    samples = []
    for _ in range(7 if size >= 16 << 20 else 9):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - begin) / calls)
    return statistics.median(samples) * 1e6


# ---- subjects: each is run as a rank ----


def weir_rank():
    import weir

    group = weir._C.Group("cpu")
    device = group.device

    def prepare(size):
        x, y = (weir.ones((size // 4,), device=device) for _ in range(2))

        def call():
            group.all_reduce(x, y)
            device.synchronize()

        return call

    yield group.rank
    yield prepare
    group.close()


def torch_rank(backend):
    """PyTorch's tensors, by one of its backends."""
    import torch
    from torch import distributed as dist

    if backend == "weir":
        import weir.distributed  # noqa: F401  registers it

    torch.set_num_threads(1)
    rank, ranks = int(os.environ["WEIR_RANK"]), int(os.environ["WEIR_RANKS"])
    dist.init_process_group(
        backend, init_method=f"file://{os.environ['BENCH_STORE']}", rank=rank, world_size=ranks
    )
    yield rank
    yield lambda size: (lambda x=torch.ones(size // 4): dist.all_reduce(x))
    dist.destroy_process_group()


def mpi_rank():
    """MPI without bindings: the two binary interfaces, as src/comm/procs/mpi/api.c has them."""
    lib = ctypes.CDLL(os.environ["BENCH_MPI"], mode=ctypes.RTLD_GLOBAL)
    if hasattr(lib, "ompi_mpi_comm_world"):
        world, f32, add = (
            ctypes.addressof(ctypes.c_char.in_dll(lib, f"ompi_mpi_{name}"))
            for name in ("comm_world", "float", "op_sum")
        )
    else:
        world, f32, add = 0x101, 0x210, 0x21
    world, f32, add = map(ctypes.c_void_p, (world, f32, add))
    lib.MPI_Init(None, None)
    rank = ctypes.c_int()
    lib.MPI_Comm_rank(world, ctypes.byref(rank))

    def prepare(size):
        x, y = ((ctypes.c_float * (size // 4))(*[1.0]) for _ in range(2))
        return lambda: lib.MPI_Allreduce(x, y, size // 4, f32, add, world)

    yield rank.value
    yield prepare
    lib.MPI_Finalize()


def overlap_rank():
    """A chain of products on one stream and an all-reduce on another: apart, and together. Each has cores of its own."""
    import weir

    share = int(os.environ["BENCH_CORES"]) // int(os.environ["WEIR_RANKS"])
    if share < 2:
        if os.environ["WEIR_RANK"] == "0":
            print(json.dumps({"skipped": "a rank has one core: both want it"}), flush=True)
        return
    if os.environ.get("BENCH_BOUND"):
        rank = int(os.environ["WEIR_RANK"])
        os.sched_setaffinity(0, places(int(os.environ["BENCH_CORES"]))[rank * share : (rank + 1) * share])
    group = weir._C.Group(f"cpu:cores={share}")
    device = group.device
    a = weir.ones((256, 256), device=device)
    x, y = (weir.ones((4 << 20,), device=device) for _ in range(2))
    streams = [weir._C.Stream(device=device) for _ in range(2)]
    reducing = max(1, share // 4)
    streams[0].set_limit(share - reducing, share - reducing)
    streams[1].set_limit(reducing, reducing)

    def products(count):
        with weir.stream(streams[0]):
            b = a
            for _ in range(count):
                b = weir.matmul(b, a)

    def reduce():
        with weir.stream(streams[1]):
            group.all_reduce(x, y)

    def timed(*works):
        def call():
            group.barrier()
            device.synchronize()
            begin = time.perf_counter()
            for work in works:
                work()
            device.synchronize()
            return time.perf_counter() - begin

        return statistics.median(call() for _ in range(15))

    alone = timed(reduce)
    count = max(1, round(20 * alone / timed(lambda: products(20))))
    chain, both = timed(lambda: products(count)), timed(lambda: products(count), reduce)
    if group.rank == 0:
        row = {"products_us": chain * 1e6, "all_reduce_us": alone * 1e6, "both_us": both * 1e6}
        print(json.dumps(row | {"ratio": both / max(chain, alone)}), flush=True)
    group.close()


def cores():
    """The hardware threads of each core, which share all but memory with no other core."""
    found = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            siblings = cpu
        found.setdefault(siblings, []).append(cpu)
    return list(found.values())


def places(used):
    """So many hardware threads, of cores of their own as far as there are any; threads of a core side by side."""
    found = cores()
    return [core[0] for core in found][:used] if used <= len(found) else sum(found, [])[:used]


def be_rank(subject):
    if subject == "overlap":
        return overlap_rank()
    if subject.startswith("torch:"):
        ranks = torch_rank(subject.removeprefix("torch:"))
    else:
        ranks = {"weir": weir_rank, "mpi": mpi_rank}[subject]()
    rank, prepare = next(ranks), next(ranks)
    for size in SIZES:
        us = measure(prepare(size), size)
        if rank == 0:
            print(json.dumps({"size": size, "us": us}), flush=True)
    next(ranks, None)


# ---- starting them ----


def weir_command():
    return [sys.executable, "-m", "weir", "launch", "-n"]


def subjects(ranks, targets):
    """name: (launcher up to the number of ranks, subject, environment)"""
    crowded = ranks > len(os.sched_getaffinity(0))  # then Open MPI's ranks yield
    found = {"shm": (weir_command(), "weir", {"WEIR_ENGINE": "shm"})}
    try:
        import torch.distributed  # noqa: F401

        found["weir of torch"] = (weir_command(), "torch:weir", {})
        found["gloo"] = (weir_command(), "torch:gloo", {})
    except ImportError:
        pass
    open_mpi = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    version = [open_mpi, "--version"]  # "Open MPI", or by its other name "OpenRTE" with an address of open-mpi.org
    if open_mpi and "open-mpi" in subprocess.run(version, capture_output=True, text=True).stdout:
        command = [open_mpi, "--allow-run-as-root", *(["--oversubscribe"] if crowded else []), "-n"]
        found["Open MPI"] = (command, "mpi", {"BENCH_MPI": "libmpi.so.40"})
        found["weir over Open MPI"] = (command, "weir", {"WEIR_ENGINE": "mpi"})
    mpich = os.environ.get("TEST_MPICH") or shutil.which("mpiexec.hydra")
    if mpich:
        beside = pathlib.Path(mpich).parent.parent / "lib" / "libmpi_abi.so.1"
        library = str(beside) if beside.exists() else "libmpi_abi.so.1"
        found["MPICH"] = ([mpich, "-n"], "mpi", {"BENCH_MPI": library})
        found["weir over MPICH"] = ([mpich, "-n"], "weir", {"WEIR_ENGINE": "mpi", "WEIR_MPI": library})
    if targets:
        return {name: how for name, how in found.items() if not name.startswith("weir")}
    return found


def start(launcher, subject, environment, ranks):
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | environment | {"BENCH_STORE": f"{folder}/store"}
        command = [*launcher, str(ranks), sys.executable, str(HERE), "--rank", subject]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{subject}: {done.stderr[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def compare(ranks, names):
    print(f"\n{ranks} ranks, microseconds per all-reduce of f32")
    columns = {}
    for name, how in 2 * list(names.items()):
        try:
            column = {row["size"]: row["us"] for row in start(*how, ranks)}
            columns[name] = {size: min(us, columns.get(name, column)[size]) for size, us in column.items()}
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as reason:
            print(f"  {name}: {reason}")
    others = [name for name in columns if not name.startswith("weir") and name != "shm"]
    print(f"{'bytes':>10} " + " ".join(f"{name:>18}" for name in columns) + "   shm / best other")
    rows = []
    for size in SIZES:
        best = min((columns[name][size] for name in others), default=float("nan"))
        ratio = columns["shm"][size] / best
        cells = " ".join(f"{column[size]:>18.1f}" for column in columns.values())
        print(f"{size:>10} {cells}   {ratio:.2f} {'met' if ratio <= 1 else 'missed'}", flush=True)
        rows.append({"ranks": ranks, "size": size, "ratio": ratio}
                    | {name: column[size] for name, column in columns.items()})
    return rows


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rank", metavar="SUBJECT", help=argparse.SUPPRESS)
    options.add_argument("--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    options.add_argument("--json", metavar="FILE", help="also write all rows there")
    options.add_argument("--targets", action="store_true", help="only what the targets are about")
    options.add_argument("--overlap", action="store_true", help="only the products beside an all-reduce")
    given = options.parse_args()
    if given.rank:
        return be_rank(given.rank)
    counts = [int(n) for n in given.ranks.split(",")]
    compared = [] if given.overlap else counts
    report = {"all_reduce": [row for n in compared for row in compare(n, subjects(n, given.targets))], "overlap": []}
    print("\na chain of products beside an all-reduce of 16 MiB, microseconds")
    threads = len(os.sched_getaffinity(0))
    print(f"  {threads} hardware threads, {len(cores())} cores; bound: each rank to its own")
    configurations = [(n, used) for n in counts for used in sorted({threads, len(cores()), threads // 2})]
    for n, used, bound in [(*c, bound) for c in configurations for bound in ("", "1")]:
        (row,) = start(weir_command(), "overlap", {"BENCH_CORES": str(used), "BENCH_BOUND": bound}, n)
        report["overlap"].append(row | {"ranks": n, "threads": used, "bound": bool(bound)})
        if "skipped" in row:
            print(f"  {n} ranks on {used} threads: not measured: {row['skipped']}")
            continue
        used = f"{used} bound" if bound else used
        met = "met" if row["ratio"] <= 1.1 else "missed"
        print(f"  {n} ranks on {used} threads: products {row['products_us']:.0f}, all-reduce {row['all_reduce_us']:.0f}, "
              f"both {row['both_us']:.0f}: {row['ratio']:.2f} times the longer one, {met}")
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
