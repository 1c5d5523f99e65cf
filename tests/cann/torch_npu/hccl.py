"""Collectives of torch.distributed over libhccl, a process for each rank."""
import os

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.npu.set_device(rank)
dist.init_process_group("hccl", rank=rank, world_size=n)
x = torch.full((1000,), float(rank + 1)).npu()
dist.all_reduce(x)
assert (x.cpu() == n * (n + 1) / 2).all()
b = torch.full((10,), float(rank)).npu()
dist.broadcast(b, 1)
assert (b.cpu() == 1).all()
big = torch.full((3_000_000,), float(rank)).npu()
dist.all_reduce(big, op=dist.ReduceOp.MAX, async_op=True).wait()
assert (big.cpu() == n - 1).all()
parts = [torch.empty(5).npu() for _ in range(n)]
dist.all_gather(parts, torch.full((5,), float(rank)).npu())
assert all((part.cpu() == i).all() for i, part in enumerate(parts))
out = torch.empty(4).npu()
dist.reduce_scatter_tensor(out, torch.arange(4.0 * n).npu())
assert torch.equal(out.cpu(), torch.arange(4.0 * n)[4 * rank:4 * rank + 4] * n)
out = torch.empty(2 * n).npu()
dist.all_to_all_single(out, torch.arange(2.0 * n).npu() + 100 * rank)
assert torch.equal(out.cpu()[:2], torch.arange(2.0) + 2 * rank)
if rank == 0:
    dist.send(torch.arange(7.0).npu(), 1)
elif rank == 1:
    got = torch.empty(7).npu()
    dist.recv(got, 0)
    assert torch.equal(got.cpu(), torch.arange(7.0))
dist.barrier()
dist.destroy_process_group()
print("fine")
