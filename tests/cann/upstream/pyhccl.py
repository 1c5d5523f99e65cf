"""vllm-ascend's own wrapper of libhccl, pyhccl, as it is in a checkout: a process for each rank.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... pyhccl.py CHECKOUT

vllm itself is not needed: the three names that the wrapper takes from it stand in here.
"""
import importlib.util
import logging
import os
import pathlib
import sys
import types

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401


def stand_in(name, **names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)


for package in ("vllm", "vllm.distributed", "vllm_ascend", "vllm_ascend.distributed",
                "vllm_ascend.distributed.device_communicators"):
    stand_in(package)
stand_in("vllm.logger", logger=logging.getLogger("vllm"))
stand_in("vllm.distributed.utils", StatelessProcessGroup=type("StatelessProcessGroup", (), {}))
stand_in("vllm_ascend.utils", find_hccl_library=lambda: "libhccl.so",
         current_stream=torch.npu.current_stream)
folder = pathlib.Path(sys.argv[1]) / "vllm_ascend" / "distributed" / "device_communicators"
for part in ("pyhccl_wrapper", "pyhccl"):
    name = f"vllm_ascend.distributed.device_communicators.{part}"
    spec = importlib.util.spec_from_file_location(name, folder / f"{part}.py")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])

rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", rank=rank, world_size=n)
torch.npu.set_device(rank)
comm = sys.modules[name].PyHcclCommunicator(dist.group.WORLD, rank)
assert comm.available and not comm.disabled
for dtype in (torch.float32, torch.float16, torch.int64):
    x = torch.full((1000, 7), rank + 1, dtype=dtype).npu()
    total = comm.all_reduce(x)
    most = comm.all_reduce(x, dist.ReduceOp.MAX)
    assert (total.cpu() == n * (n + 1) // 2).all() and (most.cpu() == n).all()
    with torch.npu.stream(torch.npu.Stream()):
        y = torch.full((5,), rank, dtype=dtype).npu()
        comm.broadcast(y, n - 1)
        assert (y.cpu() == n - 1).all()
dist.barrier()
comm.hccl.hcclCommDestroy(comm.comm)
print("fine")
