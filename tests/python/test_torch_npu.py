"""torch.npu as programs written for torch_npu use it, on cpu and on the modelled NPU: devices,
streams, events, memory, ranks."""

import os
import socket
import subprocess
import sys

import pytest

import weir
from weir import compat

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

DEVICES = [compat.DEFAULT_DEVICE, "npu:a3"]
if torch.cuda.is_available():
    pytest.skip("here the NPU is the GPU: see test_cuda.py", allow_module_level=True)


@pytest.fixture(params=DEVICES)
def npu(request):
    before = weir.get_device()
    weir.set_device(request.param)
    compat.install()
    import torch_npu

    yield torch_npu.npu
    weir.set_device(before)


def run_scripts(text, device, *environments):
    """What the script prints in compat runs of its own, one for each environment, at once."""
    command = [sys.executable, "-m", "weir.compat", "--device", device, "-"]
    started = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, OMP_NUM_THREADS="1", **env),
        )
        for env in environments
    ]
    for process in started:
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
    told = [process.communicate(timeout=200) for process in started]
    for process, (_, errors) in zip(started, told):
        assert process.returncode == 0, errors
    return [out for out, _ in told]


# ---- memory ----


def test_tensors_moved_to_the_npu_or_made_there_are_counted_until_they_die(npu):
    before = npu.memory_allocated()
    on_host = torch.ones(1000)
    assert npu.memory_allocated() == before
    moved = on_host.npu()
    assert npu.memory_allocated() - before == 4096  # 4,000 bytes in blocks of 512
    made = torch.zeros(256, device="npu:0")
    assert npu.memory_allocated() - before == 4096 + 1024
    assert npu.memory_allocated() - npu.memory_reserved() <= 0
    view = moved[:10]
    del moved
    assert npu.memory_allocated() - before == 4096 + 1024  # its storage lives
    del view, made
    assert npu.memory_allocated() == before


def test_a_module_is_counted_once_on_the_npu(npu):
    before = npu.memory_allocated()
    model = torch.nn.Linear(128, 128, bias=False)
    model.npu().npu().to("npu")
    assert npu.memory_allocated() - before == 128 * 128 * 4
    model.cpu()
    assert npu.memory_allocated() == before


def test_memory_stats_have_the_keys_of_torch_npu(npu):
    npu.reset_peak_memory_stats()
    start = npu.memory_stats()["allocated_bytes.all.current"]
    assert start == npu.memory_allocated()
    x = torch.empty(1 << 18, device="npu")
    del x
    stats = npu.memory_stats()
    assert stats["allocated_bytes.all.current"] == start
    assert stats["allocated_bytes.all.peak"] == start + (1 << 20) == npu.max_memory_allocated()
    assert stats["reserved_bytes.all.peak"] >= stats["allocated_bytes.all.peak"]
    for name in ("allocation", "segment", "active", "active_bytes", "inactive_split_bytes"):
        for metric in ("current", "peak", "allocated", "freed"):
            assert stats[f"{name}.all.{metric}"] >= 0
    assert stats["num_ooms"] == stats["num_alloc_retries"] == 0
    nested = npu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["peak"] == stats["allocated_bytes.all.peak"]
    allocated = stats["allocation.all.allocated"]
    npu.reset_accumulated_memory_stats()
    assert npu.memory_stats()["allocation.all.allocated"] < allocated
    npu.reset_peak_memory_stats()
    assert npu.max_memory_allocated() == npu.memory_allocated()


@pytest.mark.parametrize("empty_cache", [weir.npu.empty_cache, weir.hal.empty_cache])
def test_the_cache_is_empty_right_after_work(npu, empty_cache):
    x = weir.ones((512, 512))
    y = x @ x
    assert weir.memory_reserved() > 0
    del x, y  # while the product may still run
    empty_cache()
    assert weir.memory_reserved() == 0


# ---- tensors ----


def test_a_copy_on_the_npu_does_not_change_with_the_original(npu):
    x = torch.zeros(3)
    y = x.npu()
    x += 1
    assert y.tolist() == [0, 0, 0] and y.npu() is y and y.to("npu") is y
    z = y.cpu()
    y += 5
    assert z.tolist() == [0, 0, 0]
    w = torch.zeros(2, requires_grad=True)
    w.npu().sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_memory_can_be_pinned(npu):
    x = torch.ones(4)
    y = x.pin_memory()
    assert y.is_pinned() and y.pin_memory() is y and y[1:].is_pinned() and not x.is_pinned()
    assert torch.equal(x, y)
    assert torch.empty(3, pin_memory=True).is_pinned()
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert torch.cat(batches).tolist() == list(range(8)) and batches[0].is_pinned()


def test_the_accelerator_is_the_npu(npu):
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.current_device_index() == 0
    assert torch.accelerator.current_stream() == npu.current_stream()
    stream = npu.Stream()
    torch.accelerator.set_stream(stream)
    assert npu.current_stream() == stream
    npu.set_stream(npu.default_stream())
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated() == npu.memory_allocated()
    assert torch.accelerator.device_count() == npu.device_count()


def test_importing_torch_is_enough():
    text = "import torch\nprint(torch.nn.Linear(2, 2).npu().weight.is_npu, torch.npu.is_available())"
    assert run_scripts(text, compat.DEFAULT_DEVICE, {}) == ["True True\n"]


# ---- streams and events ----


def test_streams_say_where_they_are(npu):
    default, s = npu.default_stream(), npu.Stream()
    assert default.stream_id == 0 and s.stream_id > 0
    assert s.device == torch.device("npu:0") and s.device_index == 0
    assert "torch_npu.npu.Stream device=npu:0" in repr(s)
    same = npu.Stream(stream_id=s.stream_id, device_index=0, device_type=s.device_type)
    assert same == s and hash(same) == hash(s)
    assert npu.Stream(stream_id=0, device_index=0, device_type=20) == default
    for wrong in ({"stream_id": 99999}, {"device_index": 99}, {"device_type": 1}):
        with pytest.raises(RuntimeError):
            npu.Stream(**{"stream_id": s.stream_id, "device_index": 0, "device_type": 20, **wrong})


def test_events_say_when_they_were_recorded(npu):
    first, second = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
    assert repr(first) == "<torch_npu.npu.Event uninitialized>"
    with pytest.raises(RuntimeError, match="never recorded"):
        first.recorded_time()
    first.record()
    assert repr(first).startswith("<torch_npu.npu.Event 0x")
    y = weir.ones((256, 256)) @ weir.ones((256, 256))
    second.record()
    times = first.recorded_time(), second.recorded_time()
    assert all(isinstance(t, int) and t > 0 for t in times) and times[1] > times[0]
    assert (times[1] - times[0]) / 1e6 == pytest.approx(first.elapsed_time(second), abs=1e-3)
    assert first.device == torch.device("npu:0")
    assert npu.Event(external=True).external and not npu.Event().external
    del y


def test_an_external_event_must_be_recorded_before_a_wait(npu):
    event = npu.ExternalEvent()
    with pytest.raises(RuntimeError, match="nothing has recorded"):
        event.wait()
    event.record()
    event.wait(npu.Stream())
    event.reset()
    assert repr(event) == "<torch_npu.npu.ExternalEvent uninitialized>"
    with pytest.raises(RuntimeError, match="nothing has recorded"):
        event.wait()


# ---- several NPUs, several ranks ----


def test_another_number_is_another_npu(npu):
    first = weir.get_device()
    with pytest.raises(RuntimeError, match="there is no 'npu:1': there is one NPU here"):
        npu.current_stream("npu:1")
    try:
        npu.set_device(1)
        second = weir.get_device()
        assert second is not first and second.name == first.name
        assert npu.current_device() == 1 and npu.device_count() == 2
        assert npu.Stream().device == torch.device("npu:1")
        before = npu.memory_allocated(0)
        x = torch.ones(128, device="npu:1")
        assert npu.memory_allocated(1) >= 512 and npu.memory_allocated(0) == before
        with npu.device(0):
            assert weir.get_device() is first and npu.current_device() == 0
        assert npu.current_device() == 1
        with pytest.raises(RuntimeError, match=r"number 99 is out of range \[0, 16\)"):
            npu.set_device(99)
        del x
    finally:
        npu.set_device(0)
    assert weir.get_device() is first


RANKS = """
import os, torch, torch_npu
import torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
x = torch.full((4,), rank + 1.0).npu()
dist.all_reduce(x)
group = dist.new_group([0, 1], backend="hccl")
dist.all_reduce(x, group=group)
parts = torch.empty(2, device=f"npu:{rank}")
dist.all_gather_into_tensor(parts, x[:1] + rank)
dist.barrier(device_ids=[rank])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1).npu(), device_ids=[rank])
model(x).sum().backward()
print((x.tolist(), parts.tolist(), dist.get_backend(), torch.npu.current_device(),
       torch.npu.device_count()))
dist.destroy_process_group()
"""


def test_ranks_of_a_job_have_an_npu_each_and_talk_over_hccl(tmp_path):
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        job["MASTER_PORT"] = str(free.getsockname()[1])
    ranks = [{**job, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    for rank, out in enumerate(run_scripts(RANKS, "npu:a3", *ranks)):
        assert out == f"{([6.0] * 4, [6.0, 7.0], 'hccl', rank, 2)}\n"
