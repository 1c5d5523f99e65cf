"""Tensors: values, views, operators and what is refused."""

import copy
import math

import pytest

import weir


def test_python_values_keep_their_natural_type_and_shape():
    assert weir.tensor([[1, 2], [3, 4]]).dtype is weir.int64
    assert weir.tensor([True, False]).dtype is weir.bool_
    assert weir.tensor([1, 2.5]).dtype is weir.float32
    t = weir.tensor([[1.0, 2.0, 3.0]], dtype="float16")
    assert (t.shape, t.ndim, t.size, t.nbytes) == ((1, 3), 2, 3, 6)
    assert weir.tensor([], weir.float32).tolist() == []
    assert weir.tensor(7).shape == () and weir.tensor(7).item() == 7


@pytest.mark.parametrize("name", "float32 float16 bfloat16 float64 int64 int32 int8 uint8".split())
def test_every_type_survives_the_way_in_and_out(name):
    t = weir.tensor([0, 1, 2, 100], dtype=name)
    assert t.dtype.name == name
    assert t.tolist() == [0, 1, 2, 100]
    assert (t + t).tolist() == [0, 2, 4, 200 if name != "int8" else -56]


def test_rows_of_different_length_are_refused():
    with pytest.raises(ValueError, match="different length"):
        weir.tensor([[1, 2], [3]])


def test_operators_of_python():
    a, b = weir.tensor([1.0, 2.0, 4.0]), weir.tensor([4.0, 2.0, 1.0])
    assert (a + b).tolist() == [5, 4, 5]
    assert (a - b).tolist() == [-3, 0, 3]
    assert (a * b).tolist() == [4, 4, 4]
    assert (a / b).tolist() == [0.25, 1, 4]
    assert (a**2).tolist() == [1, 4, 16]
    assert (-a).tolist() == [-1, -2, -4]
    assert abs(-a).tolist() == [1, 2, 4]
    assert (1 - a).tolist() == [0, -1, -3]
    assert (8 / a).tolist() == [8, 4, 2]
    assert (2 + a).tolist() == [3, 4, 6]
    assert (a > b).tolist() == [False, False, True]
    assert (a == b).tolist() == [False, True, False]
    assert float(a[2]) == 4.0 and int(a[1]) == 2 and bool(a[0])
    with pytest.raises(TypeError):
        a + "x"


def test_out_writes_to_an_existing_tensor():
    a, out = weir.tensor([1.0, 2.0]), weir.zeros((2,))
    assert weir.add(a, 1, out=out) is out
    assert weir.exp(out, out=out) is out
    assert out.tolist() == pytest.approx([math.e**2, math.e**3], rel=1e-6)


def test_indexing_gives_views():
    t = weir.arange(24).reshape((2, 3, 4))
    assert t[1, 2, 3].item() == 23
    assert t[-1, ..., 0].tolist() == [12, 16, 20]
    assert t[:, 1:, ::2].tolist() == [[[4, 6], [8, 10]], [[16, 18], [20, 22]]]
    assert t[0, None].shape == (1, 3, 4) and t[..., None].shape == (2, 3, 4, 1)
    assert t[5:1].shape == (0, 3, 4)
    t[0, 0] = 0
    t[1] = t[0]
    assert t[1].tolist() == [[0, 0, 0, 0], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [row.tolist() for row in t[0, :2]] == [[0, 0, 0, 0], [4, 5, 6, 7]]
    with pytest.raises(IndexError, match="index 3 is out of range for dim 1 of size 3"):
        t[0, 3]
    with pytest.raises(IndexError, match="too many"):
        t[0, 0, 0, 0]
    with pytest.raises(TypeError, match="index_select"):
        t["x"]
    with pytest.raises(ValueError, match="positive"):
        t[::-1]


def test_views_share_bytes_and_reshape_copies_where_it_must():
    t = weir.arange(6).reshape((2, 3))
    assert t.T.data_ptr() == t.data_ptr() and not t.T.is_contiguous()
    assert t.T.reshape((6,)).tolist() == [0, 3, 1, 4, 2, 5]
    assert t.permute((1, 0)).tolist() == t.transpose(0, 1).tolist()
    assert weir.tensor([1.0]).expand((2, 2)).tolist() == [[1, 1], [1, 1]]


def test_remaining_operators_equal_numpy():
    x = weir.tensor([[3.0, 1.0, 2.0]])
    assert x.sum(dim=1).tolist() == [6] and x.mean().item() == 2
    assert x.max(1, keepdim=True).tolist() == [[3]] and x.min().item() == 1
    assert x.argmax().item() == 0 and x.argmax(dim=1, keepdim=True).tolist() == [[0]]
    assert weir.sort(x, descending=True)[1].tolist() == [[0, 2, 1]]
    assert weir.where(x > 1.5, x, 0).tolist() == [[3, 0, 2]]
    assert weir.clamp(x, high=2).tolist() == [[2, 1, 2]]
    w = weir.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    assert weir.linear(x, w, weir.tensor([0.0, 10.0])).tolist() == [[3, 13]]
    image = weir.ones((1, 1, 3, 3))
    assert weir.conv2d(image, weir.ones((1, 1, 2, 2)), padding=1, stride=(2, 1)).tolist() == [
        [[[1, 2, 2, 1], [2, 4, 4, 2]]]
    ]
    y = weir.zeros((2, 2))
    y.scatter_add_(0, weir.tensor([[1, 1]]), weir.tensor([[5.0, 6.0]]))
    assert y.tolist() == [[0, 0], [5, 6]]
    r = weir.empty((1000,)).uniform_(7, low=-1, high=1)
    assert -1 <= r.min().item() and r.max().item() <= 1
    assert r.tolist() == weir.empty((1000,)).uniform_(7, low=-1, high=1).tolist()
    weights, experts = weir.moe_gating(weir.tensor([[0.0, 5.0, 1.0]]), 2)
    assert experts.tolist() == [[1, 2]] and weights.sum().item() == pytest.approx(1)
    assert weir.nonzero(weir.tensor([[0, 1], [2, 0]])).tolist() == [[0, 1], [1, 0]]


def test_errors_carry_the_librarys_sentence_and_code():
    with pytest.raises(weir.InvalidError, match=r"\[2\].*\[3\]") as caught:
        weir.ones((2,)) + weir.ones((3,))
    assert caught.value.code == "WEIR_ESHAPE"
    with pytest.raises(TypeError) as caught:
        weir.ones((2,)) + weir.ones((2,), weir.int32)
    assert isinstance(caught.value, weir.Error) and caught.value.code == "WEIR_EDTYPE"
    with pytest.raises(ValueError, match="bogus"):
        weir.Device("cpu:bogus=1")
    with pytest.raises(MemoryError):
        with weir.Device("cpu:memory=1m") as device:
            weir.empty((1 << 20,), device=device)
    with pytest.raises(TypeError, match="not a data type of weir"):
        weir.empty((1,), "complex64")
    with pytest.raises(TypeError, match=r"add\(\) has no argument 'alpha'"):
        weir.add(weir.ones((1,)), 1, alpha=2)
    with pytest.raises(TypeError, match="needs the argument 'b'"):
        weir.add(weir.ones((1,)))


def test_a_failed_operator_fails_its_stream_and_names_itself():
    side = weir.Stream(name="side")
    with weir.stream(side):
        weir.embedding(weir.ones((2, 2)), weir.tensor([5]))
    with pytest.raises(weir.Error, match="Embedding"):
        side.synchronize()
    weir.default_stream().synchronize()


def test_printing_and_copies():
    t = weir.tensor([1.5, 2.5])
    assert "1.5" in repr(t) and "f32[2]" in repr(t)
    assert f"{t[0]:.3f}" == "1.500"
    other = copy.deepcopy(t)
    other.fill_(0)
    assert t.tolist() == [1.5, 2.5]


def test_a_device_closes_with_its_last_object():
    device = weir.Device("cpu:cores=2")
    t = weir.ones((4,), device=device)
    with pytest.raises(weir.BusyError, match="1 tensor"):
        device.close()
    del t
    device.close()
    device.close()
    with pytest.raises(RuntimeError, match="closed"):
        weir.ones((1,), device=device)


def test_tensors_move_between_devices():
    with weir.Device("cpu:cores=1") as other:
        t = weir.tensor([1.0, 2.0]).to(other)
        assert t.device is other and (t + 1).tolist() == [2, 3]
        with pytest.raises(weir.Error, match="cpu:cores=1"):
            t + weir.tensor([1.0, 2.0])
        back = weir.empty((2,)).copy_(t)
        assert back.tolist() == [1, 2]
        del t


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_values_are_read_exactly(name):
    tiny = 2.0**-24 if name == "float16" else 2.0**-133  # the smallest there is
    for value in (1.5, -2.0, tiny, -3 * tiny, 0.0, math.inf, -math.inf):
        t = weir.tensor([value], dtype=name)
        assert t.item() == value == t.cast("float64").item()
    assert math.isnan(weir.tensor([math.nan], dtype=name).item())
    assert math.copysign(1, weir.tensor([-0.0], dtype=name).item()) == -1
    with pytest.raises(ValueError, match="3 elements is not one value"):
        weir.ones((3,), name).item()


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: weir.tensor("abc"), "numbers, nested sequences, arrays and tensors, not of str"),
        (lambda: weir.tensor([1, "x"]), "made of numbers, not 'x'"),
        (lambda: weir.tensor(300, dtype="uint8"), "300 is out of range for uint8"),
        (lambda: weir.from_numpy([1]), "from_numpy takes an array, not list: see weir.tensor"),
        (lambda: weir.ones((2, 3))[0, 0, 0], "too many indices for a tensor of 2 dims"),
        (lambda: weir.ones((2,))[weir.ones((2,)) > 0], "weir.where and weir.nonzero conditions"),
        (lambda: weir.concat(weir.ones((2,))), "concat takes a sequence of tensors"),
        (lambda: weir.clamp(weir.ones((2,)), "x"), "low must be a number, not <class 'str'>"),
        (lambda: weir.ones((2,)).uniform_(1, 0, "x"), "high must be a number"),
        (lambda: weir.ones((2,)) + weir.ones((2,), "int64"), "weir.cast one of them"),
        (lambda: weir.trace().write("x.html"), "the with block has to end first"),
    ],
)
def test_mistakes_are_named(make, said):
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError, RuntimeError)) as error:
        make()
    assert said in str(error.value)


def test_arrays_of_unsupported_types_are_refused_with_their_type():
    np = pytest.importorskip("numpy")
    for array in (np.array(["a"]), np.ones(2, np.complex64), np.ones(2, np.int16)):
        for make in (weir.tensor, weir.asarray):
            with pytest.raises(TypeError, match="not one of weir's data types"):
                make(array)


def test_tensors_without_values_can_be_printed():
    graph = weir.Graph()
    x = graph.input("x", (8, 2))
    assert repr(x) == "weir.Tensor(f32 (8, 2), of a graph)"
    with graph:
        y = x + 1
    graph.output("y", y)
    assert repr(graph) == f"weir.Graph(1 nodes on '{weir.get_device().name}')"
    assert "1 launches on 1 streams" in repr(graph.compile())
    assert "f32[0, 3]" in repr(weir.zeros((0, 3))) and "..." in repr(weir.zeros((5000,)))


def test_writes_by_index_are_seen_by_the_checker_with_their_line():
    t, side = weir.zeros((4,)), weir.Stream(name="side")
    weir.synchronize()
    with weir.check() as found:
        t[1:] = 2
        with weir.stream(side):
            t[0] = t[1]
    assert [r["second"]["file"] for r in found.races] == [__file__] * len(found.races)
    assert found.races and found.races[0]["first"]["op"] == "Fill"
    weir.synchronize()


def test_whole_numbers_that_would_lose_bits_are_refused():
    odd = 2**53 + 1
    x = weir.tensor([odd, 3])
    for use in (lambda: x + odd, lambda: odd - x, lambda: x.fill_(odd), lambda: weir.eq(x, odd),
                lambda: weir.clamp(x, odd), lambda: weir.clamp(x, None, odd), lambda: weir.arange(3, odd),
                lambda: weir.arange(3, 0, odd)):  # fmt: skip
        with pytest.raises(ValueError, match="9007199254740993 needs more than the 53 bits"):
            use()
    assert (x + 2**62).tolist() == [2**62 + 2**53 + 1, 2**62 + 3]
    assert (x.cast(weir.float32) * 10**23).tolist()[1] == pytest.approx(3e23)


def test_bitwise_operators_of_python_equal_numpys():
    np = pytest.importorskip("numpy")
    draw = np.random.default_rng(5)
    for dtype in (np.int64, np.int32, np.int8, np.uint8):
        ends = np.iinfo(dtype)
        a = draw.integers(ends.min, ends.max, (5, 7), dtype, endpoint=True)
        b = draw.integers(ends.min, ends.max, 7, dtype, endpoint=True)
        shift = draw.integers(0, ends.bits, (5, 1), dtype)
        x, y, by = map(weir.asarray, (a, b, shift))
        pairs = (
            (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (~x, ~a), (x << by, a << shift),
            (x >> by, a >> shift), (x & 12, a & dtype(12)), (12 | x, a | dtype(12)), (x ^ 3, a ^ dtype(3)),
            (x << 3, a << dtype(3)), (x >> 2, a >> dtype(2)), (1 << by, dtype(1) << shift),
            (np.bitwise_and(x, y), a & b), (np.invert(x), ~a), (np.right_shift(x, by), a >> shift),
        )  # fmt: skip
        for got, want in pairs:
            np.testing.assert_array_equal(got.numpy(), want)
    true = weir.tensor([True, False])
    assert (~true).tolist() == [False, True] and (true & ~true).tolist() == [False, False]
    with pytest.raises(weir.TypeMismatchError, match="BitwiseAnd takes integers and bool, not f32"):
        weir.tensor([1.0]) & 1
    with pytest.raises(weir.TypeMismatchError, match="BitwiseLeftShift takes i64, i32, i8 or u8, not bool"):
        true << true


def test_scans_equal_numpys():
    np = pytest.importorskip("numpy")
    x = np.random.default_rng(6).standard_normal((3, 5000)).astype(np.float32)
    t = weir.asarray(x)
    wide = x.astype(np.float64)  # which they are added up in
    np.testing.assert_array_equal(t.cumsum().numpy(), wide.cumsum(1).astype(np.float32))
    np.testing.assert_array_equal(t.cumsum(0).numpy(), wide.cumsum(0).astype(np.float32))
    np.testing.assert_array_equal(t.T.cumprod(-1).numpy(), wide.T.cumprod(1).astype(np.float32))
    largest, places = t.cummax(1)
    np.testing.assert_array_equal(largest.numpy(), np.maximum.accumulate(x, 1))
    np.testing.assert_array_equal(np.take_along_axis(x, places.numpy(), 1), largest.numpy())
    np.testing.assert_array_equal(weir.cummin(t)[0].numpy(), np.minimum.accumulate(x, 1))
    assert weir.tensor([3, 3, 1, 3]).cummax()[1].tolist() == [0, 1, 1, 3]
    assert weir.tensor([True, False, True]).cumsum().tolist() == [1, 1, 2]
