"""Random programs of collectives between real processes: sub-groups, views with gaps, elements that are none, calls that
are waited for later, several in one. Every rank keeps what each rank should have, computed with PyTorch alone.

    python tests/python/random_collectives.py [--ranks 3] [--first 0] [--count 20]

One rank is: random_collectives.py RANK RANKS FILE FIRST COUNT.
"""

import argparse
import datetime
import faulthandler
import functools
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional

import weir
import weir.distributed  # registers the backend

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
         torch.int8, torch.uint8, torch.bool, torch.complex64]  # fmt: skip
OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.MAX: "max", dist.ReduceOp.MIN: "min", dist.ReduceOp.PRODUCT: "prod",
       dist.ReduceOp.AVG: "mean", dist.ReduceOp.BAND: "and", dist.ReduceOp.BOR: "or", dist.ReduceOp.BXOR: "xor"}  # fmt: skip
ROWS, COLUMNS = 12, 6
VIEWS = ["x", "x.t()", "x[::2]", "x[:, 1:3]", "x[2:2]", "x[3]", "x[:, 2]", "x[0, 1]", "x[6:]", "x[:6].t()", "x[:, :0]",
         "x[1:2, ::2]", "x.view(3, 4, 6).transpose(0, 2)", "x[None]", "x[-1:, -1:]", "x.view(-1)[5:29]",
         "x.view(-1)[5:29].view(4, 6)", "x.view(4, 3, 6)[:, 1]"]  # fmt: skip


def combine(op, parts):
    kind = parts[0].dtype
    if op in ("and", "or", "xor"):
        return functools.reduce(getattr(torch, f"bitwise_{op}"), parts)
    if kind == torch.bool:
        stack = torch.stack(parts)
        return stack.all(0) if op in ("prod", "min") else stack.any(0)
    if kind.is_complex:
        total = functools.reduce(torch.add, parts)
        return total / len(parts) if op == "mean" else total
    if not kind.is_floating_point and op in ("sum", "prod"):
        return functools.reduce(torch.add if op == "sum" else torch.mul, parts)
    stack = torch.stack([p.double() for p in parts])
    if not stack.numel():
        return parts[0]
    return {"sum": stack.sum, "prod": stack.prod, "max": stack.amax, "min": stack.amin, "mean": stack.mean}[op](0).to(kind)


def view(text, x):
    return eval(text, {"x": x})


class Program:
    """What all ranks do; ``self.all[rank]`` is what that rank should have, ``self.own`` what this one has."""

    def __init__(self, seed, rank, ranks, groups):
        self.random, self.rank, self.ranks, self.groups = random.Random(seed), rank, ranks, groups
        self.seed, self.log, self.waiting = seed, [], []
        self.kind = self.random.choice(TYPES)
        self.all = [[self._fresh(100 * r + i) for i in range(4)] for r in range(ranks)]
        self.own = [t.clone() for t in self.all[rank]]
        self.busy = set()  # tensors of calls that are waited for later

    def _fresh(self, salt):
        g = torch.Generator().manual_seed(1000003 * self.seed + salt)
        return torch.randint(-2 if self.kind.is_signed else 0, 3, (ROWS, COLUMNS), generator=g).to(self.kind)

    def run(self, steps=25):
        for number in range(steps):
            free = [i for i in range(4) if i not in self.busy]
            if len(free) < 2 or self.random.random() < 0.15:
                self._settle()
                continue
            self._step(number, free)
        self._settle()
        return self.log

    def _settle(self):
        random.Random(self.seed).shuffle(self.waiting)  # ranks wait for different ones
        for work in self.waiting:
            if work is not None:
                work.wait()
        self.waiting, self.busy = [], set()
        for i, (got, want) in enumerate(zip(self.own, self.all[self.rank])):
            if not torch.equal(got, want):
                raise AssertionError(f"seed {self.seed}, rank {self.rank}, {self.kind}: tensor {i} is\n{got}\nnot\n{want}\n"
                                     + "\n".join(self.log[-12:]))  # fmt: skip
        # Small numbers again.
        for t in [*self.own, *(t for of_rank in self.all for t in of_rank)]:
            if self.kind.is_complex:
                t.copy_(torch.complex(t.real.round().remainder(3), t.imag.round().remainder(3)))
            elif self.kind != torch.bool:
                t.copy_(t.floor().remainder(3) if self.kind.is_floating_point else t.remainder(3))

    def _op(self, members):
        found = ["sum", "max", "min"]
        if self.kind.is_complex:
            found = ["sum"]
        elif len(members) < 4:
            found.append("prod")
        if self.kind.is_floating_point and len(members) == 2:
            found.append("mean")
        if not self.kind.is_floating_point and not self.kind.is_complex:
            found += ["and", "or", "xor"]
        return self.random.choice(found)

    def _step(self, number, free):
        r = self.random
        members, group = r.choice(self.groups)
        kind = r.choice([n for n in dir(self) if n.startswith("do_")])
        later = r.random() < 0.4
        a, b = r.sample(free, 2)
        text = r.choice(VIEWS)
        self.log.append(f"{number}: {kind} members={members} tensors={a},{b} {text} later={later}")
        works = getattr(self, kind)(members, group, a, b, text, later)
        if later:  # the same on every rank
            self.waiting += works if isinstance(works, list) else [works]
            self.busy |= {a, b}

    def _every(self, i, text):
        return [view(text, tensors[i]) for tensors in self.all]

    # Each gives its work, or None. What ranks outside of the group do is nothing.

    def do_all_reduce(self, members, group, a, b, text, later):
        op = self._op(members)
        self.log[-1] += f" {op}"
        every = self._every(a, text)
        made = combine(op, [every[m].clone() for m in members])
        for m in members:
            every[m].copy_(made)
        if self.rank in members:
            return dist.all_reduce(view(text, self.own[a]), _named(op), group, later)

    def do_reduce(self, members, group, a, b, text, later):
        op, root, every = self._op(members), self.random.choice(members), self._every(a, text)
        self.log[-1] += f" {op} to {root}"
        every[root].copy_(combine(op, [every[m].clone() for m in members]))
        if self.rank in members:
            return dist.reduce(view(text, self.own[a]), root, _named(op), group, later)

    def do_broadcast(self, members, group, a, b, text, later):
        root, every = self.random.choice(members), self._every(a, text)
        for m in members:
            every[m].copy_(every[root].clone())
        if self.rank in members:
            return dist.broadcast(view(text, self.own[a]), root, group, later)

    def _pieces(self, members):
        """Parts of a tensor, one for each member, that do not overlap."""
        n = ROWS // len(members)
        return self.random.choice([
            [f"x[{i * n}:{i * n + n}]" for i in range(len(members))],
            [f"x[{i}::{len(members)}]" for i in range(len(members))],
            [f"x[:, {i}]" for i in range(len(members))],
            [f"x[{i}, {i}]" for i in range(len(members))],
            [f"x[2:2, {i}:]" for i in range(len(members))] if len(members) == 1 else [f"x[{i}:{i}]" for i in range(len(members))],
            [f"x[{i * n}:{i * n + n}].t()" for i in range(len(members))],
        ])  # fmt: skip

    def do_all_gather(self, members, group, a, b, text, later):
        pieces = self._pieces(members)
        self.log[-1] += f" {pieces}"
        source = [view(pieces[0], t[a]).clone() for t in self.all]
        for m in members:
            for piece, of in zip(pieces, members):
                view(piece, self.all[m][b]).copy_(source[of])
        if self.rank in members:
            outs = [view(piece, self.own[b]) for piece in pieces]
            return dist.all_gather(outs, view(pieces[0], self.own[a]), group, later)

    def do_gather(self, members, group, a, b, text, later):
        pieces, root = self._pieces(members), self.random.choice(members)
        source = [view(pieces[0], t[a]).clone() for t in self.all]
        for piece, of in zip(pieces, members):
            view(piece, self.all[root][b]).copy_(source[of])
        if self.rank in members:
            outs = [view(piece, self.own[b]) for piece in pieces] if self.rank == root else None
            return dist.gather(view(pieces[0], self.own[a]), outs, root, group, later)

    def do_scatter(self, members, group, a, b, text, later):
        pieces, root = self._pieces(members), self.random.choice(members)
        for piece, to in zip(pieces, members):
            view(pieces[-1], self.all[to][b]).copy_(view(piece, self.all[root][a]))
        if self.rank in members:
            ins = [view(piece, self.own[a]) for piece in pieces] if self.rank == root else None
            return dist.scatter(view(pieces[-1], self.own[b]), ins, root, group, later)

    def do_reduce_scatter(self, members, group, a, b, text, later):
        pieces, op = self._pieces(members), self._op(members)
        self.log[-1] += f" {pieces} {op}"
        for piece, to in zip(pieces, members):
            made = combine(op, [view(piece, self.all[m][a]).clone() for m in members])
            view(pieces[-1], self.all[to][b]).copy_(made)
        if self.rank in members:
            ins = [view(piece, self.own[a]) for piece in pieces]
            return dist.reduce_scatter(view(pieces[-1], self.own[b]), ins, _named(op), group, later)

    def do_all_to_all(self, members, group, a, b, text, later):
        pieces, other = self._pieces(members), self._pieces(members)
        if view(pieces[0], self.own[a]).shape != view(other[0], self.own[a]).shape:
            other = pieces
        for i, m in enumerate(members):
            for j, of in enumerate(members):
                view(other[j], self.all[m][b]).copy_(view(pieces[i], self.all[of][a]))
        if self.rank in members:
            ins = [view(piece, self.own[a]) for piece in pieces]
            return dist.all_to_all([view(piece, self.own[b]) for piece in other], ins, group, later)

    def do_single(self, members, group, a, b, text, later):
        """all_to_all_single with any splits."""
        n, cut = len(members), self.random.choice(("x", "x[:, 1:4]", "x[:, 0]", "x[:, 2:2]"))
        rows = [[self.random.randint(0, ROWS // n) for _ in members] for _ in members]  # from i to j
        self.log[-1] += f" {rows} {cut}"
        for j, to in enumerate(members):
            parts = []
            for i, of in enumerate(members):
                start = sum(rows[i][:j])
                parts.append(view(cut, self.all[of][a])[start : start + rows[i][j]])
            made = torch.cat(parts)
            view(cut, self.all[to][b])[: made.shape[0]] = made
        if self.rank in members:
            me = members.index(self.rank)
            recv = [rows[i][me] for i in range(n)]
            out = view(cut, self.own[b])[: sum(recv)]
            return dist.all_to_all_single(out, view(cut, self.own[a])[: sum(rows[me])], recv, rows[me], group, later)

    def do_into(self, members, group, a, b, text, later):
        """all_gather_into_tensor, or the reduction into its parts."""
        n, cut = len(members), self.random.choice(("x", "x[:, ::2]", "x[:, 3]", "x[:, :0]"))
        rows, op = self.random.randint(0, ROWS // n), self._op(members)
        whole, part = f"{cut}[{ROWS - rows * n}:]", f"{cut}[1:{1 + rows}]" if rows < ROWS else cut
        self.log[-1] += f" {whole} {part} {op}"
        if self.random.random() < 0.5:
            made = torch.cat([view(part, self.all[m][a]) for m in members])
            for m in members:
                view(whole, self.all[m][b]).copy_(made)
            if self.rank in members:
                return dist.all_gather_into_tensor(view(whole, self.own[b]), view(part, self.own[a]), group, later)
            return None
        made = combine(op, [view(whole, self.all[m][a]).clone() for m in members])
        for i, m in enumerate(members):
            view(part, self.all[m][b]).copy_(made[i * rows : i * rows + rows])
        if self.rank in members:
            return dist.reduce_scatter_tensor(view(part, self.own[b]), view(whole, self.own[a]), _named(op), group, later)

    def do_messages(self, members, group, a, b, text, later):
        """Each to the next one; the last of them to the first."""
        shift, before = self.random.randrange(1, len(members)), [t.clone() for t in self._every(a, text)]
        for i, m in enumerate(members):
            view(text, self.all[members[(i + shift) % len(members)]][b]).copy_(before[m])
        if self.rank in members:
            at = members.index(self.rank)
            to, source = members[(at + shift) % len(members)], members[(at - shift) % len(members)]
            ops = [dist.P2POp(dist.isend, view(text, self.own[a]), to, group),
                   dist.P2POp(dist.irecv, view(text, self.own[b]), source, group)]  # fmt: skip
            works = dist.batch_isend_irecv(ops)
            if later:
                return works
            for work in works:
                work.wait()

    def do_together(self, members, group, a, b, text, later):
        op = self._op(members)
        cuts = self.random.sample(["x[:3]", "x[4:7].t()", "x[8, 1:]", "x[9:9]", "x[10:, ::2]"], 3)
        for cut in cuts:
            every = self._every(a, cut)
            made = combine(op, [every[m].clone() for m in members])
            for m in members:
                every[m].copy_(made)
        if self.rank in members:
            with dist._coalescing_manager(group, async_ops=later) as manager:
                for cut in cuts:
                    dist.all_reduce(view(cut, self.own[a]), _named(op), group)
            return manager if later else None

    def do_functional(self, members, group, a, b, text, later):
        """What compiled models call; compiled at times."""
        op, n = self._op(members), len(members)
        rows = ROWS // n
        if op in ("and", "or", "xor", "prod") or self.kind in (torch.bool, torch.complex64):
            op = "sum"
        if self.kind == torch.bool:
            return None
        every = self._every(a, text)
        summed = combine(op, [t.clone() for t in (every[m] for m in members)])
        dim = self.random.randrange(2)
        for i, m in enumerate(members):
            whole = torch.cat([self.all[o][b][:1] for o in members], dim)
            parts = torch.cat([self.all[o][b][i * rows : i * rows + rows] for o in members])
            made = (summed + 1, whole, parts)
            if m == self.rank:
                want = [t.clone() for t in made]
        if self.rank not in members:
            return None

        def function(x, y):
            one = functional.all_reduce(x, "avg" if op == "mean" else op, group)
            two = functional.all_gather_tensor(y[:1], dim, group)
            three = functional.all_to_all_single(y[: rows * n], [rows] * n, [rows] * n, group)
            return one + 1, two + 0, three + 0

        run = function
        if later and not self.kind.is_complex:
            torch._dynamo.reset()
            run = torch.compile(function, backend=weir.get_npu_backend(), fullgraph=True)
        for i, (got, wanted) in enumerate(zip(run(view(text, self.own[a]), self.own[b]), want)):
            if not torch.equal(got, wanted):
                raise AssertionError(f"seed {self.seed}, rank {self.rank}, {self.kind}: functional {i} is {got}, not {wanted}\n"
                                     + "\n".join(self.log[-4:]))  # fmt: skip
        return None


def _named(op):
    return next(to for to, name in OPS.items() if name == op)


def limit(count):
    """Seconds: programs take less than one on an idle machine."""
    return 190 + 20 * count


def main(rank, ranks, path, first, count):
    faulthandler.dump_traceback_later(limit(count) - 20, exit=True)  # a hang says where
    torch.set_num_threads(1)
    dist.init_process_group("weir", init_method=f"file://{path}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=60))  # fmt: skip
    groups = [(list(range(ranks)), dist.group.WORLD)] * 2
    for members in ([0, 1], [0, 2], [1, 2], [2, 1]):
        if max(members) < ranks:
            groups.append((sorted(members), dist.new_group(members, backend="weir")))
    steps = 0
    for seed in range(first, first + count):
        steps += len(Program(seed, rank, ranks, groups).run())
        dist.barrier()
    print(f"rank {rank}: {steps} calls of seeds {first}..{first + count - 1}", flush=True)
    dist.destroy_process_group()


def start():
    parser = argparse.ArgumentParser(description="random programs of collectives")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = str(pathlib.Path(folder) / "store")
        ranks = [subprocess.Popen([sys.executable, __file__, str(r), str(given.ranks), store, str(given.first),
                                   str(given.count)]) for r in range(given.ranks)]  # fmt: skip
        try:  # a rank that fails is told of by the others
            return max(abs(p.wait(limit(given.count))) for p in ranks)
        finally:
            for p in ranks:
                p.kill()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        raise SystemExit(start())
