"""One of two ranks: collectives inside a compiled function give what eager ones give."""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc

import weir


def model(x):
    ranks = [0, 1]
    y = x @ x
    total = fc.all_reduce(y, "sum", ranks) + x
    with weir.scope.npu_stream_switch("side"):
        gathered = fc.all_gather_tensor(x * 2, 0, ranks)
        part = fc.reduce_scatter_tensor(x + 1, "sum", 0, ranks)
    swapped = fc.all_to_all_single(x, [2, 2], [2, 2], ranks)
    first, second = fc.all_reduce_coalesced([x, y], "max", ranks)
    fc.all_reduce(x * 3, "sum", ranks)  # nobody uses it, and the other rank meets it
    return total, gathered, part, swapped, first + 1, second, fc.broadcast(x, 1, ranks)


def main(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    torch.manual_seed(rank)
    config = weir.CompilerConfig()
    config.auto_streams = True
    backend = weir.get_npu_backend(compiler_config=config)
    run = torch.compile(model, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randint(-3, 4, (4, 4)).float()
        for got, want in zip(run(x), model(x), strict=True):
            torch.testing.assert_close(got, torch.as_tensor(want))
    fallen = [name for name in backend.coverage.fallback if "c10d" in name]
    assert len(fallen) >= 6, fallen
    dist.destroy_process_group()
    print("right")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
