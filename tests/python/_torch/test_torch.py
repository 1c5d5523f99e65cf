"""torch.compile with weir's backend."""

import sys
import threading

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

from compiling import compiled, fresh, same  # noqa: E402,F401
from torch.utils import _pytree as pytree  # noqa: E402
from torch.utils._python_dispatch import return_and_correct_aliasing  # noqa: E402

F = torch.nn.functional


def test_other_operators_run_as_pytorchs_inside_the_stream():
    def model(x, index):
        with weir.scope.npu_stream_switch("side"):
            a = torch.cumsum(x + 1, dim=1)
            b = torch.fft.fft(a)  # complex: bytes to weir
            c = (b * b.conj()).real
        d, e = torch.linalg.qr(x[:4, :4])
        f = torch.var_mean(x, dim=0)
        nine = x.view(1, 1, 1, 1, 1, 1, 1, 6, 8) + 1  # dims: more than weir has
        return a, c, d @ e, f, x[index], torch.full((2,), 3.0), torch.bitwise_not(index), nine

    f, backend = compiled(model, mode="reduce-overhead")
    x, index = torch.randn(6, 8), torch.tensor([2, -1])
    with weir.trace() as t:
        got = f(x, index)
    same(got, model(x, index), 1e-4)
    on_side = [op["name"] for op in t.ops if op["stream"] == "side"]
    assert sum("HostCall" in name for name in on_side) >= 3 and "Add_0" in on_side
    assert "aten._fft_r2c.default" in backend.coverage.fallback
    report = str(backend.coverage)
    assert "aten._fft_r2c.default runs as PyTorch's kernel" in report and "operators are weir's" in report


def test_values_that_depend_only_on_a_shape_are_constants():
    def model(x, index):
        zeros = torch.zeros_like(x)
        with weir.scope.npu_stream_switch("side"):
            ones = torch.ones_like(x, dtype=torch.int64)
        made = x.new_zeros(4), x.new_full((2, 2), 7), torch.full_like(index, 3) + 0.5
        return zeros, zeros.scatter_add(-1, index, x), ones, torch.full_like(x, 2.5) * x, made

    f, backend = compiled(model)
    x, index = torch.randn(4, 5), torch.randint(0, 5, (4, 5))
    for _ in range(2):
        got = f(x, index)
        same(got, model(x, index))
        got[0].fill_(9)  # a caller's own: the constant stays
    assert not backend.coverage.fallback
    large = torch.ones(1100, 1000)
    f, backend = compiled(lambda x: torch.zeros_like(x) + x)
    same(f(large), large)
    assert "aten.zeros_like.default" in backend.coverage.fallback


def test_operators_that_only_check_run_although_their_results_are_unused(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda *a: None)

    def f(x):
        torch._assert_async((x.sum() > 0).all(), "the sum must be positive")
        return torch.linalg.cholesky(x) * 2

    run = torch.compile(f, backend=weir.get_npu_backend(), fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(run(torch.eye(3)), 2 * torch.eye(3))
        for wrong in (torch.zeros(3, 3), torch.diag(torch.tensor([3.0, -1.0, 3.0]))):
            with weir.npu.stream(weir.npu.Stream()), pytest.raises(weir.KernelError):
                run(wrong)
        torch.testing.assert_close(run(torch.eye(3)), 2 * torch.eye(3))


def test_operators_with_more_outputs_than_a_call_has():
    def model(x, h):
        return torch.split(torch.cumsum(x, 0), 1), torch.histogramdd(x, [2, 2, 2, 2, 2])

    f, _ = compiled(model)
    x = torch.rand(7, 5)
    got, want = f(x, x), model(x, x)
    same(list(got[0]), list(want[0]))
    same(got[1][0], want[1][0])
    same(list(got[1][1]), list(want[1][1]))


def test_random_numbers_are_new_at_every_call_and_follow_the_seed():
    f, _ = compiled(lambda x: x + torch.rand(4))
    x = torch.zeros(4)
    torch.manual_seed(3)
    first, second = f(x), f(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(f(x), first)


def test_types_promote_as_in_pytorch():
    def model(i, f, h, b):
        return (
            i + f, i / 2, i * 2.5, h + f, b + i, i // 2, b.sum(), i.float().mean(), h * 2, -i,
            i > 1, f > i, 3 - i, i**2, f.to(torch.int32), torch.where(b, f, 0.0), b * f, b & b,
            f.clamp(-0.5, 0.5), i.clamp(0, 1), torch.maximum(f, h.float()), i.sum(dtype=torch.float32),
        )  # fmt: skip

    f, backend = compiled(model)
    args = (
        torch.tensor([1, -2, 3]),
        torch.tensor([0.5, -1.5, 2.0]),
        torch.tensor([1.0, 2.0, -3.0], dtype=torch.float16),
        torch.tensor([True, False, True]),
    )
    for got, want in zip(f(*args), model(*args)):
        assert got.dtype == want.dtype
        same(got, want)


def test_views_layouts_and_shared_results():
    def model(x, w):
        t = x.transpose(0, 1)
        y = t.reshape(2, -1)
        parts = torch.chunk(y, 2, dim=1)
        same_twice = x + 1
        return (
            t, y[:, 1::2], y[-1], parts[1], x.permute(1, 0).contiguous(), w.t() @ x, same_twice,
            same_twice, x, x.unsqueeze(1).expand(4, 3, 6), torch.stack([x, x], 1), x[None, ..., :2],
            torch.cat([x, x[:1]]), x.squeeze(), x.view(-1).view(3, 8),
        )  # fmt: skip

    f, _ = compiled(model)
    x, w = torch.randn(4, 6), torch.randn(6, 4).t()
    got, want = f(x, w), model(x, w)
    for at, (a, b) in enumerate(zip(got, want)):
        same(a, b)
        dense = at not in (1, 3, 9, 11)  # others have gaps in PyTorch, none in weir
        assert a.shape == b.shape and (not dense or a.stride() == b.stride())
    assert got[8] is x


def test_a_layout_that_was_not_compiled_for():
    f, backend = compiled(lambda x: x.t() + 1)
    x = torch.randn(4, 6)
    same(f(x), x.t() + 1)
    y = torch.randn(8, 6)[::2]
    same(f(y), y.t() + 1)


def test_inputs_and_results_are_shared_not_copied(monkeypatch):
    f, _ = compiled(lambda x: x * 2)
    x = torch.ones(1 << 16)
    f(x)
    before = weir.memory_allocated()
    peak = weir.max_memory_allocated()
    out = f(x)
    assert out[0] == 2 and weir.memory_allocated() == before
    assert weir.max_memory_allocated() == peak


def test_small_arguments_that_move_keep_their_values():
    """It is copied to a place that stays, which two calls must not share."""
    f, _ = compiled(lambda x, w: (x * w + 1, x.sum()))
    w = torch.full((8,), 3.0)
    kept, wrong = [], []
    with torch.no_grad():
        for n in range(40):
            kept.append((n, f(torch.full((8,), float(n)), w)))

    def call(start):
        with torch.no_grad(), weir.stream(weir.Stream()):
            for n in range(start, start + 100):
                y, total = f(torch.full((8,), float(n)), w)
                if y.tolist() != [3 * n + 1] * 8 or total != 8 * n:
                    wrong.append(n)

    threads = [threading.Thread(target=call, args=(1000 * i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    for n, (y, total) in kept:
        assert y.tolist() == [3 * n + 1] * 8 and total == 8 * n


def test_inputs_changed_in_place():
    def model(x):
        x.add_(1)
        return x * 2

    f, _ = compiled(model)
    x = torch.ones(4)
    assert f(x).tolist() == [4] * 4 and x.tolist() == [2] * 4


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.body = torch.nn.Linear(4, 4)

    def forward(self, x):
        self.calls.add_(1)
        return self.body(x).chunk(2, -1)


@pytest.mark.parametrize(
    "plain, model",
    [
        (True, lambda x: x * 2 + 1),
        (True, lambda x: (torch.cumsum(x, 0), [x.sum(), {"k": x.t().contiguous()}], 3)),
        (True, torch.nn.Linear(4, 4)),
        (False, lambda x: (x, x.view(-1), x * 2)),
        (True, lambda x: ((y := x + 1), y[0], y.t())),
        (False, lambda x: x.mul_(2) + 1),
        (False, Halves()),
    ],
)
def test_calls_bypass_pytorchs_wrappers_only_if_these_do_nothing(plain, model, monkeypatch):
    from weir._torch import direct

    found = []
    ask = direct.is_plain
    monkeypatch.setattr(direct, "is_plain", lambda inputs: found.append(ask(inputs)) or found[-1])
    f, _ = compiled(model)
    x = torch.randn(4, 4)
    for _ in range(2):
        mine, theirs = x.clone(), x.clone()
        with torch.no_grad():
            got, want = f(mine), model(theirs)
        same(got, want)
        same(mine, theirs)
        assert mine.shape == theirs.shape and mine.stride() == theirs.stride()
    assert found == [plain]


class Around(torch.Tensor):
    """A tensor around another, as a DTensor of one rank is."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=held.device
        )

    def __init__(self, held):
        self.held = held

    def __repr__(self):  # PyTorch's own would look at the values
        return "Around()"

    def __tensor_flatten__(self):
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Around(parts["held"])

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        bare = pytree.tree_map_only(Around, lambda x: x.held, (args, kwargs or {}))
        made = pytree.tree_map_only(torch.Tensor, Around, op(*bare[0], **bare[1]))
        return return_and_correct_aliasing(op, args, kwargs or {}, made)


@pytest.mark.parametrize(
    "put, model",
    [
        (Around, lambda x: (x * 2 + 1).held),
        (Around, lambda x: x * 2 + 1),
        (Around, lambda x: x.mul_(2) + 1),
        (torch.clone, lambda x: Around(x * 2 + 1)),
        (torch.clone, lambda x: (x * 2, Around(x + 1))),
    ],
)
def test_tensor_subclasses_are_unwrapped_and_wrapped(put, model):
    f, _ = compiled(model)
    x = torch.randn(4, 6)
    for _ in range(2):
        mine, theirs = put(x.clone()), put(x.clone())
        with torch.no_grad():
            pairs = zip(*map(pytree.tree_leaves, ((f(mine), mine), (model(theirs), theirs))))
        for got, want in pairs:
            assert type(got) is type(want)
            same(getattr(got, "held", got), getattr(want, "held", want))


def test_results_that_are_views_of_each_other_stay_views():
    def model(x):
        y = x + 1
        t = x.t() * 2  # laid out as x is
        return y[1:], y, y.t(), y[0], y.view(-1), t, t[0], (x * 3)[1], y

    f, backend = compiled(model)
    x = torch.randn(4, 6)
    for _ in range(2):
        got, want = f(x), model(x)
        for a, b in zip(got, want):
            same(a, b)
            assert a.shape == b.shape and a.stride() == b.stride()
        for at in (0, 2, 3, 4):
            assert got[at].untyped_storage().data_ptr() == got[1].data_ptr()
        got[1].fill_(7)
        assert got[3].tolist() == [7] * 6 and got[8] is got[1]
        assert got[6].untyped_storage().data_ptr() == got[5].untyped_storage().data_ptr()


def test_autocast_applies_to_the_compiled_graph():
    def model(x):
        return torch.cumsum(x @ x, 0), (x @ x).dtype == torch.bfloat16

    f, _ = compiled(model)
    x = torch.randn(8, 8)
    with torch.no_grad():
        same(f(x)[0], model(x)[0], 1e-4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = f(x), model(x)
    assert got[1] and got[0].dtype == want[0].dtype
    same(got[0], want[0], 5e-2)


def test_results_like_another_tensor_have_its_strides():
    def f(x):
        return torch.zeros_like(x.t()), torch.ones_like(x.t()[:, ::2]), x.new_zeros(3)

    x = torch.randn(4, 6)
    for dynamic in (False, True):
        torch._dynamo.reset()
        got = compiled(f, dynamic)[0](x)
        torch.testing.assert_close(got, f(x), check_stride=True)


def test_a_plan_serves_dynamic_shapes():
    def model(x):
        with weir.scope.npu_stream_switch("side"):
            y = x.reshape(x.shape[0] * x.shape[1]) * x.shape[0]
        return y, x.sum(dim=0), torch.cumsum(x, 0)

    f, backend = compiled(model, dynamic=True)
    for n in (2, 3, 5, 3, 2):
        x = torch.randn(n, 7)
        same(f(x), model(x))
    assert len(backend.graphs) == 1 and len(backend.graphs[0].plans) == 1


def test_training_gives_pytorchs_gradients():
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    )
    f, _ = compiled(model)
    x, target = torch.randn(5, 8), torch.randint(0, 4, (5,))
    F.cross_entropy(f(x), target).backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(x), target).backward()
    same(got, [p.grad for p in model.parameters()], 1e-5)


def test_modules_of_all_kinds_compile():
    models = [
        (torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)),
        (torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4),
                             torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()),
         torch.randn(2, 3, 8, 8)),
        (torch.nn.MultiheadAttention(8, 2, batch_first=True), None),
    ]  # fmt: skip
    for module, x in models:
        module.eval()
        args = (torch.randn(2, 5, 8),) * 3 if x is None else (x,)
        f, _ = compiled(module)
        with torch.no_grad():
            same(f(*args), module(*args), 1e-4)


def test_an_error_of_a_kernel_is_an_exception(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda *a: None)
    f, _ = compiled(lambda t, i: F.embedding(i, t))
    good = f(torch.ones(3, 2), torch.tensor([1]))
    assert good.tolist() == [[1, 1]]
    weir.Stream().set_current()  # its error must not stay with the default stream
    with pytest.raises(weir.Error):
        f(torch.ones(3, 2), torch.tensor([7]))
    weir.default_stream().set_current()
    assert f(torch.ones(3, 2), torch.tensor([1])).tolist() == [[1, 1]]


def test_swiglu_eagerly_and_compiled(split):
    x = torch.randn(2, 16)
    want = F.silu(x[:, :8]) * x[:, 8:]
    s = weir.npu.current_stream()
    weir.npu.set_stream_limit(s, 3, 8)
    with weir.trace() as t, weir.npu.stream(s):
        same(weir.npu.npu_swiglu(x, dim=-1), want)
    assert t.named("Swiglu")[0]["cores"] <= 8
    f, backend = compiled(lambda x: weir.npu.npu_swiglu(x))
    same(f(x), want)
    assert "weir.swiglu.default" in backend.coverage.native
    x.requires_grad_(True)
    weir.npu.npu_swiglu(x).sum().backward()
    assert x.grad is not None
