"""Random layers as a GPU has them: tokens that go into caches by indices, several scatters side by side, caches that
are views of each other, attention of few queries, chains that end in norms or in updates in place, on
several streams. What a plan of the GPU gives, run after run with tensors at other addresses and in several threads, is
what eager calls on one stream of the host give.

    python tests/python/gpu_graphs.py [--seconds 60] [--first 0] [--device cuda:0]

Without a GPU: WEIR_LIBCUDA, WEIR_LIBNVRTC and WEIR_LIBCUBLASLT name build/release/tests/libfake_cuda.so.
"""

import contextlib
import random

import numpy as np
import seeds

import weir

TYPES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 1e-4}


class Layer:
    """``steps``: functions of a dictionary of tensors, which they change or add to."""

    def __init__(self, seed):
        r = self.random = random.Random(seed)
        self.type = r.choice(list(TYPES))
        self.b, self.h, self.t = r.choice((1, 1, 2)), r.choice((1, 2, 4)), r.choice((1, 1, 1, 3))
        self.l = r.choice((5, 16, 40, 130, 300))
        self.d = r.choice((8, 16, 32, 64, 24, 7, 40))
        self.rows, self.columns = r.choice((1, 3, 8)), r.choice((16, 48, 33, 128))
        self.group = r.choice((1, 1, 2, 4))  # query heads of a key head
        self.steps, self.text, self.count = [], [], 0
        self.kinds = {"caches": ["k", "v", "w"], "tokens": ["a", "b"], "queries": ["q"], "rows": ["x", "y"]}
        for _ in range(r.randint(3, 16)):
            self._add()
        self.scopes = [r.choice((None, None, None, "p", "q", "cores")) for _ in self.steps]
        made = [n for kind in self.kinds.values() for n in kind]
        self.outputs = r.sample(made, min(len(made), r.randint(1, 5)))

    def arguments(self, seed):
        numbers = np.random.default_rng(seed)
        b, h, t, l, d = self.b, self.h, self.t, self.l, self.d  # noqa: E741

        def make(*shape):
            return (numbers.integers(-8, 9, shape) / 8).astype(np.float32)

        # What a cache does not hold yet is anything.
        return {
            "k": make(b, h, l, d), "v": make(b, h, l, d), "w": make(b, l, h, d), "a": make(b, h, t, d),
            "b": make(b, h, t, d), "q": make(b, h * self.group, t, d), "x": make(self.rows, self.columns),
            "y": make(self.rows, self.columns), "g": make(self.columns), "i": numbers.permutation(l)[:t].astype(np.int64),
            "j": numbers.permutation(l)[:t].astype(np.int32), "m": numbers.random((1, 1, t, l)) < 0.7,
            "n": make(b, 1, t, l),
        }  # fmt: skip

    def types(self):
        return {"i": "int64", "j": "int32", "m": "bool_"}

    # ---- steps ----

    def _new(self, kind):
        self.count += 1
        self.kinds[kind].append(f"t{self.count}")
        return f"t{self.count}"

    def _pick(self, kind):
        names = self.kinds[kind]
        return self.random.choice(names[-3:] if self.random.random() < 0.6 else names)

    def _add(self):
        r = self.random
        kind = r.choice(("scatters", "scatters", "attention", "rows", "rows", "tokens", "copy", "view", "queries"))
        for text, step in getattr(self, "_" + kind)():
            self.text.append(text)
            self.steps.append(step)

    def _cache(self):
        return self._pick("caches")

    def _scatters(self):
        """Some side by side, as a layer has them."""
        index = self.random.choice("iij")
        made = []
        for _ in range(self.random.choice((1, 2, 2, 3, 5))):
            cache, token = self._cache(), self._pick("tokens")

            def step(e, cache=cache, token=token):
                x = _heads(e[cache], e[token])
                places = e[index].reshape((1, 1, -1, 1)).expand(e[token].shape)
                weir.scatter_(x, 2, places, e[token])

            made.append((f"{cache}.scatter_(2, {index}, {token})", step))
        return made

    def _attention(self):
        r = self.random
        q, k, v, to = self._pick("queries"), self._cache(), self._cache(), self._new("queries")
        mask, causal = r.choice((None, None, "m", "n")), r.random() < 0.2

        def step(e):
            e[to] = weir.attention(e[q], _like(e[k], e), _like(e[v], e), None if mask is None else e[mask],
                                   causal and mask is None)  # fmt: skip

        return [(f"{to} = attention({q}, {k}, {v}, {mask}, {causal})", step)]

    def _chain(self, x, y):
        r = self.random
        made = x
        for _ in range(r.randint(1, 4)):
            made = r.choice([
                f"weir.clamp(weir.add({made}, {y}), -4, 4)", f"weir.mul({made}, 0.5)", f"weir.silu({made})",
                f"weir.sub({y}, {made})", f"weir.maximum({made}, {x})", f"weir.tanh({made})", f"weir.neg({made})",
                f"weir.where(weir.gt({made}, {y}), {made}, {y})", f"weir.mul({made}, weir.sigmoid({y}))",
            ])  # fmt: skip
        return made

    def _rows(self):
        x, y = self._pick("rows"), self._pick("rows")
        text = self._chain(f"e['{x}']", f"e['{y}']")
        end = self.random.choice((None, "weir.rms_norm({}, e['g'])", "weir.rms_norm({})", "weir.layer_norm({}, e['g'], e['g'])",
                                  "weir.softmax({})", "weir.rms_norm({})", "weir.mul({}, weir.rms_norm(e['" + x + "']))"))  # fmt: skip
        return [self._value("rows", text if end is None else end.format(text), (x, y))]

    def _tokens(self):
        x, y = self._pick("tokens"), self._pick("tokens")
        return [self._value("tokens", self._chain(f"e['{x}']", f"e['{y}']"), (x, y))]

    def _queries(self):
        x, y = self._pick("queries"), self._pick("queries")
        return [self._value("queries", self._chain(f"e['{x}']", f"e['{y}']"), (x, y))]

    def _value(self, kind, text, read):
        """As a value, or into one that exists and that it does not read."""
        others = [n for n in self.kinds[kind] if n not in read and n not in self.views]
        into = self.random.choice(others) if others and self.random.random() < 0.35 else None
        to = into or self._new(kind)
        code = compile(text, "step", "eval")

        def step(e):
            made = eval(code, {"weir": weir, "e": e})
            if into:
                e[into].copy_(made)
            else:
                e[to] = made

        return f"{to} {'<-' if into else '='} {text}", step

    views = ()

    def _copy(self):
        r = self.random
        cache, token, at = self._cache(), self._pick("tokens"), r.randrange(max(1, self.l - self.t))

        def step(e):
            x = _heads(e[cache], e[token])
            x[:, :, at : at + self.t].copy_(e[token])

        return [(f"{cache}[:, :, {at}:] <- {token}", step)]

    def _view(self):
        cache, to = self._cache(), self._new("caches")
        half = self.random.random() < 0.5 and self.l > 10

        def step(e):
            # Half of the places twice would not do for the indices: it is the whole, or a copy.
            e[to] = e[cache][:] if half else weir.clone(e[cache])

        return [(f"{to} = {'view' if half else 'clone'} of {cache}", step)]

    # ---- running ----

    def eager(self, device, arrays):
        tensors = self.tensors(device, arrays)
        e = dict(tensors)
        for step in self.steps:
            step(e)
        return [_array(e[n]) for n in self.outputs] + [_array(t) for t in tensors.values()]

    def tensors(self, device, arrays):
        made = {}
        for name, array in arrays.items():
            t = weir.tensor(array, device=device)
            wanted = self.types().get(name, self.type)
            made[name] = t if wanted in ("int64", "int32", "bool_") else t.cast(getattr(weir, wanted))
        return made

    def capture(self, device, arrays):
        graph = weir.Graph(device)
        e = {}
        for name, array in arrays.items():
            e[name] = graph.input(name, array.shape, getattr(weir, self.types().get(name, self.type)))
        with graph:
            for step, scope in zip(self.steps, self.scopes):
                with _scope(scope):
                    step(e)
        for at, name in enumerate(self.outputs):
            graph.output(f"out{at}", e[name])
        return graph

    def __str__(self):
        steps = "\n".join(f"  {s or '-':6} {t}" for s, t in zip(self.scopes, self.text))
        return (f"{self.type} b={self.b} h={self.h}x{self.group} t={self.t} l={self.l} d={self.d} "
                f"rows={self.rows}x{self.columns} outputs {self.outputs}\n{steps}")  # fmt: skip


def _heads(cache, token):
    """The cache as (b, h, l, d), also where places come before heads."""
    if cache.shape[1] == token.shape[1] and cache.shape[1] != cache.shape[2]:
        return cache
    return cache if cache.shape[1] == token.shape[1] else cache.permute((0, 2, 1, 3))


def _like(cache, e):
    return _heads(cache, e["a"])


def _array(t):
    kinds = (weir.float32, weir.int64, weir.int32, weir.bool_)
    return (t if t.dtype in kinds else t.cast(weir.float32)).numpy().copy()


def _scope(scope):
    if scope is None:
        return contextlib.nullcontext()
    if scope == "cores":
        return weir.scope.limit_core_num(2, 2)
    return weir.scope.npu_stream_switch(scope)


def compare(layer, got, want, note, wrong):
    at = TYPES[layer.type]
    names = [f"out{i} ({n})" for i, n in enumerate(layer.outputs)] + list(layer.arguments(0))
    for name, a, b in zip(names, got, want, strict=True):
        if a.shape != b.shape or not np.allclose(a, b, rtol=8 * at, atol=8 * at, equal_nan=True):
            worst = np.abs(a.astype(np.float64) - b).max() if a.shape == b.shape else None
            wrong.append(f"{note}: {name} differs by {worst}")
            return


def run(layer, plan, device, host, seeds, wrong, note, keep):
    for seed in seeds:
        arrays = layer.arguments(seed)
        want = layer.eager(host, arrays)
        tensors = layer.tensors(device, arrays)
        keep.append(tensors)  # so that the next ones lie elsewhere
        for again in range(2):
            got = plan(*tensors.values())
            got = list(got) if isinstance(got, (list, tuple)) else [got]
            if again:
                continue
            compare(layer, [_array(t) for t in got] + [_array(t) for t in tensors.values()], want,
                    f"{note}, seed {seed}", wrong)  # fmt: skip
            if wrong:
                return
            # The second time at the same addresses, from the same values.
            for t, fresh in zip(tensors.values(), layer.tensors(device, arrays).values()):
                t.copy_(fresh)


def try_seed(seed, device="cuda:0", others=("cpu",)):
    """(runs compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    layer = Layer(seed)
    host, device = weir.Device("cpu"), weir.Device(device if pick.random() < 0.9 else pick.choice(others))
    before, wrong, runs, keep = weir.get_device(), [], 0, []
    try:
        try:
            layer.eager(host, layer.arguments(0))
        except weir.Error:
            return 0, []  # no program
        weir.set_device(device)
        graph = layer.capture(device, layer.arguments(0))
        for way in pick.sample([{}, {"mode": "max-autotune"}, {"streams": "auto"}], 2):
            plan = graph.compile(**way)
            run(layer, plan, device, host, range(3), wrong, str(way), keep)
            runs += 6
            if not wrong and pick.random() < 0.5:
                note = f"{way} threads"

                def run_apart(k, plan=plan, note=note):
                    run(layer, plan, device, weir.Device("cpu"), range(10 * k, 10 * k + 2), wrong, note, keep)

                seeds.in_threads(run_apart, device, wrong, note)
                runs += 12
    except weir.Error as error:
        wrong.append(f"{type(error).__name__}: {error}")
    finally:
        weir.set_device(before)
    if wrong:
        wrong = [f"seed {seed} on {device.name}", *wrong[:2], str(layer)]
    return runs, wrong


if __name__ == "__main__":
    raise SystemExit(seeds.main("random layers of a GPU against the host", "layers", try_seed, device="cuda:0"))
