"""Random programs in scopes: streams, core limits and super kernels inside each other, waits for tensors and tokens, random
numbers, and everything that programs.py has: views, updates in place, aliases, results that are arguments.

    python tests/python/_torch/scoped.py [--seconds 60] [--first 0] [--device npu:a3]
"""

import contextlib
import random

import programs
import torch

import weir

DEVICES = ["cpu:cube=24,vector=48", "npu:a3", "cpu:cube=2,vector=4,threads=2,jitter=5", "cpu"]
SPLIT = ("cube", "npu")


class Program(programs.Program):
    def _finish(self):
        """As programs.Program has it, but for what stands around the lines."""
        self.scopes, own = False, list(self.lines)
        r, self.lines, stack, tokens, known = self.random, [], [], [], ["a", "b", "c"]
        for line in own:
            while stack and r.random() < 0.3:
                stack.pop()
            while len(stack) < 3 and r.random() < 0.25:
                self.lines.append("    " * len(stack) + f"with {self._scope()}:")
                stack.append(1)
            pad = "    " * len(stack)
            if r.random() < 0.15:
                self.lines.append(pad + f"weir.scope.npu_wait_tensor({r.choice(known)}, {r.choice(known)})")
            if r.random() < 0.1:
                tokens.append(f"t{len(tokens)}")
                self.lines.append(pad + f"{tokens[-1]} = weir.ops.record()")
            if tokens and r.random() < 0.15:
                self.lines.append(pad + f"weir.ops.wait([{', '.join(r.sample(tokens, r.randint(1, len(tokens))))}])")
            if r.random() < 0.06:
                x = r.choice(known)
                self.lines.append(pad + r.choice((f"{x}.copy_(torch.randint(-3, 4, {x}.shape).to({x}.dtype))",
                                                  f"{x}.mul_((torch.rand({x}.shape) < 0.5).to({x}.dtype))")))  # fmt: skip
            self.lines.append(pad + line)
            names, made, _ = line.partition(" = ")
            if made and "[" not in names and "(" not in names:
                known += [n.strip() for n in names.split(",")]
            stack = stack if self.lines[-1].strip() else []
        super()._finish()

    def _scope(self):
        r = self.random
        return r.choice([
            f'weir.scope.npu_stream_switch("{r.choice("pqr")}")', f'weir.scope.npu_stream_switch("{r.choice("pqr")}", -1)',
            f"weir.scope.limit_core_num({r.choice((1, 2, -1))}, {r.choice((1, 3, 4))})",
            f'weir.scope.super_kernel("{r.choice("st")}")', "weir.scope.super_kernel(None)", "weir.scope.op_never_timeout()",
        ])  # fmt: skip


class Run(programs.Run):
    def once(self, size, seed):
        torch.manual_seed(seed)
        want = programs.call(self.program.function, self.program.arguments(size, seed))
        torch.manual_seed(seed)
        got = programs.call(self.function, self.program.arguments(size, seed))
        self.wrong += [f"size {size}: {text}" for text in programs.compare(got, want)]
        self.operators += self.program.length


@contextlib.contextmanager
def on(spec):
    before = weir.get_device()
    weir.set_device(spec)
    try:
        yield
    finally:
        weir.set_device(before)


def try_seed(seed, length=14):
    """(operators run, sentences about what is wrong)."""
    pick = random.Random(seed)
    program, dynamic = Program(seed, pick.randint(5, length + 5)), pick.choice(programs.SETTINGS)
    spec = pick.choice(DEVICES)
    if "limit_core_num" in program.source and not any(word in spec for word in SPLIT):
        spec = DEVICES[0]
    run = None
    try:
        with on(spec):
            run = Run(program, programs.backend_for(pick), dynamic)
            run.all_sizes()
            if not run.wrong:
                return run.operators, []
    except Exception as error:
        if "super kernel" in str(error) and not (run and run.wrong):
            return 0, []  # what one launch cannot be
        wrong = [f"{type(error).__name__}: {str(error)[:500]}"]
    else:
        wrong = run.wrong[:5]
    try:
        with on("cpu:cube=24,vector=48"):
            if Run(program, "aot_eager", dynamic).all_sizes():
                return 0, []
    except Exception:
        return 0, []  # PyTorch refuses it without weir, too
    return 0, [f"seed {seed}, dynamic={dynamic}, {spec}", *(text[:500] for text in wrong), program.source]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("random programs in scopes against eager PyTorch", "operators", try_seed))
