"""Graphs that are weir's in parts as one launch, with the host in the GPU's place."""

import threading

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
from compiling import call_in_thread  # noqa: E402
from stand_in import Host, host  # noqa: E402, F401
from test_stitch import stitched  # noqa: E402
from weir._torch.mixed import capture  # noqa: E402


def mixed(x, w):
    y = torch.relu(x) @ w
    z = torch.logcumsumexp(y, 0)
    return z * 2, y[1:], x, z


@pytest.fixture
def model(host):  # noqa: F811
    backend = weir.get_npu_backend()
    run = torch.compile(mixed, backend=backend, fullgraph=True)
    w = torch.randn(4, 4)

    def call(x):
        with torch.no_grad():
            return run(x, w)

    call.backend, call.w, call.host = backend, w, host
    call.captured = lambda: stitched(backend).captured
    return call


def check(model, x):
    got, want = model(x), mixed(x, model.w)
    for mine, other in zip(got, want):
        torch.testing.assert_close(mine, other, check_stride=True)
    return got


def test_calls_become_one_launch_after_a_few_calls(model):
    x = torch.randn(4, 4)
    for _ in range(capture.WARM):
        check(model, x)
    assert not model.host.records
    for _ in range(3):
        check(model, x)
    (record,) = model.host.records
    captured = model.captured()
    assert captured.reason is None and captured.launches == record.ended == 3
    assert captured.copies == [] and captured.still == (0, 1)


def test_arguments_that_move_are_copied_and_weights_are_not(model):
    kept = [torch.randn(4, 4) for _ in range(6)]
    for x in kept:
        check(model, x)
    (record,) = model.host.records
    captured = model.captured()
    (copied, _), = captured.copies
    assert captured.launches == 4 and record.args[1 - copied] is not kept[0]
    assert [record.args[i].data_ptr() for i in captured.still] == [model.w.data_ptr()]


def test_an_argument_that_turns_out_to_move_is_copied_from_then_on(model):
    x = torch.randn(4, 4)
    for _ in range(5):
        check(model, x)
    others = [torch.randn(4, 4) for _ in range(4)]
    for x in others:
        check(model, x)
    assert len(model.host.records) == 2
    assert model.captured().launches == 3 + 3  # the first of the others ran part by part


def test_results_of_earlier_calls_do_not_change(model):
    xs = [torch.randn(4, 4) for _ in range(8)]
    got = [model(x) for x in xs]
    assert model.captured().launches
    for x, results in zip(xs, got):
        for mine, want in zip(results, mixed(x, model.w)):
            torch.testing.assert_close(mine, want)
    z, y, x, _ = got[-1]
    assert x is xs[-1] and y._base is not None


def test_graphs_that_cannot_be_captured_run_step_by_step_and_say_why(model, monkeypatch):
    def refuse(run, args):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(model.host, "record", refuse)
    x = torch.randn(4, 4)
    for _ in range(6):
        check(model, x)
    assert model.captured().reason == "operation not permitted when stream is capturing"


def test_large_arguments_that_move_are_not_copied(model, monkeypatch):
    monkeypatch.setattr(capture, "COPIED", 16)
    for _ in range(6):
        check(model, torch.randn(4, 4).clone().requires_grad_(False))
    captured = model.captured()
    # Memory may come back to the same place: then nothing has moved.
    assert captured.reason is None or "64 bytes" in captured.reason


def test_an_error_of_the_stream_is_reported_as_without_a_capture(model):
    x = torch.randn(4, 4)
    for _ in range(4):
        check(model, x)
    model.host.records[0].error = weir.Error("the stream is in error")
    check(model, x)
    assert model.captured().launches == 2


def test_threads_that_call_at_once_take_turns_or_run_step_by_step(model):
    xs = [torch.randn(4, 4) for _ in range(4)]
    for x in xs:
        check(model, x)
    failures = []

    def work(x):
        try:
            for _ in range(20):
                call_in_thread(check, model, x)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(x,)) for x in xs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("training", [True, False])
def test_the_option_and_training_disable_the_capture(host, training):  # noqa: F811
    config = weir.CompilerConfig()
    config.one_launch = training
    backend = weir.get_npu_backend(compiler_config=config)
    w = torch.randn(4, 4, requires_grad=training)
    run = torch.compile(mixed, backend=backend, fullgraph=True)
    for _ in range(5):
        run(torch.randn(4, 4), w)
    assert not host.records and stitched(backend).captured is None


def test_steps_on_other_streams_or_with_effects_are_told(host):  # noqa: F811
    def streams(x):
        with weir.scope.npu_stream_switch("side"):
            a = torch.logcumsumexp(x, 0)
        return a + torch.logcumsumexp(x, 1)

    def random(x):
        return torch.logcumsumexp(x, 0) + torch.rand(4)

    for function, reason in ((streams, "streams or cores"), (random, "has effects")):
        backend = weir.get_npu_backend()
        run = torch.compile(function, backend=backend, fullgraph=True)
        with torch.no_grad():
            for _ in range(4):
                run(torch.randn(4, 4))
        assert reason in stitched(backend).captured.reason and not host.records


def test_addresses():
    x, y = torch.zeros(2), torch.zeros(3)
    assert weir._C.addresses([x, 1, y], (2, 0)) == (y.data_ptr(), x.data_ptr())
    with pytest.raises(AttributeError):
        weir._C.addresses([x, 1], (1,))
    with pytest.raises(weir.Error, match="only cuda"):
        weir._C.tape(weir.get_device())
