"""A small decoder trained for three steps on the NPU and on the CPU: the same losses and weights."""
import torch
import torch_npu  # noqa: F401
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up, self.down = nn.Linear(width, 64), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x, mask):
        b, s, w = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5).masked_fill(mask, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList(Block(32, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50)

    def forward(self, ids):
        mask = torch.triu(torch.ones(ids.shape[1], ids.shape[1], device=ids.device), 1).bool()
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def train(device):
    torch.manual_seed(3)
    model, ids = Model(), torch.randint(0, 50, (4, 9))
    model, ids = model.to(device), ids.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


ours, weights = train("npu")
theirs, wanted = train("cpu")
assert all(abs(a - b) < 1e-3 for a, b in zip(ours, theirs)), (ours, theirs)
for got, want in zip(weights, wanted):
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-3)
print("fine", ours)
