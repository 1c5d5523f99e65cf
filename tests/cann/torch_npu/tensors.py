"""Copies, streams, events, memory and limits of the real torch_npu."""
import torch
import torch_npu  # noqa: F401

assert torch.npu.is_available() and torch.npu.device_count() >= 1
x = torch.arange(1000, dtype=torch.float32)
y = x.npu()
assert y.device.type == "npu" and torch.equal(y.cpu(), x)
assert torch.equal((y + y).cpu(), x + x)
assert torch.equal(y[10:20].cpu(), x[10:20]) and torch.equal(y.view(10, 100).t().cpu(), x.view(10, 100).t())

# Work on a second stream, ordered by an event, and freed while it may still be queued.
side = torch.npu.Stream()
for i in range(20):
    a = torch.full((256, 256), float(i)).npu()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        b = a + 1
    torch.npu.current_stream().wait_stream(side)
    b.record_stream(torch.npu.current_stream())
    c = b * 2
    del a, b
    assert (c.cpu() == 2 * (i + 1)).all()

begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
begin.record()
torch.mm(torch.randn(256, 256).npu(), torch.randn(256, 256).npu())
end.record()
end.synchronize()
assert begin.elapsed_time(end) > 0 and end.query()

limit = torch.npu.get_stream_limit(side)
torch.npu.set_stream_limit(side, 1, 1)
assert torch.npu.get_stream_limit(side) == {"cube_core_num": 1, "vector_core_num": 1}
torch.npu.reset_stream_limit(side)
assert torch.npu.get_stream_limit(side) == limit

held = torch.npu.memory_allocated()
big = torch.empty(1 << 20, dtype=torch.float32, device="npu")
assert torch.npu.memory_allocated() >= held + (4 << 20)
del big
assert torch.npu.memory_allocated() == held
torch.npu.empty_cache()
free, total = torch.npu.mem_get_info()
assert 0 < free <= total
print("fine")
