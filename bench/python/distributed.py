"""All-reduce between processes: weir (in place, from the pool's memory and from PyTorch's) and gloo.

    weir launch -n 2 python3 bench/python/distributed.py

Rank 0 prints, for each size, the median time of a call in microseconds. Run it on a machine that does nothing
else: two ranks on two busy cores measure the scheduler.
"""

import statistics
import time

import torch
from torch import distributed as dist

import weir
import weir.distributed  # noqa: F401  registers the backend

SIZES = [4, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20]


def measure(call, size):
    """The median of samples, each of a few calls."""
    calls = 3 if size >= 16 << 20 else 20 if size >= 256 << 10 else 100
    for _ in range(3):
        call()
    samples = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - begin) / calls)
    return statistics.median(samples) * 1e6


def in_pool(size):
    """Without PyTorch: tensors that peers read where they are."""
    device = GROUP.device
    x = weir.ones((size // 4,), device=device)
    y = weir.ones((size // 4,), device=device)

    def call():
        GROUP.all_reduce(x, y)
        device.synchronize()

    return call


def of_torch(size, group):
    x = torch.ones(size // 4)
    return lambda: dist.all_reduce(x, group=group)


if __name__ == "__main__":
    torch.set_num_threads(1)
    GROUP = weir._C.Group("cpu:cores=2")
    dist.init_process_group("weir")
    gloo = dist.new_group(backend="gloo")
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, microseconds per all-reduce of f32")
        print(f"{'bytes':>10} {'weir':>10} {'weir torch':>10} {'gloo':>10}")
    for size in SIZES:
        row = [measure(in_pool(size), size)]
        row += [measure(of_torch(size, group), size) for group in (None, gloo)]
        if dist.get_rank() == 0:
            print(f"{size:>10} " + " ".join(f"{us:>10.1f}" for us in row), flush=True)
    dist.destroy_process_group()
    GROUP.close()
