"""Random programs of open sizes that write to what they are given, give views of it back, and have gradients.

Each is compiled once with ``dynamic=True`` and called with sizes in any order, 0, 1 and 2 among them, in memory of
several layouts. Values are whole numbers, so that each bit must be eager PyTorch's; so must layouts, who shares memory
with whom, and gradients.

    python tests/python/_torch/open_updates.py [--seconds 60] [--first 0] [--device cpu]
"""

import random

import programs
import shape_programs
import torch


_LAYOUTS = ("dense", "dense", "turned", "rows", "columns", "second")


class Program(shape_programs.Program):
    """``source``: a function of what shape_programs has, of which a is written to; d may have a gradient."""

    def __init__(self, seed, edges):
        pick = random.Random(-1 - seed)
        self.grad, self.layouts = pick.random() < 0.4, [pick.choice(_LAYOUTS) for _ in range(4)]
        self.kept = pick.random() < 0.5  # results as they are: arguments, views, one of them twice
        super().__init__(seed, edges)
        if not self.kept:
            return
        *lines, last = self.source.splitlines()
        self.source = "\n".join([*lines, last.replace(" + 0", "")])
        if pick.random() < 0.3:
            self.source = self.source[:-1] + ", a, b[:1]]"
        space = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source, f"<open updates {seed}>", "exec"), space)
        self.function = space["f"]

    def arguments(self, size, seed=0):
        a, b, c, d, i, k = super().arguments(size, seed)
        a, b, c, d = (_lay(x, how) for x, how in zip((a, b, c, d), self.layouts))
        if self.grad:
            d = d.clone().requires_grad_(True)
        return a, b, c, d, i, k

    def _line(self):
        r, first = self.random, self.spaces[0]
        if r.random() > 0.4:
            return super()._line().replace(".sort(", ".sort(stable=True, dim=")  # or who gets the gradient?
        names = [n for n, x in first.items() if isinstance(x, torch.Tensor) and n not in "id"]
        x = r.choice(names[-4:] if r.random() < 0.5 else names)
        like = [n for n in (*names, "d") if all(s[n].shape == s[x].shape for s in self.spaces)]
        y, ndim = r.choice(like), first[x].ndim
        at = r.randrange(max(ndim, 1))
        lead = ":, " * at
        n, m = "a.shape[0]", "a.shape[1]"
        size = r.choice((n, m, "c.shape[1]", f"{x}.shape[{at}] // 2", f"{n} - 1", f"min({n}, {m})", "k", "2", "1",
                         f"max({n} - 2, 0)", f"({m} + 3) // 4", f"{m} % 3"))  # fmt: skip
        self.count += 1
        how = r.choice([
            f"{x}.add_(1).clamp_(-9, 9)", f"{x}.copy_({y})", f"{x}.neg_()", f"{x}.add_({y}).clamp_(-9, 9)", f"{x}.zero_()",
            f"{x}[{lead}{size}:].add_(1)", f"{x}[{lead}:{size}].neg_()", f"{x}[{lead}{size}:].fill_({n})",
            f"{x}[{lead}:{size}] = {y}[{lead}:{size}]", f"{x}[{lead}::2].mul_(2).clamp_(-9, 9)", f"{x}.t().add_(1).clamp_(-9, 9)",
            f"{x}.view(-1)[{size}:].add_(1).clamp_(-9, 9)", f"{x}[i] = 2.0", f"{x}.index_add_(0, i, {x}[i]).clamp_(-9, 9)",
            f"{x}.index_put_((i,), {y}[i], accumulate=True).clamp_(-9, 9)", f"{x}.index_fill_(0, i, 3)",
            f"{x}.index_copy_(0, i[:1], {y}[:1])", f"{x}.masked_fill_({y} > 0, {size})", f"{x}.narrow({at}, 0, {x}.shape[{at}] // 2).relu_()",
            f"{x}.mul_({x}.shape[{at}]).clamp_(-9, 9)", f"{x}.diagonal().fill_(4)", f"{x}.select({at}, -1).zero_()",
            f"{x}.scatter_({at}, torch.zeros_like({x}[{lead}:1]).long(), 5.0)", f"{x}[{lead}1:] = {x}[{lead}:-1].clone()",
            f"torch.add({x}, {y}, out={x}).clamp_(-9, 9)", f"{x}.unsqueeze({at}).expand_as({x}.unsqueeze({at})).add_(1)",
            f"{x}.as_strided(({x}.shape[0],), ({x}.stride(0),), {x}.storage_offset()).add_(2)", f"{x}[-1:, ...].add_({x}[:1, ...])",
            f"{x}.chunk(2, {at})[-1].sub_(1)", f"torch.split({x}, {size} + 1, {at})[0].mul_(-1)", f"{x}.movedim(0, -1).clamp_(-2, 2)",
        ])  # fmt: skip
        return f"v{self.count} = {x}; {how}"


def _lay(x, how):
    if how == "turned":
        return x.t().contiguous().t()
    if how == "rows":
        return torch.cat([x[:1] * 0, x, x])[x[:1].shape[0] :][: x.shape[0]]
    if how == "columns":
        return torch.cat([x, x], 1)[:, x.shape[1] :]
    if how == "second":
        return torch.stack([x, x], -1)[..., 1]
    return x


def try_seed(seed, calls=12):
    """(calls compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    program = Program(seed, pick.random() < 0.7)
    sizes = [pick.choice(program.sizes) for _ in range(calls)]
    for at in range(1, calls):  # some grow by one
        if pick.random() < 0.3:
            sizes[at] = tuple(s + pick.choice((0, 1)) for s in sizes[at - 1])
    done, wrong = _calls(program, programs.backend_for(pick), sizes)
    if wrong and not _calls(program, "aot_eager", sizes)[1]:
        return done, [f"seed {seed}", *wrong[:3], str(sizes[: done + 1]), str(program.layouts), program.source]
    return done, []


def _calls(program, backend, sizes):
    torch._dynamo.reset()
    run, done = torch.compile(program.function, backend=backend, dynamic=True), 0
    for number, size in enumerate(sizes):
        try:
            want = programs.call(program.function, program.arguments(size, number))
        except Exception:
            continue
        try:
            got = programs.call(run, program.arguments(size, number))
        except Exception as error:
            return done, [f"{size}: {type(error).__name__}: {str(error)[:500]}"]
        wrong = [f"{size}: {text}"[:500] for text in programs.compare(got, want)]
        if wrong:
            return done, wrong
        done += 1
    return done, []


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("programs of open sizes that write, against eager PyTorch", "calls of programs", try_seed))
