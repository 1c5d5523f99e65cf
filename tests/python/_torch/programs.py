"""Random programs of PyTorch: views, updates in place, aliases, results that are arguments.

``Program(seed)`` is a Python function with its text, and arguments of several sizes. ``compare``
says where a compiled one differs from eager PyTorch: values, sizes, strides, offsets, which
results and arguments share memory, requires_grad, and gradients.

    python tests/python/_torch/programs.py [--seconds 60] [--first 0] [--threads 3] [--calls 100]

runs programs until the time is over and says how many operators were equal to eager ones.
"""

import argparse
import linecache
import logging
import random
import threading
import time
import warnings

import torch
from torch.utils import _pytree as pytree

import weir

# Sizes of the arguments, by (n, m): a program must be right for all of them.
SIZES = [(4, 6), (7, 5), (8, 3), (5, 6)]

# What Dynamo says, with any backend, of some calls while another thread compiles something: they
# are made again.
REFUSED = ("symbolically trace a dynamo-optimized", "Attempt to trace generator")

# How an argument lies in memory: name and what makes it of random numbers of a size.
_LAYOUTS = {
    "dense": lambda make, n, m: make(n, m),
    "turned": lambda make, n, m: make(m, n).t(),
    "rows of more": lambda make, n, m: make(n + 3, m)[2 : 2 + n],
    "columns of more": lambda make, n, m: make(n, m + 4)[:, 3 : 3 + m],
    "each second": lambda make, n, m: make(2 * n, m)[::2],
}


_TURNS = tuple(".t_() .squeeze_() .unsqueeze_(0)".split()) + tuple(
    f".transpose_(0, {d})" for d in range(6)
)


class Program:
    """``source`` is its text, ``length`` how many statements it has."""

    def __init__(self, seed, length=20, grad=None, scopes=True):
        self.seed, self.random = seed, random.Random(seed)
        self.grad = self.random.random() < 0.3 if grad is None else grad
        self.layouts = [self.random.choice(list(_LAYOUTS)) for _ in range(3)]
        self.aliased = self.random.random() < 0.25  # b is a view of a
        self.length, self.count = 0, 0
        self.lines, self.scopes = [], scopes
        self.rough = set()  # variables whose values are not the same to the last bit
        self._environments = [self._environment(size) for size in SIZES]
        for _ in range(length):
            self._add()
        self._finish()

    # ---- arguments ----

    def arguments(self, size, seed=0):
        """Fresh arguments; the same ones for the same seed."""
        n, m = size
        generator = torch.Generator().manual_seed(1000 * self.seed + seed)

        def make(*shape):
            return torch.randint(-3, 4, shape, generator=generator).float()

        a, b, c = (_LAYOUTS[layout](make, n, m) for layout in self.layouts)
        if self.aliased:
            b = a[1:]
        index = torch.randint(0, min(n, m) - 1, (3,), generator=generator)
        if self.grad:
            a = a.requires_grad_(True) if a.is_leaf and a._base is None else a
            leaf = torch.randint(-3, 4, (n, m), generator=generator).float().requires_grad_(True)
            return a, b, leaf, index, n // 2
        return a, b, c, index, n // 2

    def _environment(self, size):
        names = dict(zip(("a", "b", "c", "index", "k"), self.arguments(size)))
        return {**names, "torch": torch, "weir": weir}

    # ---- statements ----

    def _tensors(self, want=lambda t: True):
        first = self._environments[0]
        return [
            name for name, t in first.items()
            if isinstance(t, torch.Tensor) and name != "index" and want(t)
        ]  # fmt: skip

    def _pick(self, want=lambda t: True):
        found = self._tensors(want)
        if not found:
            return None
        # What was made last is used most.
        return self.random.choice(found[-4:] if self.random.random() < 0.6 else found)

    def _add(self):
        for _ in range(30):
            kind = self.random.choices(
                (self._view, self._update, self._compute, self._parts), (5, 3, 4, 2)
            )[0]
            line = kind()
            if line and self._try(line):
                self.lines.append(line)
                self.length += 1
                return

    def _try(self, line):
        """Whether the statement is one for all sizes; it is done then."""
        saved = []
        for environment in self._environments:
            copy = dict(environment)
            saved.append(copy)
            try:
                exec(line, copy)
            except Exception:
                return False
            ranks = {
                k: (t.ndim, t.dtype) for k, t in copy.items() if isinstance(t, torch.Tensor)
            }
            if ranks != {
                k: (t.ndim, t.dtype) for k, t in saved[0].items() if isinstance(t, torch.Tensor)
            }:
                return False
            if any(t.ndim > 5 or t.numel() > 4000 for t in copy.values()
                   if isinstance(t, torch.Tensor)):  # fmt: skip
                return False
        self._environments = saved
        return True

    def _name(self):
        self.count += 1
        return f"v{self.count}"

    def _view(self):
        x = self._pick(lambda t: t.ndim > 0)
        if x is None:
            return None
        ndim = self._environments[0][x].ndim
        r, made = self.random, self._name()
        d, e = r.randrange(ndim), r.randrange(ndim)
        start, stop = r.choice(("1", "k", "-2", "0", f"{x}.shape[{d}] // 2")), r.choice(("", "-1", "k"))
        lead = ":, " * d
        order = list(range(ndim))
        r.shuffle(order)
        how = r.choice([
            f"{x}[{lead}{start}:]", f"{x}[{lead}:{start}]", f"{x}[{lead}{start}:{stop}]",
            f"{x}[{lead}::2]", f"{x}[{lead}{r.choice(('0', '-1', '1'))}]", f"{x}.transpose({d}, {e})",
            f"{x}.permute({tuple(order)})", f"{x}.unsqueeze({d})", f"{x}.squeeze({d})",
            f"{x}.narrow({d}, {r.choice((0, 1))}, {x}.shape[{d}] // 2)", f"{x}.view(-1)",
            f"{x}.reshape({x}.shape[0], -1)", f"{x}.flatten()", f"{x}[None]", f"{x}[..., None]",
            f"{x}.unsqueeze({d}).expand({'-1, ' * d}2{', -1' * (ndim - d)})", f"{x}.detach()",
            f"{x}.movedim({d}, {e})", f"{x}.diagonal()", f"{x}.unfold({d}, 2, 1)",
            f"{x}.select({d}, 1)", f"{x}.view({x}.shape)", f"{x}.alias()", f"{x}.T",
            f"{x}.view(torch.int32)", f"{x}[...]", f"{x}.swapaxes({d}, {e})",
            f"torch.as_strided({x}, (2, 2), (2, 1), 1)", f"{x}.contiguous()",
        ])  # fmt: skip
        if x in self.rough and "int32" in how:
            return None
        self._spread(made, x)
        return f"{made} = {how}"

    def _parts(self):
        x = self._pick(lambda t: t.ndim > 0)
        if x is None:
            return None
        r, d = self.random, self.random.randrange(self._environments[0][x].ndim)
        names = [self._name(), self._name()]
        how = r.choice([
            f"torch.chunk({x}, 2, {d})", f"torch.split({x}, ({x}.shape[{d}] + 1) // 2, {d})",
            f"{x}.tensor_split(2, {d})", f"{x}.unbind({d})[:2]",
            f"torch.split({x}, [1, {x}.shape[{d}] - 1], {d})", f"{x}.max({d})",
            f"({x}, {x} + 1)", f"torch.topk({x}, 2, {d})", f"torch.sort({x}, {d}, stable=True)",
        ])  # fmt: skip
        if x in self.rough and any(word in how for word in ("max", "topk", "sort")):
            return None
        if self.grad and ("topk" in how or "max" in how):
            return None  # nor who gets the gradient
        if "topk" in how or "max" in how:
            how = f"({how}[0], {x})"  # which of equal ones is found is not said
        for name in names:
            self._spread(name, x)
        return f"{names[0]}, {names[1]} = {how}"

    def _update(self):
        x = self._pick()
        if x is None:
            return None
        r, y = self.random, self._pick()
        ndim = self._environments[0][x].ndim
        how = r.choice([
            f"{x}.add_(1)", f"{x}.mul_(-1)", f"{x}.copy_({y})", f"{x}.zero_()", f"{x}.fill_(2)",
            f"{x}.add_({y}).clamp_(-64, 64)", f"{x}.sub_({y}).clamp_(-64, 64)", f"{x}.clamp_(-1, 2)",
            f"{x}.masked_fill_({x} > 1, -1)", f"{x}.relu_()", f"{x}[..., 1:].mul_(2).clamp_(-64, 64)",
            f"{x}[k:].mul_(2).clamp_(-64, 64)", f"{x}[0] = {y}", f"{x}[..., -1] = 3",
            f"{x}[index] = 5", f"{x}.index_add_(0, index, {x}[:3])", f"{x}.t_()",
            f"{x}.unsqueeze_(0)", f"{x}.transpose_(0, {max(ndim - 1, 0)})", f"{x}.neg_()",
            f"{x}.view(-1)[1:].add_(1)", f"{x}.sub_({x}.mean().round())", f"{x}.squeeze_()",
        ])  # fmt: skip
        if x in self.rough and any(word in how for word in ("> 1", "mean")):
            return None
        if how.endswith(_TURNS) and x in "abc":
            return None  # Dynamo refuses it
        if "_(" in how and y in self.rough and f"({y})" in how or f"= {y}" in how:
            self._soil(x)
        return how

    def _compute(self):
        x, y = self._pick(), self._pick()
        if x is None:
            return None
        r, made = self.random, self._name()
        d = r.randrange(max(self._environments[0][x].ndim, 1))
        rough = False
        how = r.choice([
            f"({x} + {y}).clamp(-64, 64)", f"({x} * {y}).clamp(-64, 64)", f"{x} - 1", f"{x} * 2 - 3",
            f"-{x}", f"{x}.abs()", f"torch.relu({x})", f"{x}.sum({d}).clamp(-64, 64)",
            f"{x}.sum().clamp(-64, 64)", f"torch.cumsum({x}, {d}).clamp(-64, 64)",
            f"torch.cat([{x}, {x}[:1]])", f"torch.stack([{x}, {y}])", f"{x}.clone()",
            f"{x}.amax({d})", f"torch.maximum({x}, {y})", f"torch.where({x} > 0, {x}, {y})",
            f"({x} @ {x}.transpose(-1, -2)).clamp(-64, 64)", f"{x}.to(torch.float64)",
            f"{x}.to(torch.int64)", f"{x}.float()", f"torch.zeros_like({x})", f"{x}.new_ones(3)",
            f"torch.arange({x}.shape[0])", f"{x}.flip({d})", f"{x}.roll(1, {d})", f"{x}[index]",
            f"{x}.index_select({d}, index)", f"torch.tanh({x})", f"torch.softmax({x}, {d})",
            f"{x}.exp().clamp(max=9)", f"{x}.mean({d}, keepdim=True)", f"{x}.repeat(2, 1)",
            f"torch.full_like({x}, 2)", f"{x}.tril()", f"{x} == {y}", f"torch.complex({x}, {x}).conj()",
            f"{x}.real", f"{x}.imag", f"torch.ones({x}.shape[0], {x}.shape[0] + 1)",
            f"{x}.masked_fill({x} > 0, 1)", f"{x}.bfloat16()",
        ])  # fmt: skip
        rough = any(word in how for word in ("tanh", "softmax", "exp()", "mean"))
        if x in self.rough or y in self.rough:
            if any(word in how for word in ("> 0", "==", "int64", "bfloat16")):
                return None
        if rough:
            self.rough.add(made)
        self._spread(made, x, y)
        return f"{made} = {how}"

    def _spread(self, made, *of):
        if any(name in self.rough for name in of):
            self.rough.add(made)

    def _soil(self, name):
        """A rough value was written to the variable and to all that share its memory."""
        first = self._environments[0]
        memory = first[name].untyped_storage().data_ptr()
        for other in self._tensors():
            if first[other].untyped_storage().data_ptr() == memory:
                self.rough.add(other)

    def _finish(self):
        names = self._tensors()
        count = min(len(names), self.random.randint(1, 7))
        results = self.random.sample(names, count)
        if self.random.random() < 0.3:
            results.append(results[0])
        body, self.random_scopes = [], 0
        inside = 0
        for line in self.lines:
            if self.scopes and not inside and self.random.random() < 0.1:
                body.append(f'with weir.scope.npu_stream_switch("{self.random.choice("pq")}"):')
                inside = self.random.randint(1, 4)
            body.append("    " * bool(inside) + line)
            inside = max(inside - 1, 0)
        text = "".join(f"    {line}\n" for line in body) + f"    return {', '.join(results)},\n"
        self.source = f"def program(a, b, c, index, k):\n{text}"
        name = f"<program {self.seed}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        space = {"torch": torch, "weir": weir}
        exec(compile(self.source, name, "exec"), space)
        self.function = space["program"]


# ---- comparing ----


def _tensors(tree):
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _memories(tensors):
    """By tensor: the first one whose memory it shares."""
    first, found = {}, []
    for at, t in enumerate(tensors):
        key = t.untyped_storage().data_ptr() if t.numel() else ("none", at)
        found.append(first.setdefault(key, at))
    return found


def _describe(t):
    # What lies apart: dims of size 1 may have any stride, and nothing lies anywhere.
    strides = [s for n, s in zip(t.shape, t.stride()) if n > 1] if t.numel() else None
    return {
        "shape": tuple(t.shape), "strides": strides,
        "offset": t.storage_offset() if t.numel() else None, "dtype": t.dtype,
        "requires_grad": t.requires_grad, "conj": t.is_conj(), "neg": t.is_neg(),
    }  # fmt: skip


def _same(x, y):
    x, y = (t.detach().resolve_conj().resolve_neg() for t in (x, y))
    if x.is_floating_point() or x.is_complex():
        wide = torch.complex128 if x.is_complex() else torch.float64
        exact = 2e-2 if x.dtype is torch.bfloat16 else 1e-4
        return torch.allclose(x.to(wide), y.to(wide), rtol=exact, atol=exact, equal_nan=True)
    return torch.equal(x, y)


def call(function, arguments):
    """Results, then the arguments as the call left them, then gradients."""
    results = function(*arguments)
    tensors = _tensors((results, arguments))
    grads = []
    wanted = [t for t in _tensors(results) if t.requires_grad and t.is_floating_point()]
    if wanted:
        leaves = [t for t in arguments if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = [t for t in leaves if t.is_leaf]
        if leaves:
            total = sum((t.double() * t.numel()).sum() for t in wanted)
            grads = torch.autograd.grad(total, leaves, allow_unused=True)
            grads = [torch.zeros(()) if g is None else g for g in grads]
    return tensors, list(grads)


def compare(got, want):
    """Sentences about what differs."""
    (tensors, grads), (expected, expected_grads) = got, want
    if len(tensors) != len(expected):
        return [f"{len(tensors)} tensors instead of {len(expected)}"]
    wrong = []
    for at, (x, y) in enumerate(zip(tensors, expected)):
        mine, theirs = _describe(x), _describe(y)
        wrong += [
            f"tensor {at}: {key} {mine[key]} instead of {theirs[key]}"
            for key in mine
            if mine[key] != theirs[key]
        ]
        if mine["shape"] == theirs["shape"] and mine["dtype"] == theirs["dtype"]:
            if not _same(x, y):
                wrong.append(f"tensor {at}: values {x.tolist()} instead of {y.tolist()}")
    if _memories(tensors) != _memories(expected):
        wrong.append(f"memory is shared as {_memories(tensors)}, not {_memories(expected)}")
    for at, (x, y) in enumerate(zip(grads, expected_grads)):
        if x.shape != y.shape or not _same(x, y):
            wrong.append(f"gradient {at}: {x.tolist()} instead of {y.tolist()}")
    return wrong


# ---- running many ----

SETTINGS = (True, False, None)  # of torch.compile's ``dynamic``


class Run:
    """One program, compiled. ``wrong`` has a sentence for each difference from eager."""

    def __init__(self, program, backend, dynamic):
        torch._dynamo.reset()
        self.program, self.wrong, self.operators = program, [], 0
        self.function = torch.compile(
            program.function, backend=backend, dynamic=dynamic, fullgraph=True
        )

    def once(self, size, seed):
        want = call(self.program.function, self.program.arguments(size, seed))
        for again in range(500, -1, -1):
            try:
                got = call(self.function, self.program.arguments(size, seed))
                break
            except RuntimeError as error:  # Dynamo's, while another thread compiles something
                if not again or not any(text in str(error) for text in REFUSED):
                    raise
                time.sleep(0.01)
        self.wrong += [f"size {size}: {text}" for text in compare(got, want)]
        self.operators += self.program.length

    def all_sizes(self):
        for at, size in enumerate((*SIZES, SIZES[1])):
            self.once(size, at)
        return self.wrong

    def in_threads(self, threads, calls):
        """Several host threads call it at once, each on a stream of its own."""

        def many(start):
            pick = random.Random(start)
            with weir.stream(weir.Stream()):
                for seed in range(start, start + calls):
                    try:
                        self.once(pick.choice(SIZES), seed)
                    except Exception as error:  # the thread's, and the program's to report
                        self.wrong.append(f"call {seed}: {error}")
                        return

        running = [threading.Thread(target=many, args=(100000 * i,)) for i in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return self.wrong


def is_pytorchs_own(program, dynamic):
    """Whether torch.compile differs from eager without weir too, or refuses the program."""
    try:
        return bool(Run(program, "aot_eager", dynamic).all_sizes())
    except Exception:
        return True


def backend_for(pick):
    config = weir.CompilerConfig()
    config.mode = pick.choice(("max-autotune", "reduce-overhead"))
    config.auto_streams = pick.random() < 0.3
    return weir.get_npu_backend(compiler_config=config)


def try_seed(seed, length=20, threads=0, calls=0):
    """(operators run, sentences about what is wrong, whether PyTorch could do it)."""
    pick = random.Random(seed)
    dynamic = pick.choice(SETTINGS)
    program = Program(seed, length)
    try:
        run = Run(program, backend_for(pick), dynamic)
        run.all_sizes()
        if threads and not run.wrong:
            run.in_threads(threads, calls)
    except Exception as error:
        if is_pytorchs_own(program, dynamic):
            return 0, [], False
        return 0, [f"seed {seed}, dynamic={dynamic}: {error}", program.source], True
    if run.wrong and is_pytorchs_own(program, dynamic):
        return 0, [], False
    if run.wrong:
        run.wrong = [f"seed {seed}, dynamic={dynamic}", *run.wrong[:5], program.source]
    return run.operators, run.wrong, True


def quiet():
    """Programs of many sizes are compiled anew many times, which PyTorch has opinions about."""
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    torch._dynamo.config.recompile_limit = 64


def try_seeds(description, what, try_seed):
    """A command that tries seeds until the time is over: ``try_seed(seed)`` gives a count and sentences."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    quiet()
    weir.set_device(options.device)
    end, seed, count, bad = time.time() + options.seconds, options.first, 0, 0
    while time.time() < end:
        done, wrong = try_seed(seed)
        seed, count, bad = seed + 1, count + done, bad + bool(wrong)
        if wrong:
            print("\n".join(wrong), flush=True)
    print(f"{count} {what}, seeds {options.first}..{seed - 1}, {bad} differ")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description="random programs against eager PyTorch")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--calls", type=int, default=100, help="of each thread, per program")
    parser.add_argument("--length", type=int, default=40, help="statements of a program")
    parser.add_argument("--device", default="cpu:cube=24,vector=48")
    options = parser.parse_args()
    quiet()
    weir.set_device(options.device)
    end, seed, done, good, refused, bad = time.time() + options.seconds, options.first, 0, 0, 0, 0
    while time.time() < end:
        operators, wrong, could = try_seed(seed, options.length, options.threads, options.calls)
        done, seed = done + operators, seed + 1
        good, refused, bad = good + (could and not wrong), refused + (not could), bad + bool(wrong)
        if wrong:
            print("\n".join(wrong), flush=True)
    print(
        f"{done} operators of {good} programs equal eager PyTorch's (seeds {options.first}.."
        f"{seed - 1}), {bad} programs differ, {refused} PyTorch itself refuses or gets wrong"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
