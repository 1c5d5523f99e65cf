"""A mixture-of-experts transformer with its shared expert on a stream of its own."""

import importlib.util
import pathlib

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
EXAMPLE = pathlib.Path(__file__).parents[3] / "examples/python/moe_transformer.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("moe_transformer", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_values_are_pytorchs_and_the_shared_expert_overlaps(example):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = example.Transformer(dim=128, layers=2).eval()
    tokens = torch.randint(0, 256, (1, 96))
    backend = weir.get_npu_backend()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    with torch.no_grad():
        want = model(tokens)
        torch.testing.assert_close(compiled(tokens), want, rtol=1e-4, atol=1e-4)
        for _ in range(20):  # two threads must be free at the right moment
            with weir.trace() as trace:
                compiled(tokens)
            if example.overlap_us(trace.ops) > 0:
                break
    shared = [op for op in trace.ops if op["stream"] == "shared"]
    assert len(shared) >= 2 * 2  # the shared expert's matrix products of both layers
    assert example.overlap_us(trace.ops) > 0
    assert backend.coverage.native.total() > 10 * backend.coverage.fallback.total()


def test_shapes_that_change(example):
    torch._dynamo.reset()
    model = example.Transformer(dim=64, layers=1).eval()
    compiled = torch.compile(model, backend=weir.get_npu_backend(), dynamic=True)
    with torch.no_grad():
        for n in (3, 5):
            tokens = torch.randint(0, 256, (2, n))
            torch.testing.assert_close(compiled(tokens), model(tokens), rtol=1e-4, atol=1e-4)
