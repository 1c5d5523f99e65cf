"""Functions of weir.compile that update their arguments."""

import pytest

import weir

np = pytest.importorskip("numpy")


def _layouts(array):
    """The same elements in memory of every kind: (tensor, the whole that it is a part of)."""
    n, m = array.shape
    turned = weir.tensor(np.ascontiguousarray(array.T))
    yield turned.T, turned
    for key in ((slice(1, n + 1), slice(None, m)), (slice(None, 2 * n, 2), slice(2, m + 2))):
        whole = weir.tensor(np.full((2 * n + 1, m + 3), 7, array.dtype))
        whole[key].copy_(weir.tensor(array))
        yield whole[key], whole
    whole = weir.tensor(array)
    yield whole, whole
    yield weir.tensor(array).reshape((n, m, 1))[:, :, 0], whole


def test_compile_updates_arguments_of_every_layout_as_the_function_does():
    def update(x, y):
        made = weir.add(x, y)
        weir.maximum(x, y, out=x)
        x[1:].fill_(4)
        weir.mul(y, 2, out=y)
        return made, weir.sub(x, y)

    compiled = weir.compile(update)
    array = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    for number, _ in enumerate(_layouts(array)):
        for other, _ in enumerate(_layouts(array)):
            sides = []
            for function in (update, compiled):
                (x, whole), (y, rest) = list(_layouts(array))[number], list(_layouts(-array))[other]
                results = function(x, y)
                sides.append([t.numpy().tolist() for t in (*results, x, whole, y, rest)])
            assert sides[0] == sides[1], (number, other)


def test_compile_refuses_an_updated_argument_whose_memory_another_reads_otherwise():
    def update(x, y):
        weir.mul(x, 2, out=x)
        return weir.add(y, 1)

    compiled = weir.compile(update)
    t = weir.tensor(np.arange(9, dtype=np.float32).reshape(3, 3))
    for x, y in ((t, t.T), (t.T, t), (t[:, 1:], t[:, :2]), (t[:2], t.T[:2])):
        with pytest.raises(ValueError, match="needs memory of its own"):
            compiled(x, y)
    assert t.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    compiled(t[:, :1], t[:, 2:].T.reshape((3, 1)) * 1)
    assert t.tolist() == [[0, 1, 2], [6, 4, 5], [12, 7, 8]]
