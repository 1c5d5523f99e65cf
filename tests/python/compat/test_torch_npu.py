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

if torch.cuda.is_available():
    pytest.skip("here the NPU is the GPU: see test_cuda.py", allow_module_level=True)


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


def test_memory_by_address_and_limits_of_the_pool(npu):
    before = npu.memory_allocated()
    address = npu.caching_allocator_alloc(1000)
    assert address > 0 and npu.memory_allocated() >= before + 1000
    npu.caching_allocator_delete(address)
    assert npu.memory_allocated() == before
    with pytest.raises(RuntimeError, match="was not allocated here"):
        npu.caching_allocator_delete(address)
    npu.set_per_process_memory_fraction(0.25)
    assert npu.get_per_process_memory_fraction() == 0.25
    npu.set_per_process_memory_fraction(1.0)
    for wrong, kind in ((1, TypeError), (-0.1, ValueError), (2.0, ValueError)):
        with pytest.raises(kind):
            npu.set_per_process_memory_fraction(wrong)


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


# ---- streams and events ----


def test_streams_have_pytorchs_device(npu):
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


def test_events_return_their_recorded_time(npu):
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


def test_a_compiled_function_moves_and_makes_tensors_on_any_npu(npu):
    torch._dynamo.reset()
    backend = weir.get_npu_backend()

    @torch.compile(backend=backend, fullgraph=True)
    def f(x, where):
        y = x.npu(where) + torch.zeros(2, device=where)
        return y.to("npu").cpu() + torch.arange(2, device="npu")

    try:
        assert f(torch.ones(2), "npu:0").tolist() == [1, 2]
        npu.set_device(1)
        assert f(torch.ones(2), "npu:1").tolist() == [1, 2]
    finally:
        npu.set_device(0)


def test_numbers_of_devices_are_checked(npu, monkeypatch):
    assert not npu.can_device_access_peer(0, 0)
    with pytest.raises(AssertionError, match="Invalid peer device id"):
        npu.can_device_access_peer(0, -1)
    for wrong in ("0", 0.0, None, True):
        with pytest.raises(TypeError, match="device must be an int"):
            npu.set_device_limit(wrong)
        with pytest.raises(TypeError, match="device must be an int"):
            npu.get_device_limit(wrong)
    assert npu.get_device_capability() is None
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "9.0")
    assert npu.get_device_capability("npu:0") == (9, 0)
    properties = npu.get_device_properties(0)
    assert properties.cube_core_num == 24 and properties.major is properties.warp_size is None
    assert npu._get_device_index("npu:0") == npu._get_device_index(None, optional=True) == 0
    with pytest.raises(RuntimeError, match="Invalid device string"):
        npu._get_device_index("npu0", optional=True)
    with pytest.raises(ValueError, match="Expected a npu device"):
        npu._get_device_index(torch.device("cpu"), optional=True)


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


# ---- the rest of torch_npu ----


def test_the_profiler_is_a_trace_of_the_steps_that_are_scheduled(npu, tmp_path):
    import torch_npu

    prof = torch_npu.profiler
    seen = []
    with prof.profile(
        activities=[prof.ProfilerActivity.CPU, prof.ProfilerActivity.NPU],
        schedule=prof.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1),
        on_trace_ready=lambda p: seen.append(len(p.trace.named("Swiglu"))),
        experimental_config=prof._ExperimentalConfig(profiler_level=prof.ProfilerLevel.Level1),
    ) as profile:
        for _ in range(8):
            torch_npu.npu_swiglu(torch.ones(2, 4, device="npu"))
            profile.step()
    assert seen == [2]
    with prof.profile(on_trace_ready=prof.tensorboard_trace_handler(str(tmp_path), "me")):
        torch_npu.npu_swiglu(torch.ones(2, 4, device="npu"))
    (written,) = tmp_path.glob("me_*_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json")
    assert "Swiglu" in written.read_text()


def test_smaller_names_of_torch_npu(npu):
    import torch_npu
    import torch_npu.npu.amp

    assert torch_npu.__version__ == torch.__version__.partition("+")[0]
    x = torch.ones(4, device="npu")
    assert torch_npu.npu_prefetch(x, None, 16) is None
    with pytest.raises(RuntimeError, match="max_size must be positive, not -1"):
        torch_npu.npu_prefetch(x, None, -1)
    a = torch.tensor([[1, -2], [3, 4]], dtype=torch.int8)
    made = torch_npu.npu_quant_matmul(
        a, a, torch.tensor([0.5, 1.0]), pertoken_scale=torch.tensor([1.0, 2.0]),
        output_dtype=torch.float16,
    )  # fmt: skip
    assert made.tolist() == [[-2.5, -10.0], [15.0, 20.0]] and made.dtype == torch.float16
    with pytest.raises(NotImplementedError, match="no scale of packed int64"):
        torch_npu.npu_quant_matmul(a, a, torch.ones(2, dtype=torch.int64))
    with torch_npu.npu.amp.autocast(dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert npu.FloatTensor([1, 2]).tolist() == [1, 2]
    npu.set_sync_debug_mode("warn")
    assert npu.get_sync_debug_mode() == 1
    npu.set_sync_debug_mode(0)
    with pytest.raises(RuntimeError, match="not one of default, warn, error"):
        npu.set_sync_debug_mode("loud")
    npu.super_kernel_scope_begin("one")
    npu.super_kernel_scope_end("one")
    with pytest.raises(RuntimeError, match="without super_kernel_scope_begin"):
        npu.super_kernel_scope_end()
    state = npu.get_rng_state()
    first = torch.rand(3, device="npu")
    npu.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="npu"), first)


def test_products_of_int8_are_exact_with_scales_offsets_and_biases(npu):
    import torch_npu

    def product(a, b, scale, way):
        return torch_npu.npu_quant_matmul(a, b, scale, **way)

    draw = torch.Generator().manual_seed(0)
    scale, each = torch.rand(40, generator=draw) / 512, torch.rand(17, generator=draw)
    whole = torch.randint(-9999, 9999, (40,), generator=draw, dtype=torch.int32)
    ways = [
        {"output_dtype": torch.int32},
        {"output_dtype": torch.int32, "bias": whole},
        {"bias": whole, "offset": torch.full((40,), 3.0)},
        {"pertoken_scale": each, "output_dtype": torch.float32, "bias": whole.float()},
        {"pertoken_scale": each, "output_dtype": torch.bfloat16},
    ]
    for shape in ((17, 300), (2, 17, 300)):
        torch._dynamo.reset()
        compiled = torch.compile(product, backend="weir", fullgraph=True)
        # The largest products that there are: f32 would round their sums.
        a, b = (torch.randint(-128, 128, s, generator=draw, dtype=torch.int8) for s in (shape, (300, 40)))
        a[..., :150], b[:150] = -128, -128
        for way in ways:
            sums = (a.double() @ b.double()).to(torch.int32)  # exact: far below 2 ** 53
            want = sums + way["bias"] if way.get("bias") is whole else sums
            if way.get("output_dtype") is not torch.int32:
                want = want.float() * scale
                if "pertoken_scale" in way:
                    want = want * each[:, None]
                if way.get("bias") is not None and way["bias"] is not whole:
                    want = want + way["bias"]
                if "offset" in way:
                    want = (want + way["offset"]).round().clamp(-128, 127)
                want = want.to(way.get("output_dtype", torch.int8))
            for call in (product, compiled):
                got = call(a, b, scale, way)
                assert got.dtype == want.dtype and torch.equal(got, want), (shape, way)


def test_torchair_compiles_for_the_cache_and_for_gears(npu):
    import torchair
    from torchair.inference import cache_compile, set_dim_gears

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cached = cache_compile(self.inner, config=torchair.CompilerConfig())

        def inner(self, x):
            return torch.relu(x) + 1

        def forward(self, x):
            return self.cached(x)

    x = torch.tensor([-1.0, 2.0])
    set_dim_gears(x, {0: [2, 4]})
    with pytest.raises(AssertionError, match="not one of"):
        set_dim_gears(x, {0: [3]})
    assert Model()(x).tolist() == [1, 3]
    torchair.patch_for_hcom()
    model = torch.nn.Linear(2, 2)
    assert torchair.use_internal_format_weight(model) is model


def test_tensors_are_printed_where_they_are_computed(npu, capfd):
    import torchair

    torch._dynamo.reset()

    @torch.compile(backend="npu", fullgraph=True)
    def show(x):
        y = x + 1
        torchair.ops.npu_print("sum:", y, "of", 2, tensor_detail=True)
        return y * 2

    assert show(torch.arange(10).npu()).tolist() == list(range(2, 22, 2))
    npu.synchronize()
    line = "sum: tensor([ 1  2  3 ...  8  9 10], shape=[10], dtype=torch.int64) of 2\n"
    assert capfd.readouterr().out == line
    torchair.ops.npu_print(torch.arange(8), summarize_size=-1)
    assert capfd.readouterr().out == "[0 1 2 3 4 5 6 7]\n"
    with pytest.raises(ValueError, match="must be a tensor"):
        torchair.ops.npu_print("nothing")


TRANSFER = """
import torch
assert torch.ones(2).npu().is_npu and torch.npu.is_available()  # nobody imported torch_npu
from torch_npu.contrib import transfer_to_npu
import torch.distributed as dist

model = torch.nn.Linear(2, 2).cuda()
x = torch.ones(3, 2, device="cuda:0")
y = model(x.to("cuda"))
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    assert torch.cuda.current_stream() == s == torch.npu.current_stream()
torch.cuda.synchronize()
dist.init_process_group("nccl", init_method=f"file://{PATH}", rank=0, world_size=1)
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.memory_allocated() > 0,
      dist.get_backend(), y.shape)
dist.destroy_process_group()
"""


def test_importing_torch_is_enough_and_a_script_for_cuda_finds_the_npu(tmp_path):
    text = f"PATH = {str(tmp_path / 'store')!r}\n{TRANSFER}"
    (out,) = run_scripts(text, "npu:a3", {})
    assert out == "True 1 True hccl torch.Size([3, 2])\n"
