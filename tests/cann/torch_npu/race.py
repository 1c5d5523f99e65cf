"""Reads on one stream what another one writes, with nothing that orders the two."""
import torch
import torch_npu  # noqa: F401

side = torch.npu.Stream()
a = torch.randn(256, 256).npu()
torch.npu.synchronize()
b = torch.mm(a, a)
with torch.npu.stream(side):
    c = b + 1
torch.npu.synchronize()
print("fine")
