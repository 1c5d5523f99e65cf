"""torch.cond in a captured graph: each replay takes the branch that its input asks for."""
import torch
import torch_npu  # noqa: F401
from torch_npu.npu._npugraph_conditional_nodes import NPUGraphCaptureControlFlowOpDispatchMode

torch.npu.set_device(0)
x = torch.arange(6.0).npu()
limit = torch.tensor(10.0).npu()


def step(x):
    return torch.cond((x.sum() > limit).reshape(()), lambda a: a * 2, lambda a: a - 1, (x,))


torch.npu.synchronize()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph), NPUGraphCaptureControlFlowOpDispatchMode():
    out = step(x) + 100
for first in (0.0, -3.0, 5.0, -50.0, 1.0):
    x.copy_(torch.arange(6.0) + first)
    graph.replay()
    torch.npu.synchronize()
    want = torch.arange(6.0) + first
    want = (want * 2 if want.sum() > 10 else want - 1) + 100
    assert torch.equal(out.cpu(), want), (first, out.cpu(), want)
del graph
print("fine")
