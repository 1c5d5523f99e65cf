"""Matrix products, convolutions and attention."""

import torch

from ... import _C
from ..._npu_operators import attention
from .. import kernels
from .table import _need, lowers

aten = torch.ops.aten


@lowers(aten.mm.default, aten.bmm.default)
def _mm(a, b, out):
    _need(a.dtype is b.dtype)
    return _C.matmul(a, b)


@lowers(aten._int_mm.default)
def _int_mm(a, b, out):
    _need(a.dtype is b.dtype is _C.int8)  # weir sums their products in i32
    return _C.matmul(a, b)


def _need_range(a):
    """Declines f16: the product would be rounded to f16, and may overflow, before it is scaled or
    added to; PyTorch rounds once."""
    _need(a.dtype is not _C.float16)


@lowers(aten.addmm.default)
def _addmm(bias, a, b, out, beta=1, alpha=1):
    _need(beta == 1 and alpha == 1 and bias.dtype is a.dtype)
    if bias.ndim == 1 and bias.shape[0] == b.shape[1]:
        return _C.matmul_bias(a, b, bias)
    _need_range(a)
    return _C.add(_C.matmul(a, b), bias)


@lowers(aten.baddbmm.default)
def _baddbmm(c, a, b, out, beta=1, alpha=1):
    _need(c.dtype is a.dtype)
    if alpha != 1 or beta != 0:
        _need_range(a)
    product = _C.matmul(a, b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


@lowers(aten.convolution.default)
def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                 out=None):
    _need(not transposed and x.ndim == 4)
    return _C.conv2d(x, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups)


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _attention(q, k, v, dropout_p=0.0, is_causal=False, out=None, attn_mask=None, scale=None,
               rows_first=False):
    # weir aligns a causal mask with the last query, PyTorch with the first.
    _need(dropout_p == 0.0 and (not is_causal or q.shape[-2] == k.shape[-2]))
    _need(scale is None or scale != 0)  # for weir a scale of 0 means the default
    made = attention(q, k, v, attn_mask, is_causal, scale, rows_first)
    made = made.permute((0, 2, 1, 3)) if rows_first else made
    return [made, None]  # the second result is for the backward pass; see ONLY_FIRST


def _on_gpu(q, k, v):
    _need(kernels.attends_on_gpu(q.dtype.name, q.shape[-1], v.shape[-1]))


@lowers(aten._scaled_dot_product_flash_attention.default)
def _flash_attention(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, out=None,
                     scale=None, rows_first=False):
    _on_gpu(q, k, v)
    return _attention(q, k, v, dropout_p, is_causal, scale=scale, rows_first=rows_first)


@lowers(aten._scaled_dot_product_efficient_attention.default)
def _efficient_attention(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
                         out=None, scale=None, rows_first=False):
    _on_gpu(q, k, v)
    return _attention(q, k, v, dropout_p, is_causal, attn_mask=attn_bias, scale=scale,
                      rows_first=rows_first)


@lowers(aten._scaled_dot_product_cudnn_attention.default)
def _cudnn_attention(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
                     return_debug_mask=False, out=None, scale=None, rows_first=False):
    _on_gpu(q, k, v)
    return _attention(q, k, v, dropout_p, is_causal, attn_mask=attn_bias, scale=scale,
                      rows_first=rows_first)
