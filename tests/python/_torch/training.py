"""Random training: a model and its optimizer, compiled and eager, with what changes between steps.

Each seed makes a model of a few layers in float64, trains it in two worlds and compares losses, gradients,
parameters, buffers and the optimizer's state after each step. Between steps batches change their sizes,
gradients add up, parameters are frozen, replaced, loaded or written to, modes switch, and gradients are
taken twice.

    python tests/python/_torch/training.py [--seconds 60] [--first 0] [--device cpu]
"""

import contextlib
import copy
import random

import programs
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


F = nn.functional
WIDTH, WORDS, LENGTH = 6, 11, 5


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        # A bias of keys has gradients of nothing but rounding, which optimizers make large.
        self.all, self.causal = nn.Linear(WIDTH, 3 * WIDTH, bias=False), causal

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.all(x).chunk(3, -1))
        made = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + made.transpose(1, 2).flatten(-2)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


class Norm(nn.Module):
    """Batch norm over the width, whose statistics are buffers."""

    def __init__(self, momentum):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH, momentum=momentum)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Root(nn.Module):
    """The norm that language models have, in their words."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 8), nn.Linear(4, WIDTH)

    def forward(self, x):
        a, b = self.up(x).chunk(2, -1)
        return x + self.down(F.silu(a) * b)


class InPlace(nn.Module):
    """Writes to what the layer before saved, or to a part of a copy."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        x = x * self.weight
        if self.kind == 0:
            return x.relu_()
        if self.kind == 1:
            y = x.clone()
            y[:, 1:] += x[:, :-1]
            return y
        if self.kind == 2:
            y = torch.zeros_like(x)
            y[..., ::2] = x[..., 1::2]
            return y + x
        if self.kind == 3:
            return x.clone().masked_fill_(x > 1, 0.5).mul_(2)
        if self.kind == 4:
            y = x.clone()
            y.index_put_((torch.tensor([0, 0]),), x[:1].detach() * 0.5, accumulate=True)
            return y
        return x.add(1).exp_().clamp(max=9)


class Count(nn.Module):
    """A running mean that the step writes to, and a count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.seen.add_(1)
                self.mean.lerp_(x.mean((0, 1)), 0.1)
        return x - self.mean * (self.seen % 3)


class Recomputed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


class Model(nn.Module):
    def __init__(self, layers, tied):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, WORDS)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, words, noise, target):
        x = self.words(words) + noise
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), target.flatten()), x.detach().mean(1)


def _layer(pick):
    kind = pick.randrange(13)
    if kind == 0:
        return nn.Linear(WIDTH, WIDTH, bias=pick.random() < 0.5)
    if kind == 1:
        return nn.LayerNorm(WIDTH, elementwise_affine=pick.random() < 0.7)
    if kind == 2:
        return Norm(pick.choice((0.1, None)))
    if kind == 3:
        return pick.choice((nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.ELU(), nn.Hardswish(), nn.Tanh(),
                            nn.Softplus(), nn.LeakyReLU(0.1), nn.Mish(), nn.ReLU(inplace=True)))  # fmt: skip
    if kind == 4:
        return nn.Dropout(pick.choice((0.0, 0.3)))
    if kind == 5:
        return Attention(pick.random() < 0.5)
    if kind == 6:
        return Convolution()
    if kind == 7:
        return Gate()
    if kind == 8:
        return Root()
    if kind in (9, 10):
        return InPlace(pick.randrange(6))
    if kind == 11:
        return Count()
    inner = nn.Sequential(*(_layer(pick) for _ in range(2)))
    return Recomputed(inner) if not _writes(inner) else inner


def _writes(module):
    return any(isinstance(m, (Count, nn.BatchNorm1d)) for m in module.modules())


OPTIMIZERS = [
    lambda p, o: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, **o),
    lambda p, o: torch.optim.SGD(p, 0.05, weight_decay=0.01, **o),
    lambda p, o: torch.optim.Adam(p, 0.01, amsgrad=True, **o),
    lambda p, o: torch.optim.AdamW(p, 0.01, **o),
    lambda p, o: torch.optim.AdamW(p, torch.tensor(0.01), **o, capturable=False),
    lambda p, o: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True, **o),
    lambda p, o: torch.optim.Adagrad(p, 0.05, **o),
    lambda p, o: torch.optim.NAdam(p, 0.01, **o),
    lambda p, o: torch.optim.RAdam(p, 0.01, **o),
    lambda p, o: torch.optim.Adadelta(p, **o),
    lambda p, o: torch.optim.Adamax(p, 0.01, **o),
    lambda p, o: torch.optim.ASGD(p, 0.01, **o),
]


class World:
    def __init__(self, model, optimizer, run, step):
        self.model, self.optimizer, self.run, self.step = model, optimizer, run, step

    def state(self):
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        found = dict(named)
        found |= {f"gradient of {n}": p.grad for n, p in self.model.named_parameters() if p.grad is not None}
        order = {p: n for n, p in self.model.named_parameters()}
        for p, kept in self.optimizer.state.items():
            found |= {f"{k} of {order.get(p)}": v for k, v in kept.items() if isinstance(v, torch.Tensor)}
        return {name: t.detach().clone() for name, t in found.items()}


class Training:
    def __init__(self, seed, backend, dynamic):
        torch._dynamo.reset()
        self.pick, self.log = random.Random(seed), []
        pick = self.pick
        torch.manual_seed(seed)
        model = Model([_layer(pick) for _ in range(pick.randint(1, 5))], pick.random() < 0.3)
        self.dtype = pick.choice((torch.float64, torch.float64, torch.float32))
        model.to(self.dtype)
        options = pick.choice(({}, {"foreach": True}, {"foreach": False}, {"foreach": True, "maximize": True}))
        make, both = pick.choice(OPTIMIZERS), pick.random() < 0.4
        self.cast = self.dtype is torch.float32 and pick.random() < 0.4
        self.log.append(f"{[type(m).__name__ for m in model.layers]} {options} {self.dtype} cast={self.cast}")
        self.worlds = []
        for name in (backend, None):
            own = copy.deepcopy(model)
            try:
                optimizer = make(own.parameters(), options)
            except (ValueError, TypeError, RuntimeError):
                optimizer = make(own.parameters(), {})
            run = torch.compile(own, backend=name, dynamic=dynamic) if name else own
            # Optimizers count otherwise when Dynamo traces them.
            step = torch.compile(optimizer.step, backend=name or "eager") if both else optimizer.step
            self.worlds.append(World(own, optimizer, run, step))
        self.log.append(f"{type(optimizer).__name__} compiled={both}")
        self.size = 3

    def run(self, steps=6):
        """(steps done, sentences)."""
        for number in range(steps):
            how = self._next(number)
            made = []
            for world in self.worlds:
                torch.manual_seed(number)
                made.append((how(world), world.state()))
            wrong = self._compare(*made)
            if wrong:
                return number, [f"step {number}: {text}" for text in wrong[:5]]
        return steps, []

    def _next(self, number):
        """What a world does in this step."""
        pick, seed = self.pick, self.pick.randrange(1 << 30)
        change, at = pick.random(), pick.randrange(99)
        if pick.random() < 0.4:
            self.size = pick.choice((1, 2, 3, 4, 7))
        size, parts = self.size, pick.choice((1, 1, 2))
        twice, clip, closed = pick.random() < 0.2, pick.random() < 0.3, pick.random() < 0.5
        evaluates = pick.random() < 0.2
        self.log.append(f"{number}: change={change:.2f} size={size} parts={parts} twice={twice} clip={clip} "
                        f"closed={closed} evaluates={evaluates}")  # fmt: skip

        def how(world):
            self._change(world, change, at)
            results = []
            for part in range(parts):
                results += self._pass(world, seed + part, size, twice)
            with contextlib.suppress(RuntimeError):
                if clip:
                    results.append(nn.utils.clip_grad_norm_(world.model.parameters(), 1.0))
            world.step()
            before = None if closed else 0
            for p in world.model.parameters():
                if before is None:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.zero_()
            if evaluates:
                world.model.eval()
                with torch.inference_mode() if closed else torch.no_grad():
                    results += world.run(*self._batch(seed, size))
                world.model.train()
            return [r.detach().clone() for r in results]

        return how

    def _batch(self, seed, size):
        g = torch.Generator().manual_seed(seed)
        words = torch.randint(0, WORDS, (size, LENGTH), generator=g)
        noise = torch.randn(size, LENGTH, WIDTH, generator=g, dtype=torch.float64).to(self.dtype)
        return words, noise, torch.randint(0, WORDS, (size, LENGTH), generator=g)

    def _pass(self, world, seed, size, twice):
        words, noise, target = self._batch(seed, size)
        noise.requires_grad_(seed % 2 == 0)
        cast = torch.autocast("cpu", dtype=torch.bfloat16) if self.cast else contextlib.nullcontext()
        with cast:
            loss, mean = world.run(words, noise, target)
        if loss.requires_grad:
            loss.backward(retain_graph=twice)
            if twice:
                (loss * 0.5).backward()
        return [loss, mean, *([noise.grad] if noise.grad is not None else [])]

    def _change(self, world, change, at):
        params = [*world.model.parameters()]
        p = params[at % len(params)]
        if change < 0.08:
            p.requires_grad_(not p.requires_grad)
        elif change < 0.16:
            p.data = p.data * 0.5
        elif change < 0.24:
            world.model.load_state_dict({k: v * 0.9 if v.is_floating_point() else v
                                         for k, v in world.model.state_dict().items()})  # fmt: skip
        elif change < 0.32:
            with torch.no_grad():
                p.mul_(-0.5)
        elif change < 0.36:
            p.data = p.data.t().contiguous().t() if p.ndim == 2 else p.data.clone()
        elif change < 0.42:
            for buffer in world.model.buffers():
                buffer.zero_() if buffer.is_floating_point() else buffer.fill_(2)
        elif change < 0.48:
            for group in world.optimizer.param_groups:
                if not isinstance(group["lr"], torch.Tensor):
                    group["lr"] *= 0.7
        elif change < 0.54:
            world.model.load_state_dict({k: v.clone() for k, v in world.model.state_dict().items()}, assign=False)
            world.optimizer.load_state_dict(copy.deepcopy(world.optimizer.state_dict()))

    def _compare(self, ours, theirs):
        # Optimizers count in f32.
        tolerance = 2e-2 if self.cast else 1e-6 if self.dtype is torch.float64 else 5e-3
        wrong = []
        pairs = {f"result {i}": x for i, x in enumerate(zip(ours[0], theirs[0], strict=True))}
        if ours[1].keys() != theirs[1].keys():
            wrong.append(f"has {sorted(ours[1])} instead of {sorted(theirs[1])}")
        pairs |= {k: (x, theirs[1][k]) for k, x in ours[1].items() if k in theirs[1]}
        for name, (x, y) in pairs.items():
            if x.dtype != y.dtype or x.shape != y.shape:
                wrong.append(f"{name}: {x.dtype} {tuple(x.shape)} for {y.dtype} {tuple(y.shape)}")
                continue
            near = max(1.0, y.double().abs().max().item()) * tolerance
            if not torch.allclose(x.double(), y.double(), rtol=tolerance, atol=near, equal_nan=True):
                wrong.append(f"{name}: {x.tolist()} for {y.tolist()}"[:500])
        return wrong


def try_seed(seed, steps=6):
    """(steps compared, sentences about what is wrong)."""
    pick = random.Random(-seed)
    dynamic, training = pick.choice((True, None, False)), None
    try:
        training = Training(seed, programs.backend_for(pick), dynamic)
        done, wrong = training.run(steps)
    except Exception as error:
        done, wrong = 0, [f"{type(error).__name__}: {str(error)[:600]}"]
    if not wrong:
        return done, []
    try:
        if Training(seed, "aot_eager", dynamic).run()[1]:
            return 0, []
    except Exception:
        return 0, []  # PyTorch refuses it without weir, too
    return done, [f"seed {seed}, dynamic={dynamic}", *wrong, *(training.log if training else [])]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("random training against eager PyTorch", "steps of training", try_seed))
