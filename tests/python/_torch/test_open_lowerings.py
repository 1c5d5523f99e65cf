"""Operators whose lowerings go by sizes, where those are open: eager's values for all sizes, one plan,
and no kernel of PyTorch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import weir

KEPT = torch.arange(4.0)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    weir.set_device("cpu")


def windows(line, rows, image):
    return (
        F.pad(line, (2, 1), value=3.0),
        F.pad(image, (1, -1, -2, 3), value=-1.0),
        F.max_pool2d(image, 3, 2, 1),
        F.avg_pool2d(image, 3, 2, 1),
        F.avg_pool2d(image, 2, 1, 1, divisor_override=7),
        F.avg_pool1d(rows, 2, 1, count_include_pad=False),
        F.conv2d(image, torch.ones(4, 3, 3, 2), KEPT, 2, 1),
        F.interpolate(image, scale_factor=2.0),
        image.cumsum(2),
        rows.cummax(0),
    )


def indices(line, rows, image):
    n = line.shape[0]
    places = torch.arange(n) - n
    two = torch.tensor([0, -2])
    part = line[1:3]
    return (
        line[places // 2], image[:, :, places, places], line[two], rows[:, two],
        rows.index_put((two,), KEPT), rows.index_put((two,), rows[:2], accumulate=True),
        rows.index_copy(0, two + 2, rows[1:3]), rows.scatter(0, (places + n).unsqueeze(1), 2.5),
        line.slice_scatter(part, 0, 1, 3), line.slice_scatter(part, 0, -2),
        rows.select_scatter(line, 1, 3), rows.select_scatter(KEPT, 0, -1),
    )  # fmt: skip


def numbers(line, rows, image):
    return (
        rows.var(0), rows.std((0, 1), correction=0), image.var(3, keepdim=True), line.var(),
        torch.ops.aten.fill.Scalar(rows, 2.0), torch.ops.aten.fill.Tensor(line, rows[0, 0]),
        (line.long() & 3) ^ (line.long() << 2) | ~line.long(),
    )  # fmt: skip


def arguments(n, draw):
    return [torch.randn(s, generator=draw) * 4 for s in ((n,), (n, 4), (2, 3, n + 2, 2 * n + 2))]


@pytest.mark.parametrize("device", ["cpu", "npu:a3"])
@pytest.mark.parametrize("function", [windows, indices, numbers])
def test_values_are_eagers_for_all_sizes(function, device):
    weir.set_device(device)
    backend, draw = weir.get_npu_backend(), torch.Generator().manual_seed(0)
    run = torch.compile(function, backend=backend)
    with torch.no_grad():
        for n in (5, 7, 4, 19, 3, 7):
            args = arguments(n, draw)
            for arg in args:
                for dim in [d for d, size in enumerate(arg.shape) if size > 4 or d == 0 and arg.ndim < 4]:
                    torch._dynamo.mark_dynamic(arg, dim)
            torch.testing.assert_close(run(*args), function(*args), rtol=2e-5, atol=2e-5)
    assert not backend.coverage.fallback
    assert [len(graph.elastic) for graph in backend.graphs] == [1]
    assert not backend.graphs[0].inelastic


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(11, 6, padding_idx=2), nn.Linear(6, 3)

    def forward(self, x):
        return torch.relu(self.out(self.table(x)))


def test_an_embedding_is_trained_on_texts_of_any_length():
    torch.manual_seed(0)
    module = Tokens()
    run = torch.compile(module, backend=weir.get_npu_backend(), dynamic=True)
    for n in (5, 7, 3, 12):
        x, grads = torch.randint(0, 11, (2, n)), []
        for step in (run, module):
            module.zero_grad()
            step(x).square().mean().backward()
            grads.append([p.grad.clone() for p in module.parameters()])
        torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-6)


def test_whole_numbers_are_divided_by_a_size():
    run = torch.compile(lambda x: x // x.shape[0], backend=weir.get_npu_backend(), dynamic=True)
    for n in (5, 7, 3):
        x = torch.arange(-20, n - 20)
        assert run(x).tolist() == [v // n for v in x.tolist()]
