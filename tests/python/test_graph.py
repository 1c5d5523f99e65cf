"""Graphs, plans and weir.compile."""

import collections
import math
import pathlib

import pytest

import weir


def two_streams(device=None):
    g = weir.Graph(device)
    x = g.input("x", (8, 8))
    w = weir.ones((8, 8), device=device)
    with g:
        y = x @ w
        with weir.scope.npu_stream_switch("side"):
            z = x + 1
        out = y + z
    g.output("out", out)
    return g


def test_a_plan_runs_many_times_and_edges_across_streams_are_synchronised():
    g = two_streams()
    assert len(g) == 3
    plan = g.compile(mode="reduce-overhead")
    stats = plan.stats()
    assert stats["streams"] == 2 and stats["syncs"] >= 1 and stats["nodes"] == 3
    for n in range(5):
        assert plan(weir.full((8, 8), n))[3, 4].item() == 9 * n + 1
    assert "side" in plan.list() and "digraph" in g.dot()


def test_dumps_load_as_the_same_graphs():
    g = two_streams()
    text = g.dump()
    again = weir.Graph.loads(text)
    assert again.dump() == text
    with pytest.raises(ValueError, match="mine:1:"):
        weir.Graph.loads("node {{", where="mine")


def test_a_plan_refuses_bad_inputs():
    plan = two_streams().compile()
    with pytest.raises(ValueError, match="inputs"):
        plan()
    with pytest.raises(ValueError, match=r"f32\[3\]"):
        plan(weir.ones((3,)))
    with pytest.raises(TypeError):
        plan(weir.ones((8, 8), weir.float16))
    with pytest.raises(TypeError, match="position"):
        plan(x=weir.ones((8, 8)))
    with pytest.raises(ValueError, match="side") as caught:
        two_streams().compile(single_stream=True)
    assert caught.value.code == "WEIR_ECONFLICT"
    with pytest.raises(ValueError, match="max-autotune"):
        two_streams().compile(mode="fast")


def test_compile_traces_once_per_shape():
    calls = []

    @weir.compile
    def f(x, y, scale=2):
        calls.append(x.shape)
        with weir.scope.npu_stream_switch("side"):
            z = weir.exp(y)
        return x * scale + z, {"z": z}

    for _ in range(3):
        out, named = f(weir.ones((2,)), weir.zeros((2,)))
        assert out.tolist() == [3, 3] and named["z"].tolist() == [1, 1]
    assert f(weir.ones((3,)), weir.zeros((3,)), scale=5)[0].tolist() == [6, 6, 6]
    assert calls == [(2,), (3,)]
    assert len(f.plans) == 2


def test_compile_distinguishes_numbers_that_are_equal_in_python():
    f = weir.compile(lambda x, s: x * s)
    for dtype in (weir.float32, weir.float64, weir.int64):
        x = weir.tensor([1.0, -2.0]).cast(dtype)
        for number in (0.0, -0.0, 0, False, 1, True, 1.0, 0.0, True):
            if dtype is weir.int64 and isinstance(number, float):
                continue
            got, want = f(x, number), x * number
            assert got.dtype == want.dtype and got.numpy().tobytes() == want.numpy().tobytes(), number


def test_compile_distinguishes_an_object_from_a_freed_one_at_its_address():
    class Scale:
        def __init__(self, by):
            self.by = by

    f = weir.compile(lambda x, scale: x * scale.by)
    x = weir.tensor([1.0])
    assert [f(x, Scale(float(i))).tolist() for i in range(8)] == [[float(i)] for i in range(8)]
    kept = Scale(3.0)
    f(x, kept), f(x, kept)
    assert len(f.plans) == 9


def test_compile_keeps_the_structure_of_what_it_is_given():
    Pair = collections.namedtuple("Pair", "a b")
    f = weir.compile(lambda p, **more: Pair(p.a + more["c"], {"b": [p.b]}))
    got = f(Pair(weir.ones((1,)), weir.ones((2,))), c=weir.ones((1,)))
    assert type(got) is Pair and got.a.tolist() == [2] and got.b["b"][0].tolist() == [1, 1]


def test_compile_takes_numpy_and_gives_it_back():
    np = pytest.importorskip("numpy")
    f = weir.compile(lambda x: (x @ x).sum(dim=0))
    assert f(np.ones((4, 4), np.float32)).numpy().tolist() == [16] * 4


def test_tensors_of_a_graph_have_no_values():
    g = weir.Graph()
    x = g.input("x", (1,))
    with pytest.raises(weir.Error):
        x.item()
    with pytest.raises(weir.Error):
        x + 1
    assert "graph" in repr(x)


def test_each_pass_writes_its_dump(tmp_path):
    graph = weir.Graph()
    x = graph.input("x", (4,))
    with graph:
        y = (x + 1).exp()
    graph.output("y", y)
    graph.compile(dump_dir=str(tmp_path))
    left = sorted(p.name for p in tmp_path.iterdir())
    assert len(left) > 3 and all(name.startswith("weir_") for name in left)
    last = [name for name in left if name.endswith(".pbtxt")][-1]
    again = weir.Graph.loads((tmp_path / last).read_text()).compile()
    assert again(weir.zeros((4,)))[0].item() == pytest.approx(math.e)
    with pytest.raises(weir.Error, match="no_such"):
        graph.compile(dump_dir=str(tmp_path / "no_such"))


def test_a_deadlock_of_two_ranks_is_found_without_running():
    folder = pathlib.Path(__file__).parents[2] / "examples" / "deadlock"
    device = weir.Device("npu:a3")

    def load(name):
        return weir.Graph.loads((folder / name).read_text(), name, device)

    found = load("rank0.pbtxt").check([load("rank1.pbtxt")])
    assert found[0]["kind"] == "core_deadlock" and found[0]["is_error"]
    assert found[0]["steps"] and found[0]["cycle"] and found[0]["remedy"]
    cured = load("rank0_limit8.pbtxt").check(others=[load("rank1_limit8.pbtxt")])
    assert not any(f["is_error"] for f in cured)
    with pytest.raises(TypeError, match="each of others must be a weir.Graph"):
        load("rank0.pbtxt").check([3])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:], lambda x: x[:-1], lambda x: x[-2:], lambda x: x[::2], lambda x: x[-1],
        lambda x: x[0], lambda x: x[1:][1:], lambda x: x[-3:-1], lambda x: x[None, 1:],
        lambda x: x[:, None], lambda x: x[..., None], lambda x: x[:, -1], lambda x: x[1, 2],
    ],
)  # fmt: skip
def test_indices_of_open_sizes_count_from_the_ends_of_the_run(view, named):
    numpy = pytest.importorskip("numpy")
    g = weir.Graph()
    x = g.input("x", (g.size(5) if named else -1, 4))
    with g:
        y = view(x) + 1
        direct = view(x + 1)
    g.output("y", y)
    g.output("direct", direct)
    plan = g.compile()
    for n in (5, 7, 3, 9, 4):
        array = numpy.arange(4.0 * n, dtype=numpy.float32).reshape(n, 4)
        for got in plan(weir.tensor(array)):
            assert numpy.array_equal(got.numpy(), view(array) + 1), n


def test_a_named_size_bounds_a_slice():
    numpy = pytest.importorskip("numpy")
    g = weir.Graph()
    n = g.size(5)
    x = g.input("x", (n, 4))
    with g:
        half = x[: g.size("floordiv", n, 2)] + 1
    g.output("half", half)
    plan = g.compile()
    for rows in (5, 9, 2):
        assert numpy.array_equal(plan(weir.zeros((rows, 4))).numpy(), numpy.ones((rows // 2, 4)))


def test_views_without_elements_load_as_they_were():
    g = weir.Graph()
    x = g.input("x", (5, 4))
    with g:
        y = x[:, 4:][-1:] + 1
    g.output("y", y)
    assert weir.Graph.loads(g.dump()).compile()(weir.ones((5, 4))).shape == (1, 0)
