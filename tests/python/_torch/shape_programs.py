"""Random programs whose sizes are open: sizes that are 0 or 1, that are equal, that shrink after they grew; slices by
sizes and by expressions of sizes; caches that grow. Compiled once with ``dynamic=True`` and called with sizes in any order,
they give what eager PyTorch gives.

    python tests/python/_torch/shape_programs.py [--seconds 60] [--first 0]
"""

import argparse
import itertools
import linecache
import random
import time

import programs
import torch

SIZES = [(4, 6, 3), (7, 5, 2), (5, 5, 5), (2, 9, 4), (13, 3, 8), (40, 17, 6), (3, 4, 3)]
EDGES = [(1, 6, 3), (4, 1, 3), (4, 6, 1), (1, 1, 1), (0, 6, 3), (4, 0, 3), (4, 6, 0), (0, 0, 0), (1, 0, 2)]


class Program:
    """``source``: a function of a (n, m), b (n, m), c (m, p), d (n, p), i (p; indices below n), k (a number)."""

    def __init__(self, seed, edges):
        self.seed, self.random, self.count = seed, random.Random(seed), 0
        self.sizes = SIZES + (EDGES if edges else [])
        self.lines = []
        self.spaces = [self._space(size) for size in self.sizes]
        for _ in range(self.random.randint(3, 12)):
            self._add()
        names = [n for n, x in self.spaces[0].items() if isinstance(x, torch.Tensor) and n[0] == "v"]
        picked = self.random.sample(names, min(len(names), self.random.randint(1, 5))) or ["a"]
        # A result that is an argument, or a view of one, is another matter.
        self.lines.append(f"return [{', '.join(f'{n} + 0' for n in picked)}]")
        body = "".join(f"    {line}\n" for line in self.lines)
        self.source = f"def f(a, b, c, d, i, k):\n{body}"
        name = f"<shapes {seed}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        space = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source, name, "exec"), space)
        self.function = space["f"]

    def arguments(self, size, seed=0):
        n, m, p = size
        g = torch.Generator().manual_seed(self.seed * 1000 + seed)

        def make(*shape):
            return torch.randint(-3, 4, shape, generator=g).float()

        i = torch.randint(0, max(n, 1), (p if n else 0,), generator=g)
        return make(n, m), make(n, m), make(m, p), make(n, p), i, max(min(n, m) // 2, 0)

    def _space(self, size):
        names = dict(zip("abcdik", self.arguments(size)))
        return {**names, "torch": torch, "F": torch.nn.functional}

    def _add(self):
        for _ in range(40):
            line = self._line()
            tried = [dict(space) for space in self.spaces]
            try:
                for space in tried:
                    exec(line, space)
            except Exception:
                continue
            name = f"v{self.count}"
            if len({x[name].ndim for x in tried}) > 1 or any(x[name].numel() > 9000 or x[name].ndim > 4 for x in tried):
                continue
            self.spaces = tried
            self.lines.append(line)
            return

    def _line(self):
        r, first = self.random, self.spaces[0]
        names = [n for n, x in first.items() if isinstance(x, torch.Tensor) and n != "i"]
        x = r.choice(names[-3:] if r.random() < 0.5 else names)
        like = [n for n in names if all(s[n].shape == s[x].shape for s in self.spaces)]
        y, z, ndim = r.choice(like), r.choice(names), first[x].ndim
        d = r.randrange(max(ndim, 1))
        lead = ":, " * d
        n, m = "a.shape[0]", "a.shape[1]"
        size = r.choice((n, m, "c.shape[1]", f"{x}.shape[{d}] // 2", f"{n} - 1", f"{n} + {m}", f"min({n}, {m})", "k", "2", "1",
                         f"max({n} - 2, 0)", f"{n} * 2", f"({m} + 3) // 4", f"{m} % 3"))  # fmt: skip
        self.count += 1
        text = r.choice([
            f"{x}[{lead}{size}:]", f"{x}[{lead}:{size}]", f"{x}[{lead}-{r.choice((1, 2))}:]", f"{x}[{lead}::2]",
            f"{x}[{lead}1::3]", f"{x}[{lead}:-1]", f"{x}.flip({d})", f"{x}.transpose(0, {d})", f"{x}.T", f"{x}.unsqueeze({d})",
            f"{x}.narrow({d}, 0, {x}.shape[{d}] // 2)", f"torch.cat([{x}, {y}], {d})", f"torch.cat([{x}[{lead}:{size}], {y}], {d})",
            f"({x} + {y}).clamp(-9, 9)", f"({x} * {y}).clamp(-9, 9)", f"{x}.sum({d}).clamp(-9, 9)", f"{x}.sum().clamp(-9, 9)",
            f"({x} + {x}.sum({d}, keepdim=True)).clamp(-9, 9)", f"{x}.reshape(-1)", f"{x}.reshape({x}.shape[0], -1)",
            f"{x}.reshape(-1, {x}.shape[{d}])", f"{x}.view(-1)[{size}:]", f"{x}.flatten()[:{size}]", f"{x}.amax({d})", f"{x}.cumsum({d}).clamp(-9, 9)",
            f"torch.arange({size}) * 1.0", f"torch.arange({n})[:, None] * torch.ones({m})", f"torch.ones({n}, {m}).tril() * a",
            f"torch.zeros({size}, {m})", f"torch.full(({n}, {size}), 2.0)", f"(a @ c).clamp(-9, 9)", f"({x} @ {z}).clamp(-9, 9)",
            f"{x}.expand(2, *{x}.shape)", f"{x}.repeat(2, {', '.join(['1'] * max(ndim - 1, 1))})", f"{x}[i]", f"{x}.index_select(0, i)",
            f"torch.where({x} > 0, {x}, {y})", f"{x}.masked_fill({x} > 1, -1)", f"F.pad({x}, (1, 2))", f"F.pad({x}, (0, {size}))", f"{x}.roll(1, {d})",
            f"torch.stack([{x}, {y}], {d})", f"torch.chunk({x}, 2, {d})[0]", f"torch.split({x}, [1, {x}.shape[{d}] - 1], {d})[1]",
            f"{x} * {size}", f"({x} + {size} // 2).clamp(-9, 9)", f"{x}.sort({d})[0]", f"{x}.softmax({d}).sum({d}).round()", f"{x}.unfold({d}, 2, 1)",
            f"{x}.diagonal()", f"{x}.movedim(0, -1)", f"{x}.argmax({d}) * 1.0", f"{x}.mean({d}).round()", f"torch.outer({x}.flatten()[:5], {z}.flatten()[:{size}])",
            f"{x}.new_zeros({x}.shape[0], {size})", f"{x}.select({d}, 0)", f"{x}.select({d}, -1)", f"{x}.index_add(0, i, {x}[i])",
            f"{x}.slice_scatter({y}[:1], 0, 0, 1)", f"{x}.clone().index_fill_(0, i, 3)", f"{x}.tile(2)", f"{x}.squeeze({d})", f"{x}.any({d}) * 1.0",
            f"F.layer_norm({x}, ({x}.shape[-1],)).sum(-1).round().abs()", f"{x}.triu(1)", f"({z}.sum({d}, keepdim=True) + {x}).clamp(-9, 9)",
            f"torch.cat([torch.zeros(1, *{x}.shape[1:]), {x}])[:-1]", f"{x}.repeat_interleave(2, {d})", f"{x}.swapaxes(0, {d}).contiguous().view(-1)",
        ])  # fmt: skip
        return f"v{self.count} = {text}"


def try_seed(seed, calls=12):
    """(calls compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    program = Program(seed, pick.random() < 0.6)
    backend = programs.backend_for(pick)
    torch._dynamo.reset()
    run = torch.compile(program.function, backend=backend, dynamic=True)
    log, done = [], 0
    with torch.no_grad():
        for number in range(calls):
            # A cache that grows by one, or sizes that have nothing to do with those before.
            size = pick.choice(program.sizes)
            if log and pick.random() < 0.3:
                size = tuple(s + pick.choice((0, 1)) for s in log[-1])
                try:
                    program.function(*program.arguments(size, number))
                except Exception:
                    continue
            log.append(size)
            args = program.arguments(size, number)
            want = program.function(*args)
            try:
                got = run(*program.arguments(size, number))
            except Exception as error:
                if _refuses(program, log):
                    return done, []
                return done, [f"seed {seed}: {type(error).__name__}: {str(error)[:500]}", str(log), program.source]
            wrong = [f"result {at}: {x.tolist()} {tuple(x.shape)}, not {y.tolist()} {tuple(y.shape)}"[:600]
                     for at, (x, y) in enumerate(zip(got, want, strict=True))
                     if x.shape != y.shape or x.dtype != y.dtype or not torch.equal(x.nan_to_num(7), y.nan_to_num(7))]  # fmt: skip
            if wrong:
                return done, [f"seed {seed}", *wrong[:2], str(log), program.source]
            done += 1
    return done, []


def _refuses(program, log):
    """Whether PyTorch does without weir."""
    torch._dynamo.reset()
    run = torch.compile(program.function, backend="aot_eager", dynamic=True)
    try:
        for size in log:
            run(*program.arguments(size))
    except Exception:
        return True
    return False


def main():
    parser = argparse.ArgumentParser(description="programs of open sizes against eager PyTorch")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed")
    options = parser.parse_args()
    programs.quiet()
    end, calls, bad = time.time() + options.seconds, 0, 0
    for seed in itertools.count(options.first):
        if time.time() > end:
            break
        done, wrong = try_seed(seed)
        calls, bad = calls + done, bad + bool(wrong)
        if wrong:
            print("\n".join(wrong), flush=True)
    print(f"{calls} calls of programs {options.first}..{seed - 1}, {bad} programs differ")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
