"""Data-parallel training under torchrun with the backend hccl: each rank has half of the batch, and the
weights become those of one process with all of it on the CPU."""
import os

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make():
    torch.manual_seed(5)
    return nn.Sequential(nn.Embedding(40, 32), nn.LayerNorm(32), nn.Linear(32, 64), nn.SiLU(),
                         nn.Linear(64, 40))


def train(model, ids, targets, steps=4):
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten()).backward()
        optimiser.step()
    return [p.detach().cpu() for p in model.parameters()]


rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.manual_seed(7)
ids, targets = torch.randint(0, 40, (2 * n, 6)), torch.randint(0, 40, (2 * n, 6))
torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl")
model = make().npu()
if rank:  # DDP gives everybody the weights of rank 0
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
part = slice(2 * rank, 2 * rank + 2)
got = train(DistributedDataParallel(model, device_ids=[rank]), ids[part].npu(), targets[part].npu())
for mine, want in zip(got, train(make(), ids, targets)):
    torch.testing.assert_close(mine, want, rtol=2e-3, atol=2e-4)
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} is fine")
