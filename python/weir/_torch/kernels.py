"""weir's operators on PyTorch's tensors.

Each of ``KERNELS`` is an operator of PyTorch, ``torch.ops.weir.NAME``. Called eagerly it runs on
weir's current stream, sharing memory; traced it becomes weir's operator in the graph. If gradients
are needed, an equivalent composition of PyTorch's operators runs instead.
"""

import torch

from .. import _C
from .._create import from_dlpack, with_values
from .._npu_operators import KERNELS
from . import library

F = torch.nn.functional


def _turned(x, interleaved):
    if not interleaved:
        first, second = x.chunk(2, -1)
        return torch.cat((-second, first), -1)
    pairs = x.unflatten(-1, (-1, 2))
    return torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)


def _swiglu(x, dim):
    first, second = x.chunk(2, dim)
    return F.silu(first) * second


def attends_on_gpu(dtype, *sizes):
    """Whether weir's attention on a GPU takes such heads; PyTorch's kernels take the others."""
    return str(dtype).removeprefix("torch.") in ("float16", "bfloat16", "float32") and max(sizes) <= 256


def _attention(q, k, v, mask, causal, scale):
    if causal and q.shape[-2] != k.shape[-2]:
        # weir aligns the ends of queries and keys, not their starts.
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        mask, causal = mask.tril(k.shape[-2] - q.shape[-2]), False
    return F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def _moe_gating(logits, k):
    wide = logits if logits.dtype is torch.float64 else logits.float()
    weights, experts = wide.softmax(-1).topk(k, -1)
    return weights.to(logits.dtype), experts.to(torch.int32)


def _expert_choice(logits, k, bias, groups, group_k, sigmoid, best_two, renormalise, outside, eps,
                   scale):  # fmt: skip
    wide = logits if logits.dtype is torch.float64 else logits.float()
    scores = wide.sigmoid() if sigmoid else wide.softmax(-1)
    choice = scores if bias is None else scores + bias
    if group_k < groups:
        grouped = choice.unflatten(-1, (groups, -1))
        best = grouped.topk(2 if best_two else 1, -1)[0].sum(-1).topk(group_k, -1)[1]
        stays = torch.zeros_like(grouped[..., 0], dtype=torch.bool).scatter(-1, best, True)
        choice = torch.where(stays[..., None], grouped, outside).flatten(-2)
    experts = choice.topk(k, -1)[1]
    weights = scores.gather(-1, experts)
    if renormalise:
        weights = weights / (weights.sum(-1, keepdim=True) + eps)
    return weights * scale, experts


def _expert_order(experts, n, k):
    order = experts.argsort(stable=True)
    ends = (experts[None] <= torch.arange(n, device=experts.device)[:, None]).sum(1, dtype=torch.int32)
    return order // k, order.argsort(), ends


def _expert_sum(rows, places, weights):
    picked = rows[places]
    if weights is not None:
        picked = picked * weights[..., None]
    return picked.sum(1).to(rows.dtype)


def _grouped_matmul(a, b, ends, bias):
    """Multiplies all rows by every group's weight and selects each row's product, so that the host
    need not read the groups from the device."""
    rows = torch.arange(a.shape[0], device=a.device)
    group = (rows[:, None] >= ends[None]).sum(1, keepdim=True)
    made = a.new_zeros(a.shape[0], b.shape[2])
    for i in range(b.shape[0]):
        product = a @ b[i] if bias is None else a @ b[i] + bias[i]
        made = torch.where(group == i, product, made)
    return made


def _int_matmul(a, b, bias):
    made = torch.matmul(a.to(torch.int32), b.to(torch.int32))
    return made if bias is None else made + bias


# By name: the schema, and an equivalent composition of PyTorch's operators.
_OPERATORS = {
    "swiglu": ("(Tensor x, int dim) -> Tensor", _swiglu),
    "silu": ("(Tensor x) -> Tensor", F.silu),
    "rms_norm": (
        "(Tensor x, Tensor weight, float eps) -> Tensor",
        lambda x, weight, eps: F.rms_norm(x, (x.shape[-1],), weight, eps),
    ),
    "rms_scale": (
        "(Tensor x, float eps) -> Tensor",
        lambda x, eps: torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps),
    ),
    "linear": ("(Tensor x, Tensor weight, Tensor? bias) -> Tensor", F.linear),
    "int_matmul": ("(Tensor a, Tensor b, Tensor? bias) -> Tensor", _int_matmul),
    "grouped_matmul": (
        "(Tensor a, Tensor b, Tensor ends, Tensor? bias) -> Tensor",
        _grouped_matmul,
    ),
    "rotary_mul": (
        "(Tensor x, Tensor r1, Tensor r2, bool interleaved) -> Tensor",
        lambda x, r1, r2, interleaved: x * r1 + _turned(x, interleaved) * r2,
    ),
    "ends_of_groups": (
        "(Tensor ids, int n) -> Tensor",
        lambda ids, n: (
            (ids[None] <= torch.arange(n, device=ids.device)[:, None]).sum(1, dtype=torch.int32)
        ),
    ),
    "rotary": (
        "(Tensor x, Tensor cosines, Tensor sines) -> Tensor",
        lambda x, cosines, sines: (x * cosines + _turned(x, False) * sines).to(x.dtype),
    ),
    "attention": (
        "(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale) -> Tensor",
        _attention,
    ),
    "expert_choice": (
        "(Tensor logits, int k, Tensor? bias, int groups, int group_k, bool sigmoid, bool best_two, "
        "bool renormalise, float outside, float eps, float scale) -> (Tensor, Tensor)",
        _expert_choice,
    ),
    "expert_order": ("(Tensor experts, int n, int k) -> (Tensor, Tensor, Tensor)", _expert_order),
    "expert_sum": ("(Tensor rows, Tensor places, Tensor? weights) -> Tensor", _expert_sum),
    "moe_gating": ("(Tensor logits, int k) -> (Tensor, Tensor)", _moe_gating),
}


def _share(x):
    return from_dlpack(with_values(x.detach()).contiguous()) if isinstance(x, torch.Tensor) else x


def _at_once(name, words):
    def call(*args):
        try:
            made = KERNELS[name](*map(_share, args))
        except TypeError:  # types that weir lacks, or does not combine
            return words(*args)
        if isinstance(made, _C.Tensor):
            return torch.from_dlpack(made)
        return tuple(map(torch.from_dlpack, made))

    return call


def _dense(words):
    """Makes results contiguous, as weir's are."""

    def fake(*args):
        made = words(*args)
        if isinstance(made, torch.Tensor):
            return made.contiguous()
        return tuple(x.contiguous() for x in made)

    return fake


OVERLOADS = {
    name: library.define(name + schema, _at_once(name, words), _dense(words), effect=False)
    for name, (schema, words) in _OPERATORS.items()
}
# By overload, for graphs in which weir's operator cannot be used.
WORDS = {OVERLOADS[name]: words for name, (_, words) in _OPERATORS.items()}


def run(name, *args):
    """Runs one of KERNELS on PyTorch's tensors."""
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in args):
        return _OPERATORS[name][1](*args)
    return OVERLOADS[name](*args)
