"""Random sessions: one compiled module, called again and again with what changes in between.

Calls differ in sizes (0 and 1 among them), layouts, types, requires_grad, aliases among the arguments,
numbers, autocast and the module's own state, and take results of earlier calls for arguments. Each is
made in two worlds, compiled and eager, and after each call everything that either has is compared:
values bit for bit (whole numbers, so that every order of a sum is exact), layouts, and who shares memory.

    python tests/python/_torch/sessions.py [--seconds 60] [--first 0] [--device cpu]
"""

import contextlib
import linecache
import random

import programs
import torch


SIZES = [(2, 3), (3, 2), (3, 3), (5, 4), (8, 6), (1, 4), (4, 1), (1, 1), (0, 3), (3, 0), (17, 40), (40, 33)]
DTYPES = [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]
NUMBERS = [0.0, -0.0, 1.0, 2.0, 0.5, -1.0]


class Program:
    """The text of a module's forward. Variables are known by the letters of their sizes."""

    def __init__(self, seed, length=12):
        self.random, self.count = random.Random(seed), 0
        self.kinds = {"a": "nm", "b": "nm", "c": "nm", "v": "m"}
        self.lines, self.returned = [], []
        while len(self.lines) < length:
            self._add()
        names = list(self.kinds)
        results = self.random.sample(names, min(len(names), self.random.randint(2, 6)))
        text = "".join(f"    {line}\n" for line in self.lines)
        self.source = (
            f"def forward(self, a, b, c, v, i, k, s):\n{text}    return {', '.join(results)},\n"
        )
        name = f"<session {seed}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        space = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source, name, "exec"), space)
        self.module = type("Module", (_Module,), {"forward": space["forward"]})

    def _pick(self, *kinds):
        found = [n for n, kind in self.kinds.items() if kind in kinds]
        if not found:
            return None
        return self.random.choice(found[-3:] if self.random.random() < 0.5 else found)

    def _add(self):
        r = self.random
        kind = r.choice(("nm", "nm", "nm", "mn", "n", "m", ""))
        x, y = self._pick(kind), self._pick(kind)
        if x is None:
            return
        if r.random() < 0.35:
            self.lines.append(r.choice(self._updates(kind, x, y)))
            return
        how, made = r.choice(self._values(kind, x, y))
        self.count += 1
        self.lines.append(f"v{self.count} = {how}")
        self.kinds[f"v{self.count}"] = made

    def _updates(self, kind, x, y):
        m = self._pick("m")
        found = [
            f"{x}.add_(1)", f"{x}.mul_(s).clamp_(-32, 32)", f"{x}.copy_({y})", f"{x}.neg_()",
            f"{x}.add_({y}).clamp_(-32, 32)", f"{x}.clamp_(-3, 2)", f"{x}.fill_(s)", f"{x}.zero_()",
            f"{x}.masked_fill_({y} > 0, s)", f"{x}.sub_(self.count.to({x}.dtype)).clamp_(-32, 32)",
            "self.count.add_(1)", f"{x}.relu_()",
        ]  # fmt: skip
        if kind == "nm":
            found += [
                f"{x}[k:].add_(2)", f"{x}[..., 1:].mul_(-1)", f"{x}[:, :k] = {y}[:, :k]",
                f"{x}.t().add_(1)", f"{x}.view({x}.shape).add_(3)", f"{x}.index_add_(0, i, {y}[:2])",
                f"{x}[i] = {y}[i]", f"{x}.copy_({m})", f"{x}[1:].copy_({x}[:-1].clone())",
                f"{x}.index_copy_(0, i[:1], {y}[:1])", f"{x}.T[-1:].fill_(4)", f"{x}.flatten().add_(1)",
                f"torch.add({x}, {y}, out={x}).clamp_(-32, 32)",
            ]  # fmt: skip
        if kind == "m":
            found += [f"{x}[:k].add_(1)", f"{x}[-1:].copy_({y}[:1])"]
        return found

    def _values(self, kind, x, y):
        m, n = self._pick("m"), self._pick("n")
        turned = {"nm": "mn", "mn": "nm"}.get(kind, kind)
        found = [
            (f"({x} + {y}).clamp(-32, 32)", kind), (f"({x} * {y}).clamp(-32, 32)", kind),
            (f"{x} * s", kind), (f"{x} + s", kind), (f"(({x} / s) > 0).to({x}.dtype)", kind),
            (f"{x}.t()" if kind in ("nm", "mn") else f"{x}[...]", turned), (f"{x}.clone()", kind),
            (f"torch.where({x} > {y}, {x}, {y} + k)", kind), (f"{x}.float().to({x}.dtype)", kind),
            (f"torch.maximum({x}, {y})", kind), (f"{x}.sum().clamp(-32, 32)", ""),
            (f"F.dropout({x}, 0.5, training=False)", kind), (f"{x} - self.count", kind),
            (f"F.dropout({x}, 1.0, training=True)", kind), (f"{x}.detach()", kind),
            (f"{x} * self.scale", kind), (f"({x} * self.w).clamp(-32, 32)", kind),
            (f"{x} * {x}.shape[0] if {x}.ndim else {x}", kind), (f"torch.zeros_like({x})", kind),
            (f"{x}.contiguous()", kind), (f"{x}.abs().sqrt().floor()", kind),
            (f"torch.full_like({x}, k)", kind),
        ]  # fmt: skip
        if kind == "nm":
            found += [
                (f"{x}.sum(1).clamp(-32, 32)", "n"), (f"{x}.sum(0).clamp(-32, 32)", "m"),
                (f"{x}[0]", "m"), (f"{x}[:, -1]", "n"), (f"{x}[-1]", "m"), (f"{x}.select(1, 0)", "n"),
                (f"{x}.flip(0)", "nm"), (f"{x}.roll(1, 1)", "nm"), (f"torch.cat([{x}[k:], {x}[:k]])", "nm"),
                (f"{x}.view(-1).view({x}.shape)" if x in "abc" else f"{x}.reshape(-1).view({x}.shape)", "nm"),
                (f"({x} + {m}).clamp(-32, 32)", "nm"), (f"({x}.cumsum(0) + 0).clamp(-32, 32)", "nm"),
                (f"({x}.clamp(-2, 2) @ {y}.t().clamp(-2, 2)).clamp(-32, 32).sum(0).clamp(-32, 32)", "n"),
                (f"F.linear({x}.clamp(-2, 2), {y}.clamp(-2, 2)).amax(1)", "n"),
                (f"torch.sort({x}, 1, stable=True)[0]", "nm"), (f"{x}.amax(0)", "m"),
                (f"torch.cat([{x}, {y}], 0)[::2]", "nm"), (f"torch.stack([{x}, {y}])[1]", "nm"),
                (f"torch.chunk(torch.cat([{x}, {y}], 1), 2, 1)[1]", "nm"), (f"{x}.tril()", "nm"),
                (f"F.pad({x}, (1, 1))[:, 1:-1]", "nm"), (f"{x}.expand(2, *{x}.shape)[1]", "nm"),
                (f"{m}.expand({x}.shape)", "nm"), (f"{x}.index_select(0, i).sum(0).clamp(-32, 32)", "m"),
                (f"torch.split({x}, [k, {x}.shape[0] - k])[1].sum(0).clamp(-32, 32)", "m"),
                (f"{x}.as_strided(({x}.shape[1],), (1,))" if x in "abc" else f"{x}[0]", "m"),
                (f"({x}.cumsum(1) + 0).clamp(-32, 32)[:, -1]", "n"),
                (f"{x}.repeat_interleave(2, 0)[::2]", "nm"), (f"{x}.argmax(1).to({x}.dtype)", "n"),
                (f"torch.softmax({x}, 1).sum(1).round()", "n"),
                (f"torch.arange({x}.shape[1]).to({x}.dtype)", "m"),
            ]  # fmt: skip
            if n:
                found.append((f"({x} + {n}[:, None]).clamp(-32, 32)", "nm"))
        if kind == "m":
            found += [(f"{x}.flip(0)", "m"), (f"torch.sort({x})[0]", "m"), (f"{x}.roll(k)", "m")]
        return found


class _Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.scale = 1.0
        self.w = torch.nn.Parameter(torch.tensor(2.0), requires_grad=False)


class World:
    """What one side has: the module, and all tensors that calls took and gave."""

    def __init__(self, module, compile):
        self.module, self.pool = module(), []
        self.run = compile(self.module)

    def call(self, make):
        args = make(self)
        self.pool += [x for x in args if isinstance(x, torch.Tensor)]
        results = self.run(*args)
        self.pool += results
        self.grads = []
        wanted = [x for x in results if x.requires_grad]
        leaves = [x for x in args[:4] if x.requires_grad and x.is_leaf]
        if wanted and leaves:
            given = [_gradient(at, x) for at, x in enumerate(wanted)]
            grads = torch.autograd.grad(wanted, leaves, given, allow_unused=True)
            self.grads = [torch.zeros(()) if g is None else g for g in grads]
        state = [self.module.count, self.module.w]
        return results, [*results, *self.pool, *state], self.grads


class Session:
    """Seven or so calls. ``wrong`` has sentences."""

    def __init__(self, seed, backend, dynamic, grad):
        torch._dynamo.reset()
        self.seed, self.random, self.grad = seed, random.Random(seed), grad
        self.program = Program(seed, self.random.randint(3, 14))
        self.ours = World(self.program.module, lambda m: torch.compile(
            m, backend=backend, dynamic=dynamic, fullgraph=True))  # fmt: skip
        self.theirs = World(self.program.module, lambda m: m)
        self.dtype, self.size = self.random.choice(DTYPES), self.random.choice(SIZES)
        self.log = []

    def run(self, calls=8):
        """(calls made, sentences)."""
        for number in range(calls):
            make, around = self._next(number)
            try:
                with around():
                    want = self.theirs.call(make)
            except Exception as error:  # eager PyTorch refuses it: nothing to compare
                self.log.append(f"eager: {str(error)[:80]}")
                return number, []
            with around():
                got = self.ours.call(make)
            wrong = programs.compare(got[1:], want[1:])
            wrong += _exact(got[1] + got[2], want[1] + want[2])
            if wrong:
                return number, [f"call {number}: {text[:400]}" for text in wrong[:4]]
        return calls, []

    # ---- what the next call is ----

    def _next(self, number):
        r = self.random
        if r.random() < 0.5:
            self.size = r.choice(SIZES)
        if r.random() < 0.25:
            self.dtype = r.choice(DTYPES)
        n, m = self.size
        seeds = [r.randrange(1 << 30) for _ in range(4)]
        ways = [r.choice(("fresh", "fresh", "turned", "rows", "columns", "old", "old")) for _ in range(3)]
        twice, view, changes = r.random() < 0.15, r.random() < 0.15, r.random()
        wants = self.grad and r.random() < 0.7
        k, s, pick = r.choice((0, 1, 2, n // 2)), r.choice(NUMBERS), r.randrange(1 << 30)
        cast = r.choice((None, None, None, torch.bfloat16))
        dtype, quiet = self.dtype, r.random() < 0.3
        self.log.append(f"{number}: {self.size} {dtype} {ways} twice={twice} view={view} grad={wants} "
                        f"k={k} s={s} cast={cast} change={changes:.2f} quiet={quiet}")  # fmt: skip

        def make(world):
            if changes < 0.1:
                world.module.scale = 2.0 - world.module.scale / 2
            elif changes < 0.2:
                world.module.count = world.module.count + 1  # another tensor
            elif changes < 0.3:
                world.module.w = torch.nn.Parameter(world.module.w.detach() * -1, requires_grad=False)
            elif changes < 0.4:
                world.module.w.data.fill_(3.0)
            a, b, c = (self._tensor(world, way, n, m, dtype, seed, pick) for way, seed in zip(ways, seeds))
            v = _numbers((m,), dtype, seeds[3])
            if twice:
                b = a
            if view and n:
                v = a[n - 1]
            if wants:
                b = b.detach().clone().requires_grad_(True)
            i = torch.tensor([n - 1, 0]) if n else torch.zeros(2, dtype=torch.int64)
            return a, b, c, v, i, k, s

        @contextlib.contextmanager
        def around():
            with contextlib.ExitStack() as stack:
                if cast:
                    stack.enter_context(torch.autocast("cpu", dtype=cast))
                if quiet and not wants:
                    stack.enter_context(torch.no_grad())
                yield

        return make, around

    def _tensor(self, world, way, n, m, dtype, seed, pick):
        if way == "old":
            fits = [t for t in world.pool if t.shape == (n, m) and t.dtype == dtype]
            if fits:
                return fits[pick % len(fits)]
        if way == "turned":
            return _numbers((m, n), dtype, seed).t()
        if way == "rows":
            return _numbers((n + 2, m), dtype, seed)[1 : n + 1]
        if way == "columns":
            return _numbers((n, m + 3), dtype, seed)[:, 2 : 2 + m]
        return _numbers((n, m), dtype, seed)


def _gradient(at, x):
    """One for a result, in one layout or another."""
    ones = torch.ones((), dtype=x.dtype).expand(x.shape)
    if at % 4 == 0:
        return ones
    whole = (torch.arange(x.numel(), dtype=torch.int64).view(x.shape) % 5 - 2).to(x.dtype)
    if at % 4 == 1 and x.ndim == 2:
        return whole.t().contiguous().t()
    if at % 4 == 2 and x.ndim:
        return torch.stack([whole, whole], -1)[..., 1]
    return whole


def _numbers(shape, dtype, seed):
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _exact(got, want):
    wrong = []
    for at, (x, y) in enumerate(zip(got, want)):
        x, y = x.detach(), y.detach()
        if x.shape == y.shape and x.dtype == y.dtype:
            if not torch.equal(x.isnan(), y.isnan()) or not torch.equal(x.nan_to_num(), y.nan_to_num()):
                wrong.append(f"tensor {at}: {x.tolist()} instead of {y.tolist()}")
            elif not torch.equal(torch.signbit(x) & ~x.isnan(), torch.signbit(y) & ~y.isnan()):
                wrong.append(f"tensor {at}: signs of {x.tolist()} instead of {y.tolist()}")
    return wrong


def try_seed(seed):
    """(calls compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    dynamic, grad = pick.choice((True, None, False)), pick.random() < 0.35
    session = None
    try:
        session = Session(seed, programs.backend_for(pick), dynamic, grad)
        done, wrong = session.run()
    except Exception as error:
        done, wrong = 0, [f"{type(error).__name__}: {str(error)[:600]}"]
    if not wrong:
        return done, []
    with contextlib.suppress(Exception):
        other = Session(seed, "aot_eager", dynamic, grad)
        if other.run()[1]:
            return 0, []
        source, log = session.program.source, "\n".join(session.log)
        return done, [f"seed {seed}, dynamic={dynamic}, grad={grad}", *wrong, source, log]
    return 0, []  # PyTorch refuses it without weir, too


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("random sessions against eager PyTorch", "calls of sessions", try_seed))
