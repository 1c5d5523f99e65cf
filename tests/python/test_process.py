"""The process around it: fork, exit with work in flight, Ctrl-C."""

import os
import subprocess
import sys
import textwrap

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


forks = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="the sanitizer's own locks may be held by another thread when the process forks",
)


@forks
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


@forks
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


def test_exiting_with_work_in_flight_waits_for_it():
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


WAITS = """
    import os, signal, sys, threading, time, weir
    import numpy as np
    signal.signal(signal.SIGINT, signal.default_int_handler)
    weir.set_device("cpu:cores=2,op_timeout=60")

    graph = weir.Graph()
    fed = graph.input("x", (1,))
    with graph:
        y = fed + 1
    graph.output("y", y)
    plan = graph.compile()
    plan.bind([("float32", (1,))], [("float32", (1,))], [0], [(weir.ones, ((1,),))], [0])

    waits = {
        "device": lambda x, s: weir.synchronize(),
        "stream": lambda x, s: s.synchronize(),
        "event": lambda x, s: mark.synchronize(),
        "elapsed": lambda x, s: mark.elapsed_time(mark),
        "tensor": lambda x, s: x.synchronize(),
        "item": lambda x, s: x.item(),
        "tolist": lambda x, s: x.tolist(),
        "numpy": lambda x, s: x.numpy(),
        "repr": lambda x, s: repr(x),
        "nonzero": lambda x, s: x.nonzero(),
        "dlpack": lambda x, s: np.from_dlpack(x),
        "call": lambda x, s: plan.call_on([x]),
    }
    for name, wait in waits.items():
        go, s = threading.Event(), weir.Stream()
        mark = weir.Event(timing=True)
        with weir.stream(s):
            x = weir.host_call("stuck", lambda i, o: go.wait(), [weir.ones((1,))],
                               [("float32", (1,))])[0]
            mark.record()
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:  # nothing but the signal ends it
                wait(x, s)
                print(name, "was not interrupted")
            except KeyboardInterrupt:
                pass
        go.set()
        s.synchronize()  # the work went on, and the stream is as good as before
        with weir.stream(s):
            assert (weir.ones((1,)) + 1).item() == 2, name
    print("done")
"""


def test_ctrl_c_ends_every_kind_of_wait_and_leaves_weir_usable():
    pytest.importorskip("numpy")
    result = python(WAITS)
    assert result.stdout == "done\n" and result.returncode == 0, result.stdout + result.stderr


def test_ctrl_c_while_python_ends():
    result = python(
        """
        import os, signal, threading, time, weir
        signal.signal(signal.SIGINT, signal.default_int_handler)
        go = threading.Event()
        x = weir.host_call("stuck", lambda i, o: go.wait(), [weir.ones((1,))],
                           [("float32", (1,))])[0]
        late = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        late.daemon = True
        late.start()
        """
    )
    assert "KeyboardInterrupt" in result.stderr


@forks
def test_forks_while_other_threads_submit():
    result = python(
        """
        import os, signal, threading, weir
        graph = weir.Graph()
        fed = graph.input("x", (64, 64))
        with graph:
            y = fed @ fed + 1
        graph.output("y", y)
        plan = graph.compile()
        a, stop = weir.ones((64, 64)), threading.Event()

        def submit():
            s = weir.Stream()
            with weir.stream(s):
                while not stop.is_set():
                    plan(a @ a)
                    s.synchronize()

        threads = [threading.Thread(target=submit) for _ in range(2)]
        for t in threads:
            t.start()
        for _ in range(12):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)  # a lock that a thread of the parent held would end it so
                good = (weir.ones((8, 8)) @ weir.ones((8, 8))).sum().item() == 512
                with weir.stream(weir.Stream()):
                    good &= weir.compile(lambda x: x * 2)(weir.ones((3,))).tolist() == [2, 2, 2]
                os._exit(0 if good else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for t in threads:
            t.join()
        print((a @ a)[0, 0].item())
        """
    )
    assert result.stdout == "64.0\n" and result.returncode == 0, result.stderr


@pytest.mark.parametrize("daemon", [True, False])
def test_exiting_while_threads_submit_and_a_plan_runs_is_clean(daemon):
    result = python(
        f"""
        import threading, time, weir
        graph = weir.Graph()
        fed = graph.input("x", (64, 64))
        with graph:
            y = fed
            for _ in range(20):
                y = y @ fed
        graph.output("y", y)
        plan = graph.compile()
        a = weir.ones((64, 64)) * 0.001
        began, started = time.perf_counter(), threading.Barrier(3)

        def submit():
            started.wait()
            with weir.stream(weir.Stream()):
                while {daemon} or time.perf_counter() < began + 0.5:
                    for _ in range(8):
                        b = plan(a)
                        c = weir.host_call("f", lambda i, o: None, [b], [("float32", (1,))])
                    c[0].synchronize()  # or there would be work for minutes

        for _ in range(2):
            threading.Thread(target=submit, daemon={daemon}).start()
        plan(a)
        started.wait()
        time.sleep(0.1)
        """
    )
    assert result.returncode == 0 and result.stderr == "", result.stderr


def test_a_stuck_wait_still_times_out():
    result = python(
        """
        import threading, weir
        weir.set_device("cpu:op_timeout=1")
        gate = threading.Event()
        def stuck(inputs, outputs):
            gate.wait()
        x = weir.host_call("stuck", stuck, [weir.ones((1,))], [("float32", (1,))])[0]
        try:
            weir.synchronize()
        except TimeoutError as error:
            print(error.code)
        gate.set()
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
