"""PyTorch's own samples of its operators (OpInfo), compiled and eager: results, and gradients for upstream gradients of
several layouts.

    python tests/python/_torch/operator_gradients.py [--seconds 60] [--first 0]
"""

import random
import sys
import types
import unittest

import programs
import torch
from torch.utils import _pytree as pytree

# PyTorch's samples are beside its tests, which need this package; the samples do not.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, assert_expected_inline=None))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

TYPES = {torch.float64: 1e-7, torch.float32: 2e-3, torch.complex64: 2e-3}


def _tensors(tree):
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _copied(x):
    """The same values and layout, in memory of its own."""
    if not isinstance(x, torch.Tensor):
        return x
    overlaps = any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape))
    made = x.detach().clone() if overlaps else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x.detach())
    return made.requires_grad_(x.requires_grad)


def _upstream(result, kind, seed):
    numbers = torch.randn(result.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(result.dtype)
    if kind == "turned" and result.ndim > 1:
        return numbers.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "expanded":
        return torch.ones((), dtype=result.dtype).expand(result.shape)
    if kind == "with gaps":
        return torch.stack([numbers, numbers], -1)[..., 0]
    return numbers


def _run(function, sample, kind, seed):
    """Results, then gradients, whose place is kept by None."""
    given = pytree.tree_map(_copied, (sample.input, sample.args, sample.kwargs))
    torch.manual_seed(seed)
    results = _tensors(function(given[0], *given[1], **given[2]))
    wanted = [r for r in results if r.requires_grad]
    leaves = [x for x in _tensors(given) if x.requires_grad]
    grads = ()
    if wanted and leaves:
        upstream = [_upstream(r, kind, seed) for r in wanted]
        grads = torch.autograd.grad(wanted, leaves, upstream, allow_unused=True)
    return [*(r.detach() for r in results), *grads]


def _same(x, y, exact):
    if x is None or y is None:  # what is not used has no gradient eagerly, and may have zeros compiled
        return x is y or (y is None and not x.any())
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    x, y = (t.resolve_conj().resolve_neg() for t in (x, y))
    if not (x.is_floating_point() or x.is_complex()):
        return torch.equal(x, y)
    return torch.allclose(x, y, rtol=exact, atol=exact, equal_nan=True)


def _all_same(xs, ys, exact):
    return len(xs) == len(ys) and all(_same(x, y, exact) for x, y in zip(xs, ys))


def try_seed(seed, count=4):
    """One operator in one type. -> (samples compared, sentences about what is wrong)"""
    pick = random.Random(seed)
    op, dtype = pick.choice(op_db), pick.choice(list(TYPES))
    exact, dynamic, done = TYPES[dtype], pick.choice((None, True)), 0
    if dtype not in op.supported_dtypes("cpu"):
        return 0, []
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd))
    except Exception:
        return 0, []
    for sample in pick.sample(samples, min(count, len(samples))):
        kind = pick.choice(("dense", "turned", "expanded", "with gaps"))
        try:
            want = _run(op.op, sample, kind, seed)
            if not _all_same(_run(op.op, sample, kind, seed), want, exact):
                continue  # random, or memory that was not written
        except Exception:
            continue
        text = f"seed {seed}: {op.full_name} {dtype} dynamic={dynamic}, upstream {kind}: {str(sample)[:300]}"
        try:
            torch._dynamo.reset()
            got = _run(torch.compile(op.op, backend=programs.backend_for(pick), dynamic=dynamic), sample, kind, seed)
            done += 1
            if _all_same(got, want, exact):
                continue
        except Exception as error:
            text += f": {error!r}"[:500]
        if not _is_pytorchs_own(op, sample, kind, seed, dynamic, want, exact):
            return done, [text]
    return done, []


def _is_pytorchs_own(op, sample, kind, seed, dynamic, want, exact):
    torch._dynamo.reset()
    try:
        got = _run(torch.compile(op.op, backend="aot_eager", dynamic=dynamic), sample, kind, seed)
    except Exception:
        return True
    return not _all_same(got, want, exact)


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("PyTorch's operators and their gradients against eager PyTorch", "samples", try_seed))
