"""The eager sample of the core control document."""
import torch
import torch_npu

x = torch.randn(2, 16)
stream = torch.npu.current_stream()
cores = torch.npu.get_stream_limit(stream)  # the sample's 3 and 8, where there are as many
torch.npu.set_stream_limit(stream, min(3, cores["cube_core_num"]), min(8, cores["vector_core_num"]))
with torch.npu.stream(stream):
    output = torch_npu.npu_swiglu(x.npu(), dim=-1)
first, second = x.chunk(2, dim=-1)
assert torch.allclose(output.cpu(), torch.nn.functional.silu(first) * second, atol=1e-5)
print("fine")
