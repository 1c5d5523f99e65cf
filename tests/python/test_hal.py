"""weir.hal against mindspore.hal: arguments, semantics, keys."""

import pytest

import weir
from weir import hal


def test_a_stream_has_an_id_a_priority_and_a_query():
    s, t = hal.Stream(), hal.Stream(priority=-1)
    assert s != t and hal.Stream(stream=s) == s and hash(hal.Stream(stream=s)) == hash(s)
    assert s.device_name in ("CPU", "Ascend") and s.device_id == 0 and s.id > 0
    assert repr(s) == f"Stream(device_name={s.device_name}, device_id:0, stream id:{s.id})"
    assert hal.default_stream().id == 0 and hal.current_stream() == hal.default_stream()
    assert hal.Stream(stream_id=0) == hal.default_stream()
    assert hal.communication_stream() != hal.default_stream()
    with pytest.raises(TypeError):
        s == 1  # noqa: B015
    with pytest.raises(TypeError, match="priority"):
        hal.Stream(priority="high")
    with pytest.raises(TypeError, match="no argument 'name'"):
        hal.Stream(name="x")


def test_current_stream_and_context():
    s, t = hal.Stream(), hal.Stream()
    hal.set_cur_stream(s)
    assert hal.current_stream() == s
    hal.set_cur_stream(None)
    assert hal.current_stream() == s
    with hal.StreamCtx(t):
        assert hal.current_stream() == t
        with hal.StreamCtx(None):
            assert hal.current_stream() == t
    assert hal.current_stream() == s
    hal.set_cur_stream(hal.default_stream())
    for function in (hal.StreamCtx, hal.set_cur_stream):
        with pytest.raises(TypeError):
            function("s")


def test_wait_stream_and_events_order_work():
    s = hal.Stream()
    a = weir.tensor([[1.0, 2.0], [3.0, 4.0]])
    b = a @ a
    s.wait_stream(hal.current_stream())
    with hal.StreamCtx(s):
        c = b.sum()
        event = s.record_event()
    event.wait()
    d = c + 1
    assert d.item() == 55
    assert event.query() and s.query()
    again = hal.Event()
    assert s.record_event(again) is again
    hal.current_stream().wait_event(again)
    hal.synchronize()
    for bad in (lambda: s.wait_event(s), lambda: s.wait_stream(event), lambda: event.record(1)):
        with pytest.raises(TypeError):
            bad()


def test_an_event_before_its_record_delays_nothing():
    event = hal.Event(enable_timing=True)
    event.wait()
    event.synchronize()
    assert event.query()
    with pytest.raises(RuntimeError):
        event.elapsed_time(hal.Event(enable_timing=True))
    with pytest.raises(TypeError):
        hal.Event(enable_timing=1)
    end = hal.Event(enable_timing=True)
    event.record()
    end.record()
    assert event.elapsed_time(end) >= 0


def test_memory_keys_and_peaks():
    hal.synchronize()
    stats = hal.memory_stats()
    assert set(stats) >= {
        "total_reserved_memory",
        "total_allocated_memory",
        "total_idle_memory",
        "total_eager_free_memory",
        "max_reserved_memory",
        "max_allocated_memory",
        "commom_mem_pool_stats",
        "persistent_mem_pool_stats",
    }
    before = hal.memory_allocated()
    t = weir.empty((1 << 20,))
    assert hal.memory_allocated() >= before + (4 << 20)
    assert hal.max_memory_allocated() >= hal.memory_allocated()
    block = hal.memory_stats()["commom_mem_pool_stats"]["blocks_info"][t.data_ptr()]
    assert block["block_memory_size"] >= 4 << 20 and "block_stream_id" in block
    del t
    hal.synchronize()
    hal.reset_peak_memory_stats()
    assert hal.max_memory_allocated() == hal.memory_allocated()
    assert hal.max_memory_reserved() == hal.memory_reserved()
    u = weir.empty((1 << 24,))
    del u
    hal.synchronize()
    hal.empty_cache()
    peaks = hal.max_memory_allocated(), hal.max_memory_reserved()
    assert peaks[0] > hal.memory_allocated() and peaks[1] > hal.memory_reserved()
    hal.reset_max_memory_allocated()  # and not the other
    assert hal.max_memory_allocated() == hal.memory_allocated()
    assert hal.max_memory_reserved() == peaks[1]
    hal.reset_max_memory_reserved()
    assert hal.max_memory_reserved() == hal.memory_reserved()
    assert "reserved" in hal.memory_summary()


def test_devices():
    assert hal.is_available("CPU") and hal.device_count() == 1
    assert hal.is_initialized(hal.default_stream().device_name)
    assert hal.get_device_name(0) == hal.get_device_properties(0).name
    assert hal.get_device_properties(0).total_memory > 0
    assert hal.get_device_capability(0) is None and hal.get_arch_list() is None
    with pytest.raises(ValueError, match="device_target"):
        hal.is_available("TPU")
    with pytest.raises(ValueError, match="out of range"):
        hal.get_device_name(3)
    with pytest.raises(ValueError, match="2GB"):
        hal.set_memory(max_size="big")


def test_settings_of_mindspores_threads_are_checked_and_accepted():
    from weir import compat

    compat.install()
    from mindspore import communication, runtime

    runtime.launch_blocking()
    runtime.dispatch_threads_num(2)
    runtime.set_cpu_affinity(True, {"device0": ["0-1"]})
    runtime.set_kernel_launch_group(thread_num=2, kernel_group_num=8)
    for wrong, kind in (
        (lambda: runtime.dispatch_threads_num("2"), TypeError),
        (lambda: runtime.dispatch_threads_num(0), ValueError),
        (lambda: runtime.set_cpu_affinity(1), TypeError),
        (lambda: runtime.set_kernel_launch_group(3, 8), ValueError),
    ):
        with pytest.raises(kind):
            wrong()
    communication.init()
    assert (communication.get_rank(), communication.get_group_size()) == (0, 1)
