"""Random graphs of weir's operators against NumPy: views of views, updates in place, inputs that are
written, dead nodes, outputs that share memory, streams, waits and open sizes. All values are small
whole numbers, so that every bit must be right.

    python tests/python/random_graphs.py [--seconds 60] [--first 0]
"""

import contextlib
import ctypes
import random

import numpy as np
import seeds

import weir

DEVICES = ["cpu", "cpu:cube=2,vector=4", "npu:a3"]
TYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32, "f64": np.float64}
NAMES = {"f32": "float32", "i64": "int64", "i32": "int32", "f64": "float64"}
SIZES = [(5, 4), (7, 4), (3, 4), (9, 4), (2, 4), (33, 4), (5, 4)]


class Sides:
    """What a step is made of, for weir's tensors (captured) and for NumPy's arrays."""

    def __init__(self, numpy):
        self.numpy = numpy

    def binary(self, name, a, b, out=None):
        if not self.numpy:
            return getattr(weir, name)(a, b, **({} if out is None else {"out": out}))
        made = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum,
                "minimum": np.minimum}[name](a, b)  # fmt: skip
        if out is None:
            return made
        out[...] = made
        return out

    def clamp(self, x):
        return np.clip(x, -9, 9).astype(x.dtype) if self.numpy else weir.clamp(x, -9, 9)

    def unary(self, name, x):
        if not self.numpy:
            return getattr(weir, name)(x)
        return {"neg": np.negative, "abs": np.abs}[name](x)

    def reduce(self, name, x, dim):
        if not self.numpy:
            return getattr(weir, name)(x, dim, True)
        return getattr(x, name)(dim, keepdims=True).astype(x.dtype)

    def concat(self, xs, dim):
        return np.concatenate(xs, dim) if self.numpy else weir.concat(xs, dim)

    def sort(self, x, dim):
        return np.sort(x, dim) if self.numpy else weir.sort(x, dim)[0]

    def turned(self, x):
        return x.T if self.numpy else x.transpose(0, 1)

    def flat(self, x):
        return x.reshape(-1) if self.numpy else x.reshape((-1,))

    def where(self, a, b):
        return np.where(a > b, a, b - 1).astype(a.dtype) if self.numpy else weir.where(
            weir.gt(a, b), a, weir.sub(b, 1))  # fmt: skip

    def copy(self, x):
        return x.copy() if self.numpy else weir.clone(x)

    def assign(self, x, y):
        x[...] = y

    def expand(self, x, like):
        return np.broadcast_to(x, like.shape) if self.numpy else weir.add(x, weir.mul(like, 0))

    def product(self, a, b):
        if self.numpy:
            return np.clip(np.clip(a, -2, 2) @ np.clip(b, -2, 2).T, -9, 9).astype(a.dtype)
        a, b = weir.clamp(a, -2, 2), weir.clamp(b, -2, 2)
        return weir.clamp(weir.matmul(a, b.transpose(0, 1)), -9, 9)

    def take(self, x, index):
        return x[index] if self.numpy else weir.index_select(x, 0, weir.tensor(np.array(index)))

    def constant(self, array):
        return array.copy() if self.numpy else weir.tensor(array)

    def host(self, x):
        """A function of Python as an operator."""
        if self.numpy:
            return x + 1
        size = int(np.prod(x.shape)) * x.dtype.itemsize

        def function(inputs, outputs):
            ctypes.memmove(outputs[0], inputs[0], size)

        (made,) = weir.host_call("same", function, [weir.clone(x)], [(x.dtype, x.shape)])
        return weir.add(made, 1)


class Graph:
    """Steps as functions of (side, values), made by trying them on NumPy."""

    def __init__(self, seed, open_sizes):
        self.random, self.open = random.Random(seed), open_sizes
        self.kind = self.random.choice(list(TYPES))
        self.text, self.steps = [], []
        self.hosts = not open_sizes and self.random.random() < 0.3
        self.samples = [self._arguments(size, 1) for size in (SIZES if open_sizes else SIZES[:1])]
        for _ in range(self.random.randint(4, 30)):
            self._add()
        self.outputs = self.random.sample(range(3, len(self.samples[0])),
                                          min(self.random.randint(1, 5), len(self.samples[0]) - 3)) \
            if len(self.samples[0]) > 3 else [0]  # fmt: skip
        if self.random.random() < 0.3:
            self.outputs.append(self.outputs[0])
        self.scopes = [self.random.choice((None, None, "p", "q", "cores", "super")) for _ in self.steps]

    def _arguments(self, size, seed):
        numbers = np.random.default_rng(seed)
        return [numbers.integers(-9, 10, size).astype(TYPES[self.kind]) for _ in range(3)]

    def _add(self):
        side = Sides(True)
        for _ in range(20):
            text, step = self._step()
            tried = [[x for x in values] for values in self.samples]
            try:
                made = [_array(step(side, values)) for values in tried]
            except (ValueError, IndexError):
                continue
            if any(x is not None and (x.ndim > 3 or x.size > 3000) for x in made):
                continue
            # A step that writes is done on all samples; one that fails on some has written none.
            for values, x in zip(self.samples, made):
                if x is not None:
                    values.append(x)
            self.steps.append(step)
            self.text.append(text)
            return

    def _pick(self, like=None):
        values = self.samples[0]
        fits = [i for i, x in enumerate(values)
                if like is None or all(v[i].shape == v[like].shape for v in self.samples)]  # fmt: skip
        return self.random.choice(fits[-5:] if self.random.random() < 0.5 else fits)

    def _step(self):
        r = self.random
        x = self._pick()
        y, z = self._pick(x), self._pick(x)
        ndim = self.samples[0][x].ndim
        d, n = r.randrange(max(ndim, 1)), r.choice((0, 1, 2, -1, -2))
        m = r.choice((None, None, -1, 1, 3, -2))
        kinds = ["binary"] * 4 + ["view"] * 5 + ["write"] * 3 + ["other"] * 4
        kind = r.choice(kinds)
        if kind == "binary":
            name = r.choice(("add", "sub", "mul", "maximum", "minimum"))
            return f"clamp({name}(v{x}, v{y}))", lambda s, v: s.clamp(s.binary(name, v[x], v[y]))
        if kind == "view":
            lead = (slice(None),) * d
            return r.choice([
                (f"v{x}[dim {d}: {n}:{m}]", lambda s, v: v[x][lead + (slice(n, m),)]),
                (f"v{x}[dim {d}: ::2]", lambda s, v: v[x][lead + (slice(None, None, 2),)]),
                (f"v{x}[dim {d}: {n}]", lambda s, v: _at(v[x], lead + (n,))),
                (f"v{x}.T", lambda s, v: _two(v[x]) and s.turned(v[x])),
                (f"v{x}[None]", lambda s, v: v[x][None]),
                (f"v{x}[..., None]", lambda s, v: v[x][..., None]),
                (f"flat(copy(v{x}))", lambda s, v: s.flat(s.copy(v[x]))),
            ])  # fmt: skip
        if kind == "write":
            if x == y or not _apart(self.samples, x, (y, z)):
                return f"v{x}[...] = 3", lambda s, v: s.assign(_writable(v[x]), 3)
            return r.choice([
                (f"v{x}[...] = v{y}", lambda s, v: s.assign(_writable(v[x]), v[y])),
                (f"v{x}[...] = -2", lambda s, v: s.assign(_writable(v[x]), -2)),
                (f"max(v{y}, v{z}, out=v{x})",
                 lambda s, v: _none(s.binary("maximum", v[y], v[z], out=_writable(v[x])))),
            ])  # fmt: skip
        index = [r.randrange(2) for _ in range(3)]
        array = (np.arange(4) - 2).astype(TYPES[self.kind])
        choices = [
            (f"clamp(sum(v{x}, {d}))", lambda s, v: s.clamp(s.reduce("sum", v[x], d))),
            (f"max(v{x}, {d})", lambda s, v: s.reduce("max", _full(v[x]), d)),
            (f"concat(v{x}, v{y}; {d})", lambda s, v: s.concat([v[x], v[y]], d)),
            (f"sort(v{x}, {d})", lambda s, v: s.sort(v[x], d)),
            (f"where(v{x}, v{y})", lambda s, v: s.where(v[x], v[y])),
            (f"copy(v{x})", lambda s, v: s.copy(v[x])),
            (f"neg(v{x})", lambda s, v: s.unary("neg", v[x])),
            (f"abs(v{x})", lambda s, v: s.unary("abs", v[x])),
            (f"take(v{x}, {index})", lambda s, v: s.take(_rows(v[x]), index)),
            (f"constant + v{x}", lambda s, v: s.clamp(s.binary("add", v[x], s.constant(array)))),
            ("constant", lambda s, v: s.copy(s.constant(array))),
        ]
        if self.kind in ("f32", "f64"):
            choices.append((f"v{x} @ v{y}.T", lambda s, v: _two(v[x]) and s.product(v[x], v[y])))
        if self.hosts:
            choices.append((f"host(v{x})", lambda s, v: s.host(v[x])))
        return r.choice(choices)

    # ---- running ----

    def capture(self, device):
        graph = weir.Graph(device)
        rows = graph.size(SIZES[0][0]) if self.open == "named" else -1 if self.open else SIZES[0][0]
        dtype = getattr(weir, NAMES[self.kind])
        values = [graph.input(f"x{i}", (rows, SIZES[0][1]), dtype) for i in range(3)]
        side = Sides(False)
        with graph:
            for step, scope in zip(self.steps, self.scopes):
                with _scope(scope):
                    made = step(side, values)
                if made is not None:
                    values.append(made)
        for at, i in enumerate(self.outputs):
            graph.output(f"out{at}", values[i])
        return graph

    def expect(self, arguments):
        """NumPy's results; the arguments are changed as the graph changes them."""
        values, side = list(arguments), Sides(True)
        for step in self.steps:
            made = _array(step(side, values))
            if made is not None:
                values.append(made)
        return [values[i] for i in self.outputs]

    def __str__(self):
        steps = "\n".join(f"  {s or '-':6} {t}" for s, t in zip(self.scopes, self.text))
        return f"{self.kind}, {self.open}, outputs {self.outputs}\n{steps}"


def _scope(scope):
    if scope is None:
        return contextlib.nullcontext()
    if scope == "cores":
        return weir.scope.limit_core_num(1, 1)
    if scope == "super":
        return weir.scope.super_kernel("sk")
    return weir.scope.npu_stream_switch(scope)


def _at(x, key):
    return x[key + (...,)]  # NumPy's would be a number where no dim is left


def _array(x):
    return x if x is None else np.asarray(x)


def _none(x):
    return None


def _two(x):
    if len(x.shape) != 2:
        raise ValueError
    return True


def _full(x):
    if 0 in x.shape:
        raise ValueError
    return x


def _rows(x):
    if not x.shape or x.shape[0] < 2:
        raise IndexError
    return x


def _writable(x):
    if isinstance(x, np.ndarray) and (not x.flags.writeable or 0 in x.shape):
        raise ValueError
    return x


def _apart(samples, x, others):
    """Whether what is written shares no memory with what is read."""
    return all(not np.shares_memory(v[x], v[o]) for v in samples for o in others)


def run_plan(program, plan, device, seeds, sizes, wrong, note):
    for seed, size in zip(seeds, sizes):
        arrays = program._arguments(size, seed)
        tensors = [weir.tensor(a, device=device) for a in arrays]
        got = plan(*tensors)
        got = got if isinstance(got, (list, tuple)) else [got]
        want = program.expect(arrays)
        for what, mine, theirs in [
            *((f"out{i}", g, w) for i, (g, w) in enumerate(zip(got, want))),
            *((f"argument {i}", t, a) for i, (t, a) in enumerate(zip(tensors, arrays))),
        ]:
            mine = mine.numpy()
            if mine.shape != theirs.shape or not np.array_equal(mine, theirs):
                wrong.append(f"{note}, size {size}, seed {seed}: {what} is\n{mine}\nnot\n{theirs}")
                return


def try_seed(seed, devices=DEVICES):
    """(runs compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    program = Graph(seed, pick.choice((None, None, "named", "minus")))
    device = weir.Device(pick.choice(devices))
    wrong, runs = [], 0
    ways = [{}, {"mode": "max-autotune"}, {"streams": "auto"}, {"mode": "max-autotune", "streams": "auto"}]
    if program.open:
        sizes = [pick.choice(SIZES) for _ in range(6)]
    else:
        sizes = [SIZES[0]] * 4
    before = weir.get_device()
    weir.set_device(device)
    try:
        try:
            graph = program.capture(device)
        except weir.Error as error:
            return 0, [f"capture refuses: {error}"] if "REFUSED" in str(error) else []
        texts = [("graph", graph)]
        if not program.hosts and program.open != "named":
            texts.append(("loaded", weir.Graph.loads(graph.dump(), device=device)))
        for name, one in texts:
            for way in pick.sample(ways, 2):
                try:
                    plan = one.compile(**way)
                except weir.Error as error:
                    if name == "loaded":
                        wrong.append(f"loaded graph does not compile: {error}")
                    continue
                run_plan(program, plan, device, range(10, 20), sizes, wrong, f"{name} {way}")
                runs += len(sizes)
                if not wrong and pick.random() < 0.4:
                    note = f"{name} {way} threads"

                    def run(k, plan=plan, note=note):
                        run_plan(program, plan, device, range(100 * k, 100 * k + 10), sizes, wrong, note)

                    seeds.in_threads(run, device, wrong, note)
                    runs += 3 * len(sizes)
    except weir.Error as error:
        wrong.append(f"{type(error).__name__}: {error}")
    finally:
        weir.set_device(before)
    if wrong:
        wrong = [f"seed {seed} on {device.name}", *wrong[:2], str(program)]
    return runs, wrong


if __name__ == "__main__":
    raise SystemExit(seeds.main("random graphs against NumPy", "graphs", try_seed))
