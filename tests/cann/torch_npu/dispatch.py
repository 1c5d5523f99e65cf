"""Tokens of two processes to the ranks that have their experts, and back."""
import os

import torch
import torch.distributed as dist
import torch_npu

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
group = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)

bs, k, width, experts = 4, 2, 16, 6
local = experts // world
torch.manual_seed(7)
xs = torch.randn(world, bs, width).half()
ids = torch.stack([torch.randperm(experts)[:k] for _ in range(world * bs)]).int().view(world, bs, k)
scales = torch.rand(world, bs, k)

for _ in range(3):
    rows, _, places, tokens, counts, _, _ = torch_npu.npu_moe_distribute_dispatch(
        xs[rank].npu(), ids[rank].npu(), group, world, rank, experts, expert_token_nums_type=1)
    flat = xs.view(-1, 1, width).expand(-1, k, -1).reshape(-1, width)
    want = [flat[ids.flatten() == rank * local + e] for e in range(local)]
    assert tokens.cpu().tolist() == [len(w) for w in want]
    n = sum(map(len, want))
    assert torch.equal(rows.cpu()[:n], torch.cat(want))
    # each expert multiplies by its number
    factor = torch.arange(local).repeat_interleave(tokens.cpu()) + rank * local + 1
    rows[:n] *= factor.half().npu()[:, None]
    out = torch_npu.npu_moe_distribute_combine(
        rows, ids[rank].npu(), places, counts, scales[rank].npu(), group, world, rank, experts)
    made = (xs[rank][:, None].float() * (ids[rank][..., None] + 1)).half().float()
    want = (made * scales[rank][..., None]).sum(1)
    torch.testing.assert_close(out.cpu().float(), want, rtol=2e-3, atol=2e-3)

# Captured: each replay follows its inputs.
xn, idn, sn = xs[rank].npu(), ids[rank].npu(), scales[rank].npu()
torch.npu.synchronize()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    rows, _, places, tokens, counts, _, _ = torch_npu.npu_moe_distribute_dispatch(
        xn, idn, group, world, rank, experts, expert_token_nums_type=1)
    out = torch_npu.npu_moe_distribute_combine(rows * 2, idn, places, counts, sn, group, world, rank, experts)
for i in range(3):
    torch.manual_seed(i)
    xs = torch.randn(world, bs, width).half()
    ids = torch.stack([torch.randperm(experts)[:k] for _ in range(world * bs)]).int().view(world, bs, k)
    xn.copy_(xs[rank])
    idn.copy_(ids[rank])
    graph.replay()
    torch.npu.synchronize()
    want = [int((ids == rank * local + e).sum()) for e in range(local)]
    assert tokens.cpu().tolist() == want, (tokens, want)
    want = ((xs[rank] * 2).float()[:, None] * scales[rank][..., None]).sum(1)
    torch.testing.assert_close(out.cpu().float(), want, rtol=2e-3, atol=2e-3)
dist.destroy_process_group()
print("fine")
