"""Streams, events, limits and memory."""

import threading
import time

import numpy as np
import pytest

import weir


def test_streams_run_beside_each_other_and_events_order_them():
    a, b = weir.Stream(name="a"), weir.Stream(name="b")
    x, log, gate = weir.ones((4,)), [], threading.Event()

    def first(inputs, outputs):
        gate.wait()
        log.append("first")

    weir.synchronize()
    event = weir.Event()
    with weir.stream(a):
        weir.host_call("first", first, [x], [(x.dtype, x.shape)])
        event.record()
    with weir.stream(b):
        event.wait()
        weir.host_call("second", lambda i, o: log.append("second"), [x], [(x.dtype, x.shape)])
    assert not event.query()
    gate.set()
    b.synchronize()
    assert log == ["first", "second"] and event.query()


def test_an_event_that_was_never_recorded_is_complete():
    event = weir.Event(timing=True)
    assert event.query()
    event.wait()
    event.synchronize()
    with pytest.raises(weir.Error):
        event.elapsed_time(weir.Event(timing=True))


def test_events_measure_time():
    start, end = weir.Event(timing=True), weir.Event(timing=True)
    start.record()
    weir.host_call("slow", lambda i, o: time.sleep(0.02), [weir.ones((1,))], [("float32", (1,))])
    end.record()
    assert start.elapsed_time(end) > 19


def test_the_current_stream_is_restored_also_on_an_error_and_is_per_thread():
    s = weir.Stream()
    seen = []
    with pytest.raises(KeyError):
        with weir.stream(s):
            thread = threading.Thread(target=lambda: seen.append(weir.current_stream()))
            thread.start()
            thread.join()
            with weir.stream(None):
                assert weir.current_stream() == s
            raise KeyError
    assert weir.current_stream() == weir.default_stream()
    assert seen == [weir.default_stream()]
    with pytest.raises(TypeError):
        weir.stream("s")


def test_a_current_stream_outlives_its_variable():
    weir.Stream(name="only here").set_current()
    assert weir.current_stream().name == "only here"
    assert (weir.ones((1,)) + 1).item() == 2
    weir.default_stream().set_current()


def test_tags_name_streams(split):
    s = split.tagged_stream("comm", -1)
    assert s == split.tagged_stream("comm") and hash(s) == hash(split.tagged_stream("comm"))
    assert s.name == "comm" and s.priority == -1 and s != split.default_stream()
    assert split.tagged_stream("default") == split.default_stream()
    with pytest.raises(ValueError, match="-8"):
        weir.Stream(priority=9)


def test_limits_of_a_stream_are_set_and_reset(split):
    s = weir.Stream()
    split.set_limit(20, -1)
    assert split.get_limit() == (20, 48) and s.get_limit() == (20, 48)
    s.set_limit(vector=8)
    assert s.get_limit()[1] == 8
    with pytest.raises(ValueError, match="1..48"):
        s.set_limit(3, 64)
    assert s.get_limit()[1] == 8
    s.reset_limit()
    assert s.get_limit() == (20, 48)


def test_the_gil_is_released_during_a_wait():
    side, entered, gate = weir.Stream(), threading.Event(), threading.Event()

    def hold(inputs, outputs):
        entered.set()
        gate.wait()

    def let_go():
        entered.wait()
        gate.set()

    thread = threading.Thread(target=let_go)
    thread.start()
    with weir.stream(side):
        weir.host_call("hold", hold, [weir.ones((1,))], [("float32", (1,))])
    side.synchronize()  # ends only if the other thread runs meanwhile
    assert gate.is_set()
    thread.join()


def test_many_threads_use_one_device():
    failures = []

    def work(n):
        try:
            with weir.stream(weir.Stream()):
                x = weir.full((64,), n)
                for _ in range(200):
                    x = x + 1
                assert x.tolist() == [n + 200] * 64
        except BaseException as error:  # noqa: B902
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_function_that_raises_fails_the_stream(capsys, monkeypatch):
    import sys

    caught = []
    monkeypatch.setattr(sys, "unraisablehook", caught.append)
    s = weir.Stream()

    def wrong(inputs, outputs):
        raise ValueError("of my own")

    with weir.stream(s):
        weir.host_call("wrong", wrong, [weir.ones((1,))], [(weir.float32, (1,))])
    with pytest.raises(weir.KernelError):
        s.synchronize()
    assert isinstance(caught[0].exc_value, ValueError)


def test_memory_statistics_count_tensors():
    with weir.Device("cpu") as device:
        weir.reset_peak_memory_stats(device)
        t = weir.empty((1 << 20,), device=device)
        assert weir.memory_allocated(device) >= 4 << 20
        del t
        device.synchronize()
        assert weir.memory_allocated(device) == 0
        assert weir.max_memory_allocated(device) >= 4 << 20
        weir.reset_peak_memory_stats(device)
        assert weir.max_memory_allocated(device) == 0
        weir.empty_cache(device)
        assert weir.memory_reserved(device) == 0
        assert "reserved" in weir.memory_summary(device)


def test_the_librarys_messages_come_through_the_logger(caplog, split, monkeypatch):
    monkeypatch.delenv("WEIR_LOG", raising=False)
    graph = weir.Graph()
    x = graph.input("x", (64, 64))
    with graph:
        y = x @ x
    graph.output("y", y)
    plan = graph.compile(static_kernels=True)
    stream = weir.Stream()
    with caplog.at_level("WARNING", logger="weir"), weir.stream(stream):
        stream.set_limit(2, 2)
        plan(weir.ones((64, 64))).synchronize()
        for _ in range(3000):  # it comes when Python next looks
            if caplog.records:
                break
            time.sleep(0.01)
    (record,) = caplog.records
    assert record.name == "weir" and record.levelname == "WARNING"
    assert "static kernels keep theirs" in record.getMessage()


MADE = {
    "numbers": lambda i: weir.tensor([float(i), float(i)]),
    "half": lambda i: weir.tensor([float(i), float(i)], dtype=weir.float16),
    "array": lambda i: weir.tensor(np.full(2, i, np.float32), dtype=weir.int32),
    "shared": lambda i: weir.asarray(np.full(2, i, np.float32), dtype=weir.int64),
    "full": lambda i: weir.full((2,), i),
    "arange": lambda i: weir.arange(1, start=i),
}


@pytest.mark.parametrize("how", MADE)
def test_values_from_the_host_are_visible_to_every_stream(how):
    busy = weir.ones((128, 128))
    s = weir.Stream()
    for i in range(100):
        busy @ busy
        x = MADE[how](i)
        with weir.stream(s):
            y = x + 1
        assert set(y.tolist()) == {i + 1}
