"""Lowerings for training: operators of backward passes, decomposed into PyTorch's smaller ones, and
norms that also return the statistics that their backward passes use."""

import torch
from torch._decomp import get_decompositions

from ... import _C
from .table import TABLE, _need, full, lowers

aten = torch.ops.aten

# Only for graphs of training. Convolutions and attention keep PyTorch's kernels.
DECOMPOSITIONS = get_decompositions([
    aten._log_softmax_backward_data,
    aten._softmax_backward_data,
    aten.elu_backward,
    aten.gelu_backward,
    aten.hardsigmoid_backward,
    aten.hardswish_backward,
    aten.leaky_relu_backward,
    aten.mse_loss_backward,
    aten.native_batch_norm_backward,
    aten.native_group_norm_backward,
    aten.native_layer_norm_backward,
    aten.nll_loss_backward,
    aten.select_backward,
    aten.sigmoid_backward,
    aten.silu_backward,
    aten.slice_backward,
    aten.softplus_backward,
    aten.tanh_backward,
    aten.threshold_backward,
])  # fmt: skip


def _in_f32(op):
    """Computes a norm of halves with f32 weights (from autocast on the host) in f32: its statistics
    are f32 at run time, although PyTorch traces halves. In f32 the trace is correct."""

    def norm(x, *others):
        halves = x.dtype in (torch.float16, torch.bfloat16) and x.device.type == "cpu"
        if not halves or all(getattr(t, "dtype", None) != torch.float32 for t in others):
            return NotImplemented
        made, *statistics = op(x.float(), *others)
        return made.to(x.dtype), *statistics

    return norm


def _weight_norm(v, g, dim=0):
    """The same for f16, whose gradients require norms in f32."""
    if v.dtype != torch.float16 or v.device.type != "cpu":
        return NotImplemented
    made, norms = aten._weight_norm_interface(v.float(), g.float(), dim)
    return made.half(), norms


DECOMPOSITIONS[aten._weight_norm_interface.default] = _weight_norm
DECOMPOSITIONS |= {
    op: _in_f32(op)
    for op in (
        aten.native_layer_norm.default,
        aten.native_group_norm.default,
        aten._native_batch_norm_legit_functional.default,
        aten._native_batch_norm_legit.no_stats,
    )
}


@lowers(aten.embedding_dense_backward.default)
def _embedding_backward(grad, indices, rows, padding_idx, scale_grad_by_freq, out):
    """The gradient of the table: adds up the gradients of each row, in the order of the indices."""
    _need(not scale_grad_by_freq and grad.dtype is out)
    grad = grad.reshape((-1, grad.shape[-1]))
    index = indices.reshape((-1, 1))
    if padding_idx >= 0:
        grad = _C.where(_C.eq(index, padding_idx), full((), 0, out), grad)
    made = full((rows, grad.shape[-1]), 0, out).clone()
    # The number of indices may be an open size.
    return made.scatter_add_(0, index.expand((-1, grad.shape[-1])), grad)


# By overload: functions that return all outputs; those in TABLE return only the first.
ALL_OUTPUTS = {}


def _moments(x, dims, eps):
    mean = _C.mean(x, dims, True)
    away = _C.sub(x, mean)
    return mean, _C.rsqrt(_C.mean(_C.mul(away, away), dims, True) + eps)


def _layer_norm(x, shape, weight, bias, eps, out):
    _need(x.dtype in (_C.float32, _C.float64))
    made = TABLE[aten.native_layer_norm.default](x, shape, weight, bias, eps, out)
    return [made[0], *_moments(x, (x.ndim - 1,), eps)]


def _group_norm(x, weight, bias, n, channels, inner, groups, eps, out):
    _need(x.dtype in (_C.float32, _C.float64))
    made = TABLE[aten.native_group_norm.default](
        x, weight, bias, n, channels, inner, groups, eps, out
    )
    flat = x.reshape((-1, groups, channels // groups * inner))
    return [made[0], *(m.reshape((-1, groups)) for m in _moments(flat, (2,), eps))]


ALL_OUTPUTS[aten.native_layer_norm.default] = _layer_norm
ALL_OUTPUTS[aten.native_group_norm.default] = _group_norm
