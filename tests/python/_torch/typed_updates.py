"""Random programs that write to tensors of every type: values of one type into another, parts by slices, masks and indices,
``out=`` of other types, bits, shifts, quotients that wrap, views as another type, broadcasting and expanded operands.

A program has some thirty statements on whole numbers, with 8-bit types that overflow. Every bit is eager PyTorch's.

    python tests/python/_torch/typed_updates.py [--seconds 60] [--first 0] [--device cpu]
"""

import linecache
import random

import programs
import torch

TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.float32, torch.float64, torch.bfloat16,
         torch.float16, torch.int16]  # fmt: skip
SHAPES = [(3, 4), (3, 4), (3, 4), (4,), (3, 1), (1, 4), (), (2, 3, 4), (4, 3)]
WIDE = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def numbers(shape, dtype, seed, low=-3):
    low = 0 if dtype in (torch.uint8, torch.bool) else low
    g = torch.Generator().manual_seed(seed)
    return torch.randint(low, 2 if dtype is torch.bool else 4, shape, generator=g).to(dtype)


class Program:
    def __init__(self, seed, length=30):
        self.random, self.seed, self.count, self.lines = random.Random(seed), seed, 0, []
        # Of floats that are no number of an integer's type PyTorch's result depends on the machine: no u8 beside less than 0.
        self.types = [t for t in TYPES if t is not torch.uint8] if self.random.random() < 0.6 else TYPES
        self.low = -64 if len(self.types) < len(TYPES) else 0
        self.kinds = {f"x{i}": (self.random.choice(SHAPES), self.random.choice(self.types)) for i in range(6)}
        self.kinds["x0"] = (3, 4), self.kinds["x0"][1]
        self.environments = [self._arguments(call) for call in range(3)]
        self.given = list(self.environments[0])
        tries = 0
        while len(self.lines) < length and tries < 20 * length:
            tries += 1
            self._add()
        names = [n for n, t in self.environment.items() if n not in "ij" and n not in self.kinds]
        self.results = self.random.sample(names, min(len(names), self.random.randint(1, 5)))
        body = "".join(f"    {line}\n" for line in self.lines)
        self.source = f"def program({', '.join(self.given)}):\n{body}    return {', '.join(self.results)}{',' * bool(self.results)}\n"
        name = f"<typed {seed}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        space = {"torch": torch}
        exec(compile(self.source, name, "exec"), space)
        self.function, self.dynamic = space["program"], self.random.choice((False, False, None, True))

    def _arguments(self, call):
        made = {n: numbers(shape, dtype, 100 * self.seed + 10 * call + int(n[1:]), max(self.low, -3))
                for n, (shape, dtype) in self.kinds.items()}
        if self.seed % 3 == 0:  # one is a part of another
            made["x1"] = made["x0"][1:] if self.seed % 2 else made["x0"].t()
        if self.seed % 5 == 0:
            made["x2"] = numbers((6, 8), self.kinds["x2"][1], 100 * self.seed + call)[::2, 1::2]
        return {**made, "i": torch.tensor([2, 0, -1]) if call != 1 else torch.tensor([0, 0, 1]),
                "j": torch.tensor([[0, 3, 1, 2], [1, 1, 0, 2], [3, 0, 2, 1]])}  # fmt: skip

    def arguments(self, call):
        return list(self._arguments(call).values())

    def _add(self):
        line = self._update() if self.random.random() < 0.55 else self._value()
        if line is None:
            return
        copies = [{**e} for e in self.environments]
        before = [{n: t.clone() for n, t in e.items()} for e in copies]
        try:
            for copy in copies:
                exec(line, {"torch": torch}, copy)
                tensors = [t for n, t in copy.items() if n not in "ij"]
                # Numbers beyond what a type holds exactly are not what this is about.
                good = all(t.dtype in self.types for t in tensors)
                good = good and all(t.dtype not in WIDE or bool((t >= self.low).all() & (t <= 64).all()) for t in tensors)
                if not good or any(t.numel() > 200 or t.ndim > 4 for t in tensors):
                    raise ValueError(line)
        except Exception:
            for saved, environment in zip(before, self.environments):
                for n, t in saved.items():
                    now = environment[n]
                    if now.shape == t.shape and not torch.equal(now, t):
                        now.copy_(t)
            return
        self.environments = copies
        self.lines.append(line)

    @property
    def environment(self):
        return self.environments[0]

    def _pick(self, *kinds):
        names = [n for n, t in self.environment.items() if n not in "ij" and (not kinds or t.dtype in kinds)]
        return self.random.choice(names[-5:] if self.random.random() < 0.4 else names) if names else "x0"

    def _mask(self):
        x = self._pick()
        return self.random.choice((f"({x} > 0)", f"({x} == 1)", f"{x}.bool()", f"({x} != {self._pick()})"))

    def _part(self, x):
        r = self.random
        return r.choice((f"{x}", f"{x}", f"{x}[1:]", f"{x}[..., ::2]", f"{x}[..., -1]", f"{x}[0]", f"{x}[:, 1:3]", f"{x}.t()", f"{x}.T",
                         f"{x}.view(-1)[1:]", f"{x}[None]", f"{x}.unsqueeze(-1)", f"{x}[:1].expand(3, 4)", f"{x}.diagonal()",
                         f"{x}.select(0, 1)", f"{x}.unfold(-1, 2, 2)", f"{x}[:0]"))  # fmt: skip

    def _update(self):
        r, x, y, z = self.random, self._pick(), self._pick(), self._pick()
        n, part, other = r.choice((0, 1, 2, -1, 3, True, 7)), self._part(x), self._part(y)
        small = r.choice(("", ".clamp_(-8, 8)", ".remainder_(5)", ".clamp_(0, 3)"))
        return r.choice([
            f"{part}.copy_({other})", f"{part}.copy_({other})", f"{part}.fill_({n})", f"{part}.zero_()", f"{part}.add_({other}){small}",
            f"{part}.add_({n}){small}", f"{part}.sub_({other}){small}", f"{part}.mul_({other}){small}", f"{part}.mul_({n}){small}",
            f"{part}.add_({other}, alpha={r.choice((2, -1, 3))}){small}", f"{part}.floor_divide_({other})", f"{part}.remainder_({r.choice((2, 3, -3))})",
            f"{part}.div_({other}, rounding_mode='{r.choice(('floor', 'trunc'))}')", f"{part}.bitwise_and_({other})", f"{part}.bitwise_or_({other})",
            f"{part}.bitwise_xor_({n})", f"{part}.bitwise_not_()", f"{part}.bitwise_left_shift_({r.choice((1, 2, 7, 9))})",
            f"{part}.bitwise_right_shift_({other})", f"{part}.neg_()", f"{part}.abs_()", f"{part}.clamp_({r.choice((-1, 0, 1))}, {r.choice((2, 3))})",
            f"{part}.masked_fill_({self._mask()}, {n})", f"{part}.masked_scatter_({self._mask()}, {other})",
            f"{part}[{self._mask()}] = {n}", f"{part}[{self._mask()}] += {n}", f"{part}.eq_({other})", f"{part}.gt_({n})", f"{part}.logical_not_()",
            f"{part}.logical_and_({other})", f"{part}.logical_xor_({other})", f"{part}.square_(){small}", f"{part}.pow_(2){small}", f"{part}.sign_()",
            f"{part}[i] = {n}", f"{part}[i] = {other}", f"{part}[i] += {other}", f"{part}[..., i] = {other}", f"{part}.index_add_(0, i.abs(), {other})",
            f"{part}.index_copy_(0, i.abs(), {other})", f"{part}.index_fill_(-1, i, {n})", f"{part}.index_put_((i,), {other}, accumulate=True)",
            f"{part}.scatter_(1, j, {other})", f"{part}.scatter_(1, j, {n})", f"{part}.scatter_add_(1, j, {other})",
            f"{part}.scatter_reduce_(1, j, {other}, '{r.choice(('sum', 'amax', 'amin', 'prod'))}', include_self={r.random() < 0.5})",
            f"torch.add({x}, {y}, out={z})", f"torch.mul({x}, {y}, out={z})", f"torch.maximum({x}, {y}, out={z})", f"torch.eq({x}, {y}, out={z})",
            f"torch.sum({x}, 0, out={z})", f"torch.where({self._mask()}, {x}, {y}, out={z})" if r.random() < 0.3 else f"{part}.copy_({other} == {n})",
            f"torch.cat([{x}, {x}], 0, out={z})" if r.random() < 0.2 else f"{part}.clamp_(min={n})", f"{part}.lerp_({other}, 0.5)",
            f"{part}.addcmul_({other}, {self._part(z)}, value={r.choice((1, 2))}){small}", f"{part}.set_({y})" if r.random() < 0.1 else f"{part}.relu_()",
            f"{part}.cumsum_(-1){small}", f"{part}.tril_()", f"{part}.triu_(1)", f"{part}.t_().t_()" if x not in self.kinds else f"{part}.neg_()",
            f"{part}.fill_diagonal_({n})", f"{part}.transpose(-1, 0).copy_({other})", f"{part}.put_(j[0], {other}.view(-1)[:4])",
            f"{part}.view(torch.int8).copy_({n})" if r.random() < 0.3 else f"{part}.round_()", f"{part}.not_equal_({n})",
        ])  # fmt: skip

    def _value(self):
        r, x, y = self.random, self._pick(), self._pick()
        self.count += 1
        n, d, small = r.choice((0, 1, 2, -1, 3, 7)), r.choice((0, -1)), r.choice((".clamp(-8, 8)", ".remainder(7)", ".clamp(0, 3)", ""))
        kind = f"torch.{str(r.choice(self.types))[6:]}"
        how = r.choice([
            f"({x} + {y}){small}", f"({x} - {y}){small}", f"({x} * {y}){small}", f"{x} * {n}", f"{n} - {x}", f"{x} // {r.choice((2, 3, -2))}", f"{x} % {r.choice((2, -3))}",
            f"{x}.to({kind})", f"{x}.to({kind})", self._part(x), self._part(x), f"{x}.sum({d}){small}", f"{x}.sum({d}, dtype={kind})", f"{x}.prod({d}){small}",
            f"{x}.amax({d})", f"{x}.any({d})", f"{x}.all({d})", f"{x}.cumsum({d}){small}", f"{x}.argmax({d})", f"{x}.sort({d}, stable=True)[0]",
            f"torch.where({self._mask()}, {x}, {y})", f"torch.where({self._mask()}, {x}, {n})", f"{x} == {y}", f"{x} < {n}", f"{x} & {y}", f"{x} ^ {n}", f"~{x}", f"{x} << 1",
            f"{x} >> {y}.abs()", f"torch.cat([{x}, {y}], {d})", f"torch.stack([{x}, {y}]).sum(0)", f"{x}.clone()", f"{x}.view({kind})", f"{x}.flip({d})", f"{x}.roll(1, {d})",
            f"{x}[i]", f"{x}[..., i.abs()]", f"{x}.gather(1, j)", f"{x}.index_select({d}, i.abs())", f"torch.zeros_like({x}, dtype={kind})", f"{x}.new_full((3, 4), {n})",
            f"torch.full((3, 4), {n}, dtype={kind})", f"{x}.masked_fill({self._mask()}, {n})", f"{x}.diff()", f"{x}.repeat_interleave(2, {d})", f"{x}.count_nonzero({d})",
            f"{x}.tril()", f"{x}.abs()", f"{x}.sign()", f"-{x}", f"({x} ** 2){small}", f"torch.maximum({x}, {y})", f"{x}.logical_or({y})", f"{x}.bitwise_not()",
            f"torch.floor_divide({x}, {y} * {y} + 1)", f"torch.remainder({x}, {y}.abs() + 1)", f"torch.fmod({x}, 3)", f"{x}.clamp({y}, {y} + 2)", f"{x}.cummax({d})[0]",
            f"torch.scatter_reduce({x}, 1, j, {y}, 'amin')", f"torch.nn.functional.pad({x}, (1, 0), value={n})", f"torch.outer({x}.view(-1)[:3], {y}.view(-1)[:4]){small}",
            f"{x}.contiguous()", f"{x}.reshape(-1)[:4]", f"{x}.max({d})[0]", f"{x}.topk(1, {d})[0]", f"{x}.expand(2, *{x}.shape)[1]", f"torch.gcd({x}, {y})",
            f"({x}.float() @ {x}.float().t()){small}", f"({x} @ {x}.t()){small}", f"torch.addmm({x}[:, :3], {x}, {y}.t()){small}", f"{x}.detach()",
        ])  # fmt: skip
        return f"v{self.count} = {how}"


def differs(got, want):
    wrong = []
    for at, (x, y) in enumerate(zip(got, want, strict=True)):
        mine, theirs = programs._describe(x), programs._describe(y)
        wrong += [f"tensor {at}: {key} {mine[key]} instead of {theirs[key]}" for key in mine if mine[key] != theirs[key]]
        if x.shape == y.shape and x.dtype == y.dtype and not torch.equal(x.nan_to_num(77), y.nan_to_num(77)):
            wrong.append(f"tensor {at} ({x.dtype}): {x.tolist()} instead of {y.tolist()}")
    if not wrong and programs._memories(got) != programs._memories(want):
        wrong.append(f"memory is shared as {programs._memories(got)}, not {programs._memories(want)}")
    return wrong


def run(program, backend, calls=3):
    """(statements compared, sentences)."""
    torch._dynamo.reset()
    compiled, done = torch.compile(program.function, backend=backend, dynamic=program.dynamic), 0
    for call in range(calls):
        theirs, ours = program.arguments(call), program.arguments(call)
        with torch.no_grad():
            try:
                want = [*program.function(*theirs), *theirs]
            except Exception:
                continue
            got = [*compiled(*ours), *ours]
        wrong = differs(got, want)
        if wrong:
            return done, [f"call {call}: {text[:500]}" for text in wrong[:4]]
        done += len(program.lines)
    return done, []


def try_seed(seed, length=30):
    """(statements compared, sentences about what is wrong)."""
    program, pick = Program(seed, length), random.Random(-seed)
    if not program.results:
        return 0, []
    try:
        done, wrong = run(program, programs.backend_for(pick))
    except Exception as error:
        done, wrong = 0, [f"{type(error).__name__}: {str(error)[:600]}"]
    if not wrong:
        return done, []
    try:
        if run(program, "aot_eager")[1]:
            return 0, []
    except Exception:
        return 0, []  # PyTorch refuses it without weir, too
    kinds = {n: (shape, str(dtype)[6:]) for n, (shape, dtype) in program.kinds.items()}
    return done, [f"seed {seed}, dynamic={program.dynamic}, {kinds}", *wrong, program.source]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("programs that write to every type against eager PyTorch", "statements", try_seed))
