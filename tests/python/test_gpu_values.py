"""Tensors on a device whose memory is not the host's: the GPU that tests/cuda/fake is."""

import os
import pathlib
import subprocess
import sys

import pytest

BUILDS = pathlib.Path(__file__).parents[2] / "build"

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 6))

SCRIPT = """
import numpy as np
import weir

a = np.arange(6, dtype=np.float32).reshape(2, 3)
t = weir.tensor(a)
assert t.device.dlpack_device == t.__dlpack_device__() == (2, 0)
assert t.tolist() == a.tolist() and t.numpy().tolist() == a.tolist()
assert t.T.tolist() == a.T.tolist() and t[1, 1:].numpy().tolist() == [4, 5]
assert (t @ t.T + 1).tolist() == (a @ a.T + 1).tolist()
for dtype in (weir.bfloat16, weir.float16, weir.int64, weir.int32, weir.int8, weir.uint8):
    assert t.cast(dtype).tolist() == a.tolist() and t.cast(dtype).numpy().tolist() == a.tolist()
assert (t > 2).tolist() == (a > 2).tolist() and t[1, 2].item() == 5
assert weir.empty((0, 3)).tolist() == [] and weir.empty((2, 0)).numpy().shape == (2, 0)
assert "cuda:0" in repr(t) and "[[0, 1, 2]" in repr(t)
assert weir.asarray(a).tolist() == a.tolist() and weir.asarray([1, 2]).tolist() == [1, 2]
host = t.to(weir.Device("cpu:cores=1"))
assert host.device.dlpack_device == (1, 0) and host.tolist() == a.tolist()
assert host.to(t.device).tolist() == a.tolist() and weir.zeros((2, 3)).copy_(host).tolist() == a.tolist()
assert weir.zeros((2,)).write_from(np.float32([1, 2]).tobytes()).tolist() == [1, 2]
for act, kind, text in (
    (lambda: weir.from_numpy(a), weir.UnavailableError, "copy it to the device"),
    (lambda: memoryview(t), BufferError, "no host memory"),
    (lambda: t.__dlpack__(dl_device=(1, 0)), BufferError, "(2, 0)"),
    (lambda: t.read_into(bytearray(3)), ValueError, "24"),
    (lambda: weir.from_dlpack(a), weir.Error, "device type 1"),
    (lambda: host.device.default_stream().native, weir.UnavailableError, "cuda"),
):
    try:
        act()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
back = weir.from_dlpack(t)
assert back.data_ptr() == t.data_ptr()
del t
assert (back + 1).tolist() == (a + 1).tolist()
s = weir.Stream()
with weir.stream(s):
    free = s.native
    with weir.scope.limit_core_num(16, 16):
        assert s.native != free
        with weir.scope.limit_core_num(*s.get_limit()):
            assert s.native == free
    assert s.native == free
    s.set_limit(16, 16)
    assert s.native != free > 0
    x = weir.ones((4,))
    s.signal_native(0)
    s.wait_native(0)
    assert (x + 1).tolist() == [2, 2, 2, 2]
start, end = weir.Event(True), weir.Event(True)
start.record()
back * 2
end.record()
assert start.elapsed_time(end) >= 0 and end.query() and weir.current_stream().query()
assert weir.compile(lambda x, y: x @ y + 1)(back, back.T).tolist() == (a @ a.T + 1).tolist()
assert weir.memory_allocated() > 0
print("fine")
"""


def run(code, timeout=60):
    """On the fake GPU, in a process of its own. -> what it prints"""
    pytest.importorskip("numpy")
    fakes = [BUILDS / name / "tests/libfake_cuda.so" for name in ("release", "rel")]
    fake = next((path for path in fakes if path.exists()), None)
    if fake is None:
        pytest.skip("the fake GPU is not built here")
    names = ("WEIR_LIBCUDA", "WEIR_LIBNVRTC", "WEIR_LIBCUBLASLT")
    env = {**os.environ, **dict.fromkeys(names, str(fake)), "WEIR_DEVICE": "cuda:0"}
    env["WEIR_CACHE_DIR"] = "/dev/null/cache"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=timeout,
        cwd=pathlib.Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_values_streams_and_events():
    assert run(SCRIPT) == "fine\n"


def test_random_layers_and_graphs_give_what_the_host_gives():
    code = f"""
import gpu_graphs, random_graphs
found = []
for seed in range({COUNT}):
    found += gpu_graphs.try_seed(seed)[1] + random_graphs.try_seed(seed, ["cuda:0"])[1]
print("\\n".join(found) or "fine")
"""
    assert run(code, 200) == "fine\n"
