"""Memory shared with NumPy, PyTorch and plain buffers."""

import array
import gc
import hashlib
import random
import weakref

import pytest

import weir

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("name", "float32 float16 float64 int64 int32 int8 uint8 bool".split())
def test_numpy_both_ways_without_a_copy(name):
    a = np.array([[0, 1], [1, 0]], name)
    t = weir.from_numpy(a)
    assert t.data_ptr() == a.__array_interface__["data"][0]
    back = t.numpy()
    assert back.dtype == a.dtype and np.array_equal(back, a)
    assert np.shares_memory(back, a)


def test_strided_arrays_are_shared():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    t = weir.asarray(a[:, ::2])
    assert t.strides == (4, 2) and t.tolist() == a[:, ::2].tolist()
    assert np.array_equal(np.asarray(t.T), a[:, ::2].T)


def test_memory_that_cannot_be_shared_is_copied_or_refused():
    a = np.arange(3, dtype=np.float32)
    a.flags.writeable = False
    t = weir.asarray(a)
    assert t.tolist() == [0, 1, 2] and t.data_ptr() != a.__array_interface__["data"][0]
    with pytest.raises((BufferError, ValueError)):
        weir.from_numpy(a)
    assert weir.asarray(np.arange(3, dtype=np.float32)[::-1]).tolist() == [2, 1, 0]
    with pytest.raises(TypeError, match="format"):
        weir.from_numpy(np.zeros(2, np.complex64))
    with pytest.raises(ValueError, match="at most 8 dims"):
        weir.from_numpy(np.zeros((1,) * 9, np.float32))
    with pytest.raises(TypeError, match="cannot be shared"):
        weir.from_dlpack(object())


def test_bfloat16_becomes_float32_in_numpy():
    assert weir.tensor([1.5], weir.bfloat16).numpy().dtype == np.float32
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(weir.tensor([1.5], weir.bfloat16))


def test_plain_buffers():
    t = weir.from_numpy(array.array("d", [1, 2]))
    assert t.dtype is weir.float64 and t.tolist() == [1, 2]
    assert memoryview(weir.tensor([[1, 2]])).tolist() == [[1, 2]]
    with pytest.raises(BufferError):
        hashlib.sha1(weir.ones((2, 2)).T)  # wants contiguous bytes


def test_the_owner_lives_until_the_last_use_is_over():
    class Owner(np.ndarray):
        pass

    a = np.ones(1 << 16, np.float32).view(Owner)
    gone = weakref.ref(a)
    t = weir.from_numpy(a)
    view = t[10:20]
    results = [t + i for i in range(50)]
    del a, t
    gc.collect()
    assert gone() is not None  # `view` has it
    assert results[49][0].item() == 50 and view[0].item() == 1
    del view
    weir.synchronize()
    weir.ones((1,)).item()
    gc.collect()
    assert gone() is None


def test_dlpack_with_numpy():
    t = weir.tensor([[1.0, 2.0]])
    a = np.from_dlpack(t)
    assert a.__array_interface__["data"][0] == t.data_ptr() and a.tolist() == [[1, 2]]
    capsule = t.__dlpack__()
    del t, capsule  # a capsule nobody took frees its tensor
    assert weir.from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="capsule"):
        weir._C.from_capsule(3, None)


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool):
        a = torch.tensor([[0, 1], [1, 1]]).to(dtype)
        t = weir.from_dlpack(a)
        assert t.data_ptr() == a.data_ptr() and t.tolist() == a.tolist()
        back = torch.from_dlpack(t)
        assert back.data_ptr() == a.data_ptr() and torch.equal(back, a)
    assert weir.asarray(torch.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_functions_of_numpy_are_weirs_where_weir_has_them():
    np = pytest.importorskip("numpy")
    a = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    t = weir.tensor(a)
    for name in ("exp", "log", "sqrt", "tanh", "negative", "absolute", "square"):
        got = getattr(np, name)(t)
        assert isinstance(got, weir.Tensor)
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(a), rtol=1e-5)
    for got, want in (
        (a + t, a + a), (t - a, a - a), (np.float32(2) * t, 2 * a), (t / np.float64(2), a / 2),
        (a @ t.T, a @ a.T), (a > t, a > a), (np.maximum(t, 3), np.maximum(a, 3)),
        (np.sum(t, axis=1), a.sum(1)), (np.mean(t, keepdims=True), a.mean(keepdims=True)),
        (np.max(t, axis=0), a.max(0)), (np.concatenate([t, a]), np.concatenate([a, a])),
        (np.where(t > 2, t, 0), np.where(a > 2, a, 0)), (np.transpose(t), a.T),
        (np.reshape(t, (3, 2)), a.reshape(3, 2)), (np.clip(t, 2, 4), a.clip(2, 4)),
    ):  # fmt: skip
        assert isinstance(got, weir.Tensor), want
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_whole_numbers_are_computed_in_the_type_that_numpy_computes_in():
    """Quotients, floats and whole numbers of other types beside them: what weir gives has NumPy's values and type."""
    pick, given = random.Random(0), 0
    names = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "equal", "bitwise_xor", "left_shift")
    numbers = [2, -1, 3, True, 0, 2.0, 0.5, np.float32(2), np.float64(1.5), np.int8(3), np.uint8(200), np.int64(7)]
    np_errors = np.seterr(all="ignore")
    try:
        for _ in range(600):
            function, kind = getattr(np, pick.choice(names)), pick.choice((np.int64, np.int32, np.int8, np.uint8, np.bool_))
            a, b = (np.array([pick.choice((0, 1, 2, 3, 7, 100, 127)) for _ in range(6)]).astype(kind) for _ in "ab")
            t, u = weir.tensor(a), weir.tensor(b)
            number = pick.choice(numbers)
            ours, theirs = pick.choice((((t, u), (a, b)), ((t, b), (a, b)), ((t, number), (a, number)), ((number, t), (number, a))))
            try:
                got = function(*ours)
            except (TypeError, ValueError):
                continue  # weir has not that type, or NumPy refuses it
            got = got.numpy() if isinstance(got, weir.Tensor) else got
            want, given = function(*theirs), given + 1
            assert got.dtype == want.dtype and np.array_equal(got, want, equal_nan=want.dtype.kind == "f"), (function, theirs, got)
    finally:
        np.seterr(**np_errors)
    assert given > 300
    halves = weir.compile(lambda x: np.divide(x, 2))(weir.tensor([7, -3]))
    assert halves.dtype is weir.float64 and halves.tolist() == [3.5, -1.5]


def test_other_functions_of_numpy_run_on_the_values():
    np = pytest.importorskip("numpy")
    a = np.arange(6, dtype=np.float32)
    t = weir.tensor(a)
    np.testing.assert_allclose(np.sin(t), np.sin(a))
    assert np.median(t) == 2.5 and np.add.reduce(t) == 15
    np.testing.assert_allclose(np.sum(t, dtype=np.float64), 15)
    np.add(t, 1, out=t)
    np.testing.assert_allclose(t, a + 1)
    with pytest.raises(TypeError, match="numpy.sin is not one of weir's operators"):
        weir.compile(lambda x: np.sin(x))(t)


def test_a_function_written_for_numpy_is_captured():
    np = pytest.importorskip("numpy")

    @weir.compile
    def attention(q, k, v):
        scores = np.matmul(q, np.transpose(k)) / np.float32(2)
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return (weights / np.sum(weights, axis=-1, keepdims=True)) @ v

    q, k, v = (np.random.default_rng(i).normal(size=(3, 4)).astype(np.float32) for i in range(3))
    want = np.exp(q @ k.T / 2)
    want = (want / want.sum(-1, keepdims=True)) @ v
    for _ in range(2):
        np.testing.assert_allclose(attention(q, k, v).numpy(), want, rtol=1e-4)
    assert len(attention.plans) == 1


def test_tensors_of_pytorch_that_are_negated_when_they_are_read():
    torch = pytest.importorskip("torch")
    part = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert part.is_neg() and weir.tensor(part).tolist() == weir.asarray(part).tolist() == [-2, 4]
    with pytest.raises(BufferError, match="clone it"):
        weir.from_dlpack(part)
