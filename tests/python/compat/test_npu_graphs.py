"""torch.npu.NPUGraph: work that is captured and run again."""

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

if torch.cuda.is_available():
    pytest.skip("here the NPU is the GPU: see test_cuda.py", allow_module_level=True)


def test_a_graph_runs_again_on_the_same_memory(npu):
    x, count = torch.ones(4, device="npu"), torch.zeros(1, device="npu")
    side, graph = npu.Stream(), npu.NPUGraph()
    with pytest.raises(RuntimeError, match="was not captured"):
        graph.replay()
    assert not npu.is_current_stream_capturing()
    with npu.graph(graph):
        assert npu.is_current_stream_capturing()
        a = x * 2
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            b = x / 2
            b += 1
        npu.current_stream().wait_stream(side)
        c = a + b
        count.add_(1)
        turned = c.view(2, 2).t().contiguous()
    assert count.item() == 0  # captured, not run
    graph.replay()
    assert c.tolist() == [3.5] * 4 and count.item() == 1
    x.copy_(torch.arange(4.0))
    with weir.trace() as trace:
        graph.replay()
    assert c.tolist() == [1, 3.5, 6, 8.5] and count.item() == 2
    assert turned.tolist() == [[1, 6], [3.5, 8.5]]
    assert len(trace.ops) == 7  # one for each operator that computes, and their end
    assert graph.graph.dump().count(f's: "{side.stream.name}"') == 2  # the two of the side stream
    graph.reset()
    with pytest.raises(RuntimeError, match="was not captured"):
        graph.replay()


def test_a_training_step_can_be_captured(npu):
    torch.manual_seed(1)
    model, data = torch.nn.Linear(4, 4).npu(), torch.randn(8, 4).npu()
    twin = torch.nn.Linear(4, 4)
    twin.load_state_dict(model.state_dict())
    step = torch.optim.SGD(model.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.parameters(), lr=0.1)
    graph = npu.NPUGraph()
    with npu.graph(graph, stream=npu.Stream()):
        loss = model(data).square().mean()
        loss.backward()
        step.step()
    for _ in range(3):
        graph.replay()
        twins.zero_grad()
        wanted = twin(data).square().mean()
        wanted.backward()
        twins.step()
        assert torch.equal(loss, wanted)
    assert torch.equal(model.weight, twin.weight)


def test_a_capture_that_fails_leaves_memory_as_it_was(npu):
    x = torch.zeros(2, device="npu")
    with pytest.raises(RuntimeError, match="_local_scalar_dense needs a value, but while a graph"):
        with npu.graph(npu.NPUGraph()):
            x += 1
            x.sum().item()
    assert x.tolist() == [0, 0] and not npu.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="capture_end without capture_begin"):
        npu.NPUGraph().capture_end()
    with pytest.raises(RuntimeError, match="no graph is being captured"):
        npu.graph_task_group_begin(npu.current_stream())


def test_calls_of_a_captured_graph_can_be_changed(npu):
    x, stream, graph = torch.ones(2, device="npu"), npu.current_stream(), npu.NPUGraph()
    with npu.graph(graph):
        npu.graph_task_group_begin(stream)
        y = x * 3
        handle = npu.graph_task_group_end(stream)
        z = y + 1
    graph.replay()
    assert z.tolist() == [4, 4]
    npu.graph_task_update_begin(stream, handle)
    x * 5
    npu.graph_task_update_end(stream)
    graph.replay()
    assert z.tolist() == [6, 6]
    npu.graph_task_update_begin(stream, handle)
    x - 5
    with pytest.raises(RuntimeError, match="the group has the operators .*aten.mul"):
        npu.graph_task_update_end(stream)
