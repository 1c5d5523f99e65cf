"""Random decoders with caches: what is between two calls of a compiled one.

A decoder's layers put new keys and values behind old ones, or into their places. Between its calls, caches of any
earlier call are kept, cropped, reordered, repeated, copied, joined, written to, dropped and continued, twice or from the middle. Each
session is made in two worlds, compiled and eager. After each call everything that either world still has is compared: values,
layouts, and who shares memory.

    python tests/python/_torch/caches.py [--seconds 60] [--first 0]
"""

import copy
import linecache
import random

import programs
import torch

H, D = 2, 4  # heads, and a head's elements
LENGTH = 14  # of caches of a fixed length

# How a cache lies in memory. Its dims are (sequences, heads, positions, elements).
_LAYOUTS = {
    "heads": lambda x: x.contiguous(),
    "rows": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "positions": lambda x: x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3),
    "part": lambda x: torch.cat((x, x), 2)[:, :, : x.shape[2]],
    "later part": lambda x: torch.cat((x, x), 0)[x.shape[0] :],
    "inner": lambda x: torch.cat((x, x), 3)[..., D:],
}


class Program:
    """``function(x, at, cache, s)``: x (b, t, H * D) are tokens at positions ``at``, ``cache`` is a list of keys and values by
    layer; returns [result, more results..., new cache...]. ``fixed``: caches have a fixed length."""

    def __init__(self, seed):
        r = self.random = random.Random(seed)
        self.fixed = r.random() < 0.35
        self.layers, self.window = r.choice((1, 2)), None if self.fixed else r.choice((None, None, 3, 5))
        self.stacked = r.random() < 0.2  # keys and values are halves of one tensor
        self.dtype = r.choice((torch.float32, torch.float64))
        self.in_lists = r.random() < 0.5
        lines = ["b, t, _ = x.shape", "made, more = [], []"]
        for layer in range(self.layers):
            lines += self._layer(layer)
        lines += ["return [x, more, made]"]
        self.source = "def f(x, at, cache, s):\n" + "".join(f"    {line}\n" for line in lines)
        name = f"<caches {seed}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        space = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source, name, "exec"), space)
        self.function = space["f"]

    def _layer(self, layer):
        r = self.random
        make = r.choice(("x.view(b, t, 2, -1).transpose(1, 2)", "x.reshape(b, t, 2, 4).permute(0, 2, 1, 3)"))
        lines = [f"n = {make}", f"q, nk, nv = n * {r.choice((2, 1))}, n * 0.5 + {layer}, {r.choice(('n.flip(-1)', 'n - 1', 'n * at.view(-1, 1)', 'n'))}"]
        if self.stacked:
            lines += [f"k, v = cache[{layer}]" + r.choice((".unbind(0)", "[0], cache[%d][1]" % layer))]
        else:
            lines += [f"k, v = cache[{2 * layer}], cache[{2 * layer + 1}]"]
        if self.fixed:
            grow = r.choice((
                ["k, v = k.index_copy(2, at, nk), v.index_copy(2, at, nv)"],
                ["k.index_copy_(2, at, nk)", "v.index_copy_(2, at, nv)"],
                ["k[:, :, at] = nk", "v[:, :, at] = nv"],
                ["k[:, :, s : s + t] = nk", "v[:, :, s : s + t] = nv"],
                ["k = k.slice_scatter(nk, 2, s, s + t)", "v = v.slice_scatter(nv, 2, s, s + t)"],
                ["k = k.roll(-t, 2)", "k[:, :, -t:] = nk", "v[:, :, :-t] = v[:, :, t:].clone()", "v[:, :, -t:] = nv"],
                ["i = at.view(1, 1, -1, 1).expand(b, 2, t, 4)", "k.scatter_(2, i, nk)", "v = v.scatter(2, i, nv)"],
                ["k.copy_(torch.cat((k[:, :, t:], nk), 2))", "v.copy_(torch.cat((v[:, :, t:], nv), 2))"],
                ["c = k + 0", "k.copy_(v)", "v.copy_(c)", "k[:, :, at] = nk", "v[:, :, at] = nv"],
                ["m = torch.zeros(k.shape[2], dtype=torch.bool).index_fill(0, at, True)[:, None]",
                 "k.copy_(torch.where(m, nk.sum(2, keepdim=True), k))", "v.masked_fill_(m, 2)"],
            ))  # fmt: skip
            mask = ["seen = torch.arange(k.shape[2]) <= at.view(-1, 1)"]
        else:
            grow = r.choice((
                ["k, v = torch.cat((k, nk), 2), torch.cat((v, nv), 2)"],
                ["k, v = torch.cat([k, nk], -2), torch.cat([v, nv], dim=-2)"],
                ["k, v = torch.cat((nk, k), 2), torch.cat((v, nv), 2)"],
                ["kv = torch.cat((torch.stack((k, v)), torch.stack((nk, nv))), 3)", "k, v = kv[0], kv[1]"],
                ["e = k.shape[2]", "k, v = F.pad(k, (0, 0, 0, t)), F.pad(v, (0, 0, 0, t))", "k[:, :, e:] = nk", "v[:, :, -t:] = nv"],
                ["g = k.new_empty(b, 2, k.shape[2] + t, 4)", "g[:, :, : k.shape[2]] = k", "g[:, :, k.shape[2] :] = nk", "k, v = g, torch.cat((v, nv), 2)"],
            ))  # fmt: skip
            mask = ["seen = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)"]
        cut = [f"k, v = k[:, :, -{self.window}:], v[:, :, -{self.window}:]"] if self.window else []
        contiguous = [["k, v = k.contiguous(), v.contiguous()"], []][r.random() < 0.7] if cut else []
        out = r.choice((
            ["a = (q @ k.transpose(-1, -2)).masked_fill(~seen, -9.0).softmax(-1) @ v"],
            ["a = F.scaled_dot_product_attention(q, k, v, seen)"],
            ["a = F.scaled_dot_product_attention(q, k, v, seen, scale=0.5)"],
            ["a = F.scaled_dot_product_attention(q, k, v, torch.zeros(t, k.shape[2], dtype=q.dtype).masked_fill(~seen, -1e4))"],
            ["a = (k.sum(2, keepdim=True) + v.mean(2, keepdim=True)) * q"],
            ["a = F.scaled_dot_product_attention(q, k, v)"],
        ))  # fmt: skip
        if cut and r.random() < 0.5:  # what is kept is the window, what is read is all
            body = [*grow, *mask, *out, *cut, *contiguous]
        else:
            body = [*grow, *cut, *contiguous, *mask, *out]
        back = r.choice(("a.transpose(1, 2).reshape(b, t, -1)", "a.permute(0, 2, 1, 3).flatten(2)"))
        lines += body + [f"x = (x + {back}).clamp(-8, 8) * 0.5"]
        if self.stacked:
            lines += ["made += [torch.stack((k, v))]"]
        else:
            lines += ["made += [k, v]"]
        if r.random() < 0.3:
            lines += [f"more += [{r.choice(('k[:, :, -1]', 'v[:1]', 'k.transpose(1, 2)', 'nk', 'v.sum(2)', 'a', 'k', 'seen'))}]"]
        return lines

    def first(self, b, length, layout, generator):
        """A cache of that many positions."""
        length = LENGTH if self.fixed else length

        def make():
            return _LAYOUTS[layout](torch.randn(b, H, length, D, generator=generator).to(self.dtype))

        if self.stacked:
            return [torch.stack((make(), make())) for _ in range(self.layers)]
        return [make() for _ in range(2 * self.layers)]


class Session:
    """``worlds``: the caches of each world, with what else calls returned; entries of both are the same."""

    def __init__(self, seed, calls=16):
        self.pick, self.program = random.Random(seed + 77), Program(seed)
        pick = self.pick
        self.backend, self.calls, self.seed = programs.backend_for(pick), calls, seed
        self.dynamic = pick.choice((True, True, None, None, False))
        self.generator = torch.Generator().manual_seed(seed)
        self.ran, self.log = 0, []

    def run(self, backend=None):
        torch._dynamo.reset()
        function = self.program.function
        compiled = torch.compile(function, backend=backend or self.backend, dynamic=self.dynamic)
        self.functions = compiled, function
        self.worlds = [], []  # of [cache, more]
        with torch.no_grad():
            self._start()
            for _ in range(self.calls):
                for _ in range(self.pick.choice((0, 0, 1, 1, 2))):
                    self._change()
                if wrong := self._call() or self._differ():
                    return wrong
        return []

    # ---- what is in both worlds ----

    def _start(self):
        b, length = self.pick.choice((1, 2, 3)), self.pick.choice((0, 1, 2, 5))
        layout = self.pick.choice((*_LAYOUTS, "heads", "heads"))
        made = self.program.first(b, length, layout, self.generator)
        for world in self.worlds:
            world.append([copy.deepcopy(made), []])

    def _sequences(self, cache):
        return cache[0].shape[1 if self.program.stacked else 0]

    def _length(self, cache):
        return cache[0].shape[-2]

    def _change(self):
        """One thing that users do with caches."""
        pick, d = self.pick, 1 if self.program.stacked else 0
        at = pick.randrange(len(self.worlds[0])) if pick.random() < 0.4 else len(self.worlds[0]) - 1
        cache = self.worlds[1][at][0]
        b, length = self._sequences(cache), self._length(cache)
        kind = pick.choice(("crop", "crop", "reorder", "reorder", "copy", "repeat", "write", "drop", "new", "join", "turn", "expand", "few", "start",
                            "shared"))  # fmt: skip
        order = torch.tensor([pick.randrange(b) for _ in range(b)]) if b else None
        n = pick.randint(0, length)
        number = pick.randint(-3, 3)
        whole = pick.random() < 0.5
        if self.program.fixed and kind in ("crop", "start"):
            return
        if kind == "new":
            return self._start()
        if kind == "drop" and len(self.worlds[0]) > 1:
            for world in self.worlds:
                del world[at]
            self.log.append(f"drop {at}")
            return
        layout = pick.choice(list(_LAYOUTS))
        for world in self.worlds:
            cache, more = world[at]
            if kind == "crop":
                made = [x[..., :n, :].contiguous() if whole else x[..., :n, :] for x in cache]
            elif kind == "start":
                made = [x[..., n:, :] for x in cache]
            elif kind == "reorder":
                made = [x.index_select(d, order) for x in cache]
            elif kind == "copy":
                made = copy.deepcopy(cache) if whole else [x.clone() for x in cache]
            elif kind == "repeat" and b < 4:
                made = [x.repeat_interleave(2, d) for x in cache]
            elif kind == "few":
                made = [x.narrow(d, b - 1, 1) for x in cache]
            elif kind == "join" and b < 4:
                made = [torch.cat((x, x), d) for x in cache]
            elif kind == "turn" and not self.program.stacked:
                made = [_LAYOUTS[layout](x) for x in cache]
            elif kind == "expand" and not self.program.fixed:
                made = [x.narrow(d, 0, 1).expand([2 if i == d else -1 for i in range(x.ndim)]) for x in cache]
            elif kind == "shared" and not self.program.stacked and length:
                both = torch.cat([x.contiguous().view(-1) for x in cache])
                made = [part.view(cache[0].shape) for part in both.chunk(len(cache))]
            elif kind == "write":
                for x in [*(cache if whole else cache[:1]), *more[:1]]:
                    if x.dtype != torch.bool and 0 not in x.stride():
                        x[..., :n, :].mul_(number)
                continue
            else:
                continue
            world.append([made, []])
        self.log.append(f"{kind} {at}")

    def _call(self):
        pick = self.pick
        count = len(self.worlds[0])
        at = pick.randrange(count) if pick.random() < 0.3 else count - 1
        cache = self.worlds[1][at][0]
        b, length = self._sequences(cache), self._length(cache)
        t = pick.choice((1, 1, 1, 1, 2, 3))
        x = torch.randn(b, t, H * D, generator=self.generator).to(self.program.dtype)
        s = pick.randint(0, LENGTH - t) if self.program.fixed else length
        places = torch.arange(s, s + t)
        self.log.append(f"call {at} b {b} length {length} t {t} s {s} strides {cache[0].stride()}")
        made, errors = [], []
        for function, world in zip(self.functions, self.worlds):
            try:
                result, more, new = function(x.clone(), places.clone(), list(world[at][0]), s)
                made.append([new, [*more, result]])
            except Exception as error:
                errors.append(error)
                made.append(None)
        if len(errors) == 2:
            return []
        if errors:
            if made[0] is not None:
                return []  # a compiled one may do what eager refuses
            return [f"{type(errors[0]).__name__}: {str(errors[0])[:600]}"]
        for world, one in zip(self.worlds, made):
            world.append(one)
        self.ran += 1
        while len(self.worlds[0]) > 9:
            gone = pick.randrange(len(self.worlds[0]) - 1)
            for world in self.worlds:
                del world[gone]
        return []

    def _differ(self):
        got, want = ([x for entry in world for x in (*entry[0], *entry[1])] for world in self.worlds)
        wrong = programs.compare((got, []), (want, []))
        # slice_scatter's result has the offset of its argument at the first call, which no guard checks.
        return [text[:300] for text in wrong if ": offset " not in text]


def try_seed(seed, calls=16):
    """(calls compared, sentences about what is wrong)."""
    session = Session(seed, calls)
    wrong = session.run()
    if not wrong:
        return session.ran, []
    again = Session(seed, calls)
    try:
        own = again.run("aot_eager")
    except Exception:
        own = True
    if own:
        return session.ran, []
    return session.ran, [f"seed {seed}, dynamic={session.dynamic}, {session.program.dtype}", *wrong[:4], *session.log, session.program.source]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("sessions with caches against eager PyTorch", "calls", try_seed))
