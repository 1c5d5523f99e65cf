"""LSTM and GRU: values and gradients as on the CPU. What torch_npu gives to the graph engine's operators is refused by name: several
layers of LSTM, its cell, bf16."""
import torch
import torch_npu  # noqa: F401
from torch import nn

torch.manual_seed(3)


def compare(make, *shapes):
    cpu = make()
    npu = make()
    npu.load_state_dict(cpu.state_dict())
    npu = npu.npu()
    results = []
    for net, device in ((cpu, "cpu"), (npu, "npu")):
        torch.manual_seed(4)
        xs = [torch.randn(s).to(device).requires_grad_() for s in shapes]
        out = net(*xs)
        flat = [out] if isinstance(out, torch.Tensor) else [t for o in out for t in (o if isinstance(o, tuple) else (o,))]
        sum((t * (k + 1)).sum() for k, t in enumerate(flat)).backward()
        results.append([t.detach().cpu() for t in flat] + [x.grad.cpu() for x in xs] +
                       [p.grad.cpu() for p in net.parameters()])
    for want, got in zip(*results):
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5)


compare(lambda: nn.LSTM(4, 6), (5, 3, 4))
compare(lambda: nn.LSTM(4, 6, batch_first=True), (3, 5, 4))
compare(lambda: nn.GRU(4, 6), (5, 3, 4))
compare(lambda: nn.GRU(4, 6, num_layers=2, bidirectional=True, batch_first=True), (3, 5, 4))
compare(lambda: nn.GRUCell(4, 6), (3, 4))
try:
    nn.LSTM(4, 6, num_layers=2).npu()(torch.randn(5, 3, 4).npu())
    torch.npu.synchronize()
    raise SystemExit("two layers of LSTM ran")
except RuntimeError as error:
    assert "weir has no operator 'DynamicRNN'" in str(error), error
print("fine")
