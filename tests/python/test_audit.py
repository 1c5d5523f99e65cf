"""What a careless or hostile caller meets: NULL, names with control characters, full disks, signals."""

import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

import pytest

import weir

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


# ---- NULL ----

# (function or *, parameter): NULL means something there.
OPTIONAL = {
    ("*", "options"), ("*", "user"), ("*", "strides"), ("*", "native"), ("*", "bias"), ("*", "mask"),
    ("weir_device_open", "spec"), ("weir_device_close", "dev"), ("weir_graph_load", "where"), ("weir_graph_add", "name"),
    ("weir_tensor_wrap", "release"), ("weir_tensor_empty", "stream"), ("weir_tensor_from", "stream"), ("weir_tensor_wrap", "stream"),
    ("weir_tensor_from_dlpack", "stream"), ("weir_tensor_from_dlpack_versioned", "stream"),
    ("weir_arange", "stream"), ("weir_group_abort", "reason"), ("weir_trace_parse", "path"),
    ("weir_log_set", "fn"), ("weir_allocator_set", "allocator"), ("weir_source_set", "file"),
    ("weir_trace_write_html", "titles"), ("weir_stream_destroy", "stream"),
    ("weir_event_destroy", "event"), ("weir_group_destroy", "group"), ("weir_kernel_fail", "reason"),
    ("weir_layer_norm", "weight"), ("weir_rms_norm", "weight"), ("weir_stream_begin_native", "name"),
    ("weir_tensor_write", "data"), ("weir_tensor_read", "data"), ("weir_tensor_write_async", "data"),
    ("weir_tensor_read_async", "data"),  # of no bytes
    ("weir_plan_run", "inputs"), ("weir_plan_run", "outputs"), ("weir_plan_call", "inputs"),
    ("weir_plan_call", "outputs"), ("weir_tape_add", "inputs"), ("weir_tape_add", "outputs"),
    ("weir_graph_add", "attrs"), ("weir_graph_add", "in"),
    ("weir_graph_add", "out"),  # none of them
    ("weir_topk", "values"), ("weir_topk", "indices"), ("weir_sort", "values"),
    ("weir_sort", "indices"), ("weir_nonzero_padded", "count"), ("weir_cummax", "values"),
    ("weir_cummax", "indices"), ("weir_cummin", "values"), ("weir_cummin", "indices"),
    ("weir_scope_push_super_kernel", "name"), ("weir_scope_enter_super_kernel", "name"),
    ("weir_expert_sum", "weights"),  # ones
    ("weir_scatter_from", "x"),  # elsewhere than at the root
    ("weir_compile_mode_parse", "name"), ("weir_stream_placement_parse", "name"),
    ("weir_graph_describe", "module"), ("weir_graph_describe", "source"),
}  # fmt: skip
# Reductions over all dims.
OPTIONAL |= {(f"weir_{n}", "dims") for n in ("sum", "mean", "max", "min", "prod", "any", "all")}


class Cores(ctypes.Structure):
    _fields_ = [("cube", ctypes.c_int), ("vector", ctypes.c_int)]


def declarations():
    """(returned, name, [(type, parameter)]) of every function of the headers."""
    text = subprocess.run(
        ["cc", "-E", "-P", f"-I{ROOT}/include", str(ROOT / "include/weir/weir.h")],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    text = re.sub(r"__attribute__\s*\(\(\s*warn_unused_result\s*\)\)", "", " ".join(text.split()))
    found = []
    pattern = r'__attribute__\s*\(\(visibility\("default"\)\)\)\s*([^;{}]*?)(weir_\w+)\s*\(([^;{}]*)\)\s*(?:__attribute__[^;]*)?;'
    for returned, name, parameters in re.findall(pattern, text):
        split, depth, part = [], 0, ""
        for c in parameters + ",":
            depth += (c == "(") - (c == ")")
            if c == "," and not depth:
                split.append(part.strip())
                part = ""
            else:
                part += c
        pairs = []
        for p in split:
            if p in ("void", ""):
                continue
            m = re.match(r"(.*)\(\*(\w+)\)", p) or re.match(r"(.*?)(\w+)$", p)
            pairs.append((m[1].strip() + (" (*)" if "(*" in p else ""), m[2]))
        found.append((returned.strip(), name, pairs))
    return found


def call(lib, objects, returned, name, pairs, absent):
    """What the call gives with one argument NULL and all others of some use."""
    arguments = []
    for at, (kind, parameter) in enumerate(pairs):
        pointer = "*" in kind
        if at == absent:
            arguments.append(ctypes.c_void_p(None))
        elif pointer and (name, parameter) in OPTIONAL or ("*", parameter) in OPTIONAL:
            arguments.append(ctypes.c_void_p(None))
        elif pointer and kind.replace("const ", "").strip() in objects:
            arguments.append(objects[kind.replace("const ", "").strip()])
        elif pointer and "char" in kind:
            arguments.append(ctypes.c_char_p(b"x"))
        elif pointer and "**" in kind:
            arguments.append(ctypes.cast(objects["results"], ctypes.c_void_p))
        elif pointer:
            arguments.append(ctypes.cast(objects["room"], ctypes.c_void_p))
        elif kind == "double":
            arguments.append(ctypes.c_double(1))
        elif kind == "weir_cores":
            arguments.append(Cores(1, 1))
        else:
            arguments.append(ctypes.c_int64(1))
    function = getattr(lib, name)
    function.restype = ctypes.c_int if returned == "weir_status" else ctypes.c_void_p
    if returned in ("weir_cores", "weir_scope_guard"):
        function.restype = Cores
    return function(*arguments)


@sanitized
@needs_library
def test_every_public_function_refuses_null():
    lib = ctypes.CDLL(str(LIBRARY))
    made = {}

    def make(function, *arguments):
        out = ctypes.c_void_p()
        assert getattr(lib, function)(*arguments, ctypes.byref(out)) == 0, function
        return out

    device = make("weir_device_open", b"cpu:cores=1")
    lib.weir_stream_default.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(lib.weir_stream_default(device))
    made["weir_device *"] = device
    made["weir_stream *"] = stream
    made["weir_event *"] = make("weir_event_create", device, None)
    shape = (ctypes.c_int64 * 2)(1, 1)
    made["weir_tensor *"] = make("weir_tensor_empty", stream, 0, 2, shape)
    made["weir_graph *"] = make("weir_graph_create", device)
    made["results"] = (ctypes.c_int64 * 64)()
    made["room"] = (ctypes.c_int64 * 4096)(*[1] * 4096)
    group = make("weir_group_create", ctypes.byref(device), 1, None)
    lib.weir_group_rank.restype = ctypes.c_void_p
    made["weir_group *"] = group
    made["weir_rank *"] = ctypes.c_void_p(lib.weir_group_rank(group, 0))
    lib.weir_fill(made["weir_tensor *"], ctypes.c_double(0))
    lib.weir_device_sync(device)

    listed = declarations()
    assert len(listed) > 200
    wrong = []
    for returned, name, pairs in listed:
        if not hasattr(lib, name):
            continue
        for at, (kind, parameter) in enumerate(pairs):
            if "*" not in kind or (name, parameter) in OPTIONAL or ("*", parameter) in OPTIONAL:
                continue
            pid = os.fork()
            if pid == 0:
                signal.alarm(5)
                status = 0
                try:
                    status = call(lib, made, returned, name, pairs, at)
                finally:
                    os._exit(status & 0x7F if returned == "weir_status" else 1)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code != 1:  # WEIR_EINVAL
                wrong.append(f"{name}({parameter}=NULL): {code}")
    assert not wrong, "\n".join(wrong)


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


HOST_CALL = """
    import os, signal, weir
    signal.signal(signal.SIGINT, signal.default_int_handler)
    weir.set_device("{device}")
    def body(inputs, outputs):
        {body}
    (y,) = weir.host_call("body", body, [weir.ones((1,))], [("float32", (1,))])
    try:
        y.item()
    except BaseException as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("device", ["cpu", "npu:a3"])
def test_an_exception_in_a_host_call_is_in_the_error(device):
    result = python(HOST_CALL.format(device=device, body="raise ValueError('seven is too many')"))
    assert "KernelError" in result.stdout and "ValueError: seven is too many" in result.stdout


def test_an_interrupt_during_a_host_call_of_a_modelled_device_is_not_lost():
    body = "os.kill(os.getpid(), signal.SIGINT); [0 for _ in range(1000000)]"
    result = python(HOST_CALL.format(device="npu:a3", body=body))
    assert result.stdout.startswith("KeyboardInterrupt"), result.stdout + result.stderr


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
