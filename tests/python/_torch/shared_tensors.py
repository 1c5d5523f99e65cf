"""Several compiled modules that share tensors: random sessions of two modules with one pool of tensors and one set of
buffers, called in turn in no_grad, inference_mode and with gradients on, with eager writes to what they share between.

    python tests/python/_torch/shared_tensors.py [--seconds 60] [--first 0] [--device cpu]
"""

import contextlib
import random

import programs
import sessions
import torch


MODES = (contextlib.nullcontext, torch.no_grad, torch.inference_mode, torch.enable_grad)


class Pair:
    """One side: modules with shared state and the tensors of all calls."""

    def __init__(self, kinds, compile):
        self.modules = [kind() for kind in kinds]
        for other in self.modules[1:]:
            other.count, other.w = self.modules[0].count, self.modules[0].w
        self.runs, self.pool = [compile(m) for m in self.modules], []

    def state(self):
        return [*self.pool, self.modules[0].count, self.modules[0].w]


class Session:
    def __init__(self, seed, backend, dynamic):
        torch._dynamo.reset()
        self.random, self.log = random.Random(seed), []
        self.texts = [sessions.Program(seed * 3 + i, self.random.randint(2, 8)) for i in (1, 2)]
        kinds = [text.module for text in self.texts]
        self.dtype = self.random.choice((torch.float32, torch.float64, torch.bfloat16))
        self.ours = Pair(kinds, lambda m: torch.compile(m, backend=backend, dynamic=dynamic, fullgraph=True))
        self.theirs = Pair(kinds, lambda m: m)

    def run(self, calls=12):
        """(calls made, sentences)."""
        for number in range(calls):
            step = self._call(number) if number == 0 or self.random.random() < 0.7 else self._write(number)
            try:
                want = step(self.theirs)
            except Exception as error:  # eager PyTorch refuses it: nothing to compare
                self.log.append(f"eager: {str(error)[:80]}")
                return number, []
            got = step(self.ours)
            # Which of 0.0 and -0.0 is the larger is not said, so signs of zeros are not compared.
            wrong = programs.compare((got, []), (want, []))
            wrong += [f"tensor {at}: {x} instead of {y}" for at, (x, y) in enumerate(zip(got, want)) if not _equal(x, y)]
            if wrong:
                return number, [f"step {number}: {text[:400]}" for text in wrong[:4]]
        return calls, []

    def _call(self, number):
        r = self.random
        which, mode, (n, m) = r.randrange(2), r.choice(MODES), r.choice(sessions.SIZES[:7])
        ways = [r.choice(("fresh", "old", "old", "part")) for _ in range(3)]
        seeds, picks = [[r.randrange(1 << 30) for _ in range(4)] for _ in range(2)]
        k, s = r.choice((0, 1, 2)), r.choice(sessions.NUMBERS)
        self.log.append(f"{number}: module {which} in {mode.__name__}, {(n, m)} {ways} k={k} s={s}")

        def step(side):
            args = [self._tensor(side, *x, n, m) for x in zip(ways, seeds, picks)]
            v = sessions._numbers((m,), self.dtype, seeds[3])
            with mode():
                results = side.runs[which](*args, v, torch.tensor([n - 1, 0])[: n + 1], k, s)
            side.pool += [x for x in (*args, v, *results) if all(x is not y for y in side.pool)]
            return [*results, *side.state()]

        return step

    def _tensor(self, side, way, seed, pick, n, m):
        fits = [t for t in side.pool if t.shape == (n, m) and t.dtype == self.dtype]
        if way == "old" and fits:
            return fits[pick % len(fits)]
        more = [t for t in side.pool if t.ndim == 2 and t.shape[0] >= n and t.shape[1] >= m and t.dtype == self.dtype]
        if way == "part" and more:
            whole = more[pick % len(more)]
            return whole[whole.shape[0] - n :, :m]
        return sessions._numbers((n, m), self.dtype, seed)

    def _write(self, number):
        how, pick = self.random.randrange(7), self.random.randrange(1 << 30)
        self.log.append(f"{number}: write {how} to {pick}")

        def step(side):
            t = side.pool[pick % len(side.pool)]
            with torch.inference_mode() if t.is_inference() else torch.no_grad():
                if how == 0:
                    t.add_(1)
                elif how == 1:
                    t.zero_()
                elif how == 2 and not t.is_inference():
                    t.data = t.data.clone() * -1
                elif how == 3:
                    side.modules[0].count.add_(2)
                elif how == 4:
                    side.modules[0].w.mul_(-1)
                elif how == 5 and t.ndim == 2:
                    t[:1].copy_(t[-1:].clone())
                elif how == 6:
                    for module in side.modules:
                        module.scale = 2.0 - module.scale / 2
            return side.state()

        return step


def _equal(x, y):
    return x.shape != y.shape or torch.equal(x.detach().nan_to_num(7), y.detach().nan_to_num(7))


def try_seed(seed, calls=12):
    """(calls compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    dynamic, session = pick.choice((True, None, False)), None
    try:
        session = Session(seed, programs.backend_for(pick), dynamic)
        done, wrong = session.run(calls)
    except Exception as error:
        done, wrong = 0, [f"{type(error).__name__}: {str(error)[:600]}"]
    if not wrong:
        return done, []
    try:
        if Session(seed, "aot_eager", dynamic).run()[1]:
            return 0, []
    except Exception:
        return 0, []  # PyTorch refuses it without weir, too
    texts = [text.source for text in session.texts] if session else []
    return done, [f"seed {seed}, dynamic={dynamic}", *wrong, *texts, *(session.log if session else [])]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("compiled modules that share tensors against eager PyTorch", "calls of sessions", try_seed))
