"""The model of the in-graph multi-stream documents with TorchAir's mode that captures streams. That
mode has no npu_wait_tensor (TorchAir says so): tagged events order the streams."""
import torch
import torch_npu  # noqa: F401
import torch_npu.dynamo.torchair as torchair
import torch_npu.dynamo.torchair.ops
import torch_npu.dynamo.torchair.scope
from torch_npu.dynamo.torchair.configs.compiler_config import CompilerConfig

added = torchair.ops.npu_create_tagged_event("added")
multiplied = torchair.ops.npu_create_tagged_event("multiplied")


class Model(torch.nn.Module):
    def forward(self, in1, in2, in3, in4):
        add_result = torch.add(in1, in2)
        torchair.ops.npu_tagged_event_record(added)
        with torchair.scope.npu_stream_switch("1"):
            torchair.ops.npu_tagged_event_wait(added)
            mm_result = torch.mm(in3, in4)
            torchair.ops.npu_tagged_event_record(multiplied)
        mm1 = torch.mm(in3, in4)
        with torchair.scope.npu_stream_switch("2"):
            torchair.ops.npu_tagged_event_wait(multiplied)
            add2 = torch.add(in3, in4)
        return add_result, mm_result, mm1, add2


cores = torch.npu.get_stream_limit(torch.npu.current_stream())  # the sample's 6 and 12, where there are as many
CUBE, VECTOR = min(6, cores["cube_core_num"]), min(12, cores["vector_core_num"])


class Limited(torch.nn.Module):
    def forward(self, x):
        mm_result = torch.mm(x, x)
        with torchair.scope.limit_core_num(CUBE, VECTOR):
            add_result = torch.add(x, x)
        return mm_result, add_result


config = CompilerConfig()
config.mode = "reduce-overhead"
backend = torchair.get_npu_backend(compiler_config=config)
model = torch.compile(Model(), backend=backend, dynamic=False, fullgraph=True)
for _ in range(3):
    in1, in2, in3, in4 = (torch.randn(100, 100) for _ in range(4))
    got = model(in1.npu(), in2.npu(), in3.npu(), in4.npu())
    for one, want in zip(got, (in1 + in2, in3 @ in4, in3 @ in4, in3 + in4)):
        assert torch.allclose(one.cpu(), want, atol=1e-3)
limited = torch.compile(Limited(), backend=backend, dynamic=False, fullgraph=True)
for _ in range(3):
    x = torch.randn(3, 3)
    got = limited(x.npu())
    assert torch.allclose(got[0].cpu(), x @ x, atol=1e-5) and torch.equal(got[1].cpu(), x + x)
print("fine")
