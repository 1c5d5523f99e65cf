"""The eager sample of the core control document."""
import torch
import torch_npu

x = torch.randn(2, 16)
stream = torch.npu.current_stream()
torch.npu.set_stream_limit(stream, 1, 2)
with torch.npu.stream(stream):
    output = torch_npu.npu_swiglu(x.npu(), dim=-1)
first, second = x.chunk(2, dim=-1)
assert torch.allclose(output.cpu(), torch.nn.functional.silu(first) * second, atol=1e-5)
print("fine")
