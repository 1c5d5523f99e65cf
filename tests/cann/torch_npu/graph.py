"""NPUGraph: nothing runs while it is captured, and each replay follows its inputs."""
import torch
import torch_npu  # noqa: F401

a = torch.ones(64, 64).npu()
b = torch.full((64, 64), 2.0).npu()
side = torch.npu.Stream()
for _ in range(2):  # what is made on first use is made
    c = torch.mm(a, b) + a
torch.npu.synchronize()
graph = torch.npu.NPUGraph()
seen = torch.zeros(64, 64).npu()
torch.npu.synchronize()
with torch.npu.graph(graph):
    c = torch.mm(a, b)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        d = a + b
    torch.npu.current_stream().wait_stream(side)
    seen.copy_(c + d)
assert (seen.cpu() == 0).all()
for i in range(5):
    a.copy_(torch.full((64, 64), float(i)))
    graph.replay()
    torch.npu.synchronize()
    assert (seen.cpu() == 64 * 2 * i + i + 2).all(), i
print("fine")
