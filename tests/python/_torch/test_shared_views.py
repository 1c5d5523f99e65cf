"""Results that are views of one new value share its memory, however that lies: with gaps, with dims in another order, in
a type that weir lacks, or as complex numbers. A write to one is then seen in the others."""

import pytest
import torch

from stand_in import host  # noqa: F401


@pytest.fixture(autouse=True, params=["host", "as on a GPU"])
def fresh(request):
    torch._dynamo.reset()
    if request.param != "host":
        request.getfixturevalue("host")
    with torch.no_grad():
        yield
    torch._dynamo.reset()

def parts(y):
    return y[1:], y.t(), y[:, 0], y[:1]

def replaced_rows(x, new):
    y = x.slice_scatter(new, 0, 0, 1)
    return y, y, *parts(y)

def replaced_row(x, new):
    return parts(x.select_scatter(new[0], 0, 1))

def replaced_diagonal(x, new):
    return parts(x.diagonal_scatter(new[0, : x.shape[0]]))

def complex_numbers(x, new):
    y = torch.polar(x.abs(), x)
    return y.conj(), y.real, *parts(y)

def pairs_as_complex_numbers(x, new):
    y = torch.complex(x, x + 1) * 2
    return y, y.mH, y.imag, *parts(y)

def turned_shorts(x, new):
    return parts(x.t().to(torch.int16))

def turned_complex_numbers_of_two_doubles(x, new):
    y = (x * 2).t().to(torch.complex128)
    return y.real, *parts(y)

FUNCTIONS = [
    replaced_rows, replaced_row, replaced_diagonal, complex_numbers, pairs_as_complex_numbers, turned_shorts,
    turned_complex_numbers_of_two_doubles,
]  # fmt: skip

def memories(tensors):
    first = {}
    return [first.setdefault(t.untyped_storage().data_ptr(), at) for at, t in enumerate(tensors)]

def describe(results):
    results[0].mul_(3)
    layouts = [(t.shape, t.stride(), t.storage_offset()) for t in results]
    return memories(results), layouts, [t.resolve_conj().to(torch.complex128).tolist() for t in results]

@pytest.mark.parametrize("function, dynamic", [(f, True) for f in FUNCTIONS] + [(replaced_rows, None)])
def test_views_of_one_new_value_share_its_memory(function, dynamic):
    run = torch.compile(function, backend="weir", dynamic=dynamic)
    for rows in (3, 4):
        for x in (torch.arange(9.0 * rows).view(rows, 9)[:, 2:7], torch.arange(5.0 * rows).view(5, rows).t()):
            got, want = (describe(list(f(x, torch.ones(1, 5)))) for f in (run, function))
            assert got == want
