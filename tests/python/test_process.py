"""The process around it: fork, exit with work in flight, Ctrl-C."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import weir


def python(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=50,
        **kwargs,
    )


def test_the_child_of_a_fork_opens_a_device_of_its_own():
    t = weir.ones((4,))
    for _ in range(100):
        t + 1
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            try:
                t + 1
            except RuntimeError as error:
                code = 0 if "forked" in str(error) else 2
            if (weir.ones((2,)) + 1).tolist() != [2, 2]:
                code = 3
            del t
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (t + 1).tolist() == [2] * 4


def test_multiprocessing_by_fork():
    result = python(
        """
        import multiprocessing, weir
        def work(n):
            return (weir.ones((n,)) + n).tolist()
        weir.ones((1,)).item()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, [1, 2, 3]))
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[[2.0], [3.0, 3.0], [4.0, 4.0, 4.0]]"


def test_leaving_with_work_in_flight_waits_for_it():
    result = python(
        """
        import time, weir
        def late(i, o):
            time.sleep(0.2)
            print("done", flush=True)
        with weir.stream(weir.Stream()):
            x = weir.host_call("late", late, [weir.ones((1,))], [("float32", (1,))])[0]
        import numpy as np
        a = np.ones(1 << 22, np.float32)
        for _ in range(20):
            weir.from_numpy(a) * 2
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n" and result.stderr == ""


def test_ctrl_c_ends_a_wait():
    # A shell that runs tests in the background leaves Ctrl-C ignored.
    code = """
        import signal, time, weir
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = weir.host_call("long", lambda i, o: time.sleep(3), [weir.ones((1,))],
                           [("float32", (1,))])[0]
        print("waiting", flush=True)
        began = time.perf_counter()
        try:
            weir.synchronize()
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - began < 2, flush=True)
        print(x.item() == x.item())
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    assert out.splitlines()[0] == "interrupted True"


def test_a_stuck_wait_still_times_out():
    result = python(
        """
        import time, weir
        weir.set_device("cpu:op_timeout=1")
        x = weir.host_call("stuck", lambda i, o: time.sleep(4), [weir.ones((1,))],
                           [("float32", (1,))])[0]
        try:
            weir.synchronize()
        except TimeoutError as error:
            print(error.code)
        """
    )
    assert result.stdout.strip() == "WEIR_ETIMEDOUT", result.stderr


def test_import_is_quick_and_needs_neither_numpy_nor_torch():
    result = python(
        """
        import sys
        for name in ("numpy", "torch"):
            sys.modules[name] = None
        import weir
        assert weir.tensor([[1.0, 2.0]]).tolist() == [[1.0, 2.0]]
        assert "1" in repr(weir.ones((1,)))
        """
    )
    assert result.returncode == 0, result.stderr
