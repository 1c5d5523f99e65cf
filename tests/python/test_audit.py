"""What a careless or hostile caller meets: names with control characters, full disks, dlclose."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LIBRARY = ROOT / "build/release/libweir.so"
COMMAND = ROOT / "build/release/weir"

sanitized = pytest.mark.skipif(
    "san" in os.environ.get("LD_PRELOAD", ""), reason="the release build's own files are tested"
)
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason="there is no release build here")


def python(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=50,
        **kwargs,
    )


# ---- the library and the process ----


@sanitized
@needs_library
def test_the_library_may_be_closed_after_its_default_device_was_used():
    result = python(
        f"""
        import ctypes, _ctypes, time
        lib = ctypes.CDLL({str(LIBRARY)!r})
        device, t = ctypes.c_void_p(), ctypes.c_void_p()
        assert lib.weir_device_default(ctypes.byref(device)) == 0
        for _ in range(100):
            n = (ctypes.c_int64 * 1)(1000)
            assert lib.weir_tensor_empty(None, 0, 1, n, ctypes.byref(t)) == 0
            assert lib.weir_fill(t, ctypes.c_double(1)) == 0
        _ctypes.dlclose(lib._handle)
        time.sleep(0.3)
        print("alive")
        """
    )
    assert result.returncode == 0 and result.stdout == "alive\n", result.stderr


def test_an_interrupt_during_a_host_call_of_a_modelled_device_is_not_lost():
    result = python(
        """
        import os, signal, weir
        signal.signal(signal.SIGINT, signal.default_int_handler)
        weir.set_device("npu:a3")
        def body(inputs, outputs):
            os.kill(os.getpid(), signal.SIGINT)
            [0 for _ in range(100000)]
        (y,) = weir.host_call("body", body, [weir.ones((1,))], [("float32", (1,))])
        try:
            y.item()
        except BaseException as error:
            print(type(error).__name__)
        """
    )
    assert result.stdout == "KeyboardInterrupt\n", result.stdout + result.stderr


# ---- the command ----

HOSTILE = r"""
node {
  name: "a\033]0;owned\007\033[2J"
  op: "Kernel"
  attr { key: "us_per_block" value { f: 1 } }
  attr { key: "_user_stream_label" value { s: "s\033[31m\233" } }
}
"""


@sanitized
@needs_library
@pytest.mark.parametrize("command", [["run"], ["check"], ["advise"], ["tune"], ["run", "--device", "x"]])
def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path, command):
    path = tmp_path / "hostile.pbtxt"
    path.write_text(HOSTILE)
    result = subprocess.run(
        [COMMAND, command[0], path, *command[1:]], capture_output=True, timeout=60
    )
    for byte in result.stdout + result.stderr:
        assert byte in b"\n\t" or 0x20 <= byte != 0x7F, result
    assert b"\xc2\x9b" not in result.stdout


@sanitized
@needs_library
def test_a_full_disk_is_named_and_the_old_file_stays(tmp_path):
    graph = tmp_path / "graph.pbtxt"
    graph.write_text('node { name: "a" op: "Kernel" attr { key: "us_per_block" value { f: 1 } } }')
    result = subprocess.run(
        [COMMAND, "tune", graph, "-o", "/dev/full"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1 and "No space left on device" in result.stderr, result.stderr
