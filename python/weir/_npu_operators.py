"""The operators of ``torch_npu`` that weir implements, for weir's and for PyTorch's tensors.

Each is composed of a few kernels in ``KERNELS``, which are written with weir's operators. For
PyTorch's tensors the kernels are operators of PyTorch (see ``_torch.kernels``): they run on weir's
current stream, and ``torch.compile`` finds them in the traced graph.
"""

import math

from . import _C
from ._create import tensor

__all__ = [
    "npu_add_rms_norm",
    "npu_dtype_cast",
    "npu_format_cast",
    "npu_fused_infer_attention_score",
    "npu_fusion_attention",
    "npu_linear",
    "npu_moe_gating_top_k_softmax",
    "npu_prompt_flash_attention",
    "npu_rms_norm",
    "npu_rotary_mul",
    "npu_silu",
    "npu_swiglu",
]

# ---- kernels: functions of weir's tensors ----


def _rms_norm(x, weight, eps):
    """RMS norm; computed in the wider of the two types."""
    if weight.dtype is not _C.float32:
        return _C.rms_norm(x, weight, eps)
    return _C.rms_norm(x.cast(_C.float32), weight, eps).cast(x.dtype)


def _rms_scale(x, eps):
    wide = x.cast(_C.float32)
    return _C.rsqrt(_C.mean(wide * wide, -1, True) + eps)


def _turned(x, interleaved):
    """Replaces each pair (a, b) of the last dim by (-b, a)."""
    n = x.shape[-1] // 2
    if not interleaved:
        return _C.concat([_C.neg(x[..., n:]), x[..., :n]], -1)
    pairs = x.reshape((*x.shape[:-1], n, 2))
    return _C.concat([_C.neg(pairs[..., 1:]), pairs[..., :1]], -1).reshape(x.shape)


def _rotary_mul(x, r1, r2, interleaved):
    return x * r1 + _turned(x, interleaved) * r2


def _rotary(x, cosines, sines):
    """Rotary embedding of x [b, heads, length, d]; the angles are [1, 1, length, d] with equal
    halves."""
    n = x.shape[-1] // 2
    turned = _C.rotary(x.permute((0, 2, 1, 3)), cosines[0, 0, :, :n], sines[0, 0, :, :n], False)
    return turned.permute((0, 2, 1, 3))


def _ends_of_groups(ids, n):
    """Counts how many of the ids, integers >= 0, are at most 0, 1, ... n - 1."""
    return _C.expert_order(_C.minimum(ids, n), n + 1, 1)[2][:n]


def _int_matmul(a, b, bias):
    """a x b of int8, plus the bias, in int32."""
    if bias is None or (a.ndim == 2 == b.ndim and bias.ndim == 1):
        return _C.matmul(a, b) if bias is None else _C.matmul_bias(a, b, bias)
    return _C.add(_C.matmul(a, b), bias)


_WHOLE = {_C.float16: 8, _C.bfloat16: 8, _C.float32: 4}  # numbers in 16 bytes


def _padded(x, whole):
    """x with zeros up to a whole number of steps of its last dim."""
    missing = -x.shape[-1] % whole
    if not missing:
        return x
    one = _C.slice_dim(x, -1, 0, 1)
    zeros = _C.lt(one, one).cast(x.dtype)  # also for NaN, and for any sizes of a graph's
    return _C.concat([x, *[zeros] * missing], -1)


def attention(q, k, v, mask, causal, scale, rows_first=False):
    """weir's attention. On a GPU, rows of heads must be steps of 16 bytes for tensor cores: columns of
    zeros change no score, and those of the values are cut off again."""
    whole = _WHOLE.get(q.dtype, 1) if q.device.name.startswith("cuda") else 1
    size, columns = q.shape[-1], v.shape[-1]
    if max(size, columns) > 256 or not size or not columns:
        whole = 1
    if size % whole:
        q, k, scale = _padded(q, whole), _padded(k, whole), scale or 1 / math.sqrt(size)
    wide = _padded(v, whole)
    made = _C.attention(q, k, wide, mask, causal, scale or 0.0, rows_first)
    return made if wide is v else _C.slice_dim(made, -1, 0, columns)


KERNELS = {
    "ends_of_groups": _ends_of_groups,
    "swiglu": _C.swiglu,
    "silu": _C.silu,
    "rms_norm": _rms_norm,
    "rms_scale": _rms_scale,
    "linear": _C.linear,
    "int_matmul": _int_matmul,
    "grouped_matmul": _C.grouped_matmul,
    "rotary_mul": _rotary_mul,
    "rotary": _rotary,
    "attention": attention,
    "expert_choice": _C.expert_choice,
    "expert_order": _C.expert_order,
    "expert_sum": _C.expert_sum,
    "moe_gating": lambda logits, k: _C.moe_gating(logits, k, False),
}


def _run(name, *args):
    if isinstance(args[0], _C.Tensor):
        return KERNELS[name](*args)
    from ._torch import kernels

    return kernels.run(name, *args)


# ---- torch_npu's names and arguments ----


def npu_swiglu(x, dim=-1):
    """silu of the first half along ``dim``, times the second half.

    >>> weir.npu.npu_swiglu(weir.tensor([0.0, 1.0])).tolist()
    [0.0]
    """
    return _run("swiglu", x, dim)


def npu_silu(x):
    """x * sigmoid(x).

    >>> weir.npu.npu_silu(weir.tensor([0.0])).tolist()
    [0.0]
    """
    return _run("silu", x)


def npu_rms_norm(self, gamma, epsilon=1e-06):
    """(y, rstd): y is x * rstd * gamma, where rstd is 1 / the root mean square of the last dim.

    >>> y, rstd = weir.npu.npu_rms_norm(weir.tensor([[3.0, 3.0]]), weir.tensor([1.0, 2.0]), 0.0)
    >>> y.tolist()
    [[1.0, 2.0]]
    """
    return _run("rms_norm", self, gamma, epsilon), _run("rms_scale", self, epsilon)


def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-06):
    """(y, rstd, x): npu_rms_norm of x = x1 + x2, and x.

    >>> a = weir.ones((1, 2))
    >>> y, rstd, x = weir.npu.npu_add_rms_norm(a, a, weir.ones((2,)), 0.0)
    >>> y.tolist(), rstd.tolist(), x.tolist()
    ([[1.0, 1.0]], [[0.5]], [[2.0, 2.0]])
    """
    x = x1 + x2
    return (*npu_rms_norm(x, gamma, epsilon), x)


def npu_linear(input, weight, bias=None):
    """input x weight transposed + bias.

    >>> weir.npu.npu_linear(weir.ones((1, 2)), weir.ones((3, 2))).tolist()
    [[2.0, 2.0, 2.0]]
    """
    return _run("linear", input, weight, bias)


def npu_rotary_mul(self, r1, r2, rotary_mode="half"):
    """self * r1 + turned * r2, with the last dim turned by pairs: (i, i + d/2) for "half",
    (2i, 2i + 1) for "interleave".

    >>> x, zero, one = weir.tensor([[1.0, 2.0]]), weir.zeros((2,)), weir.ones((2,))
    >>> weir.npu.npu_rotary_mul(x, zero, one).tolist()
    [[-2.0, 1.0]]
    """
    if rotary_mode not in ("half", "interleave"):
        raise ValueError(
            f"npu_rotary_mul: weir has the rotary_mode 'half' and 'interleave', not {rotary_mode!r}"
        )
    return _run("rotary_mul", self, r1, r2, rotary_mode == "interleave")


def npu_dtype_cast(self, dtype):
    """The same values in another type.

    >>> weir.npu.npu_dtype_cast(weir.ones((1,)), weir.float16).dtype
    weir.float16
    """
    return self.to(dtype)


def npu_format_cast(self, acl_format, *, customize_dtype=None):
    """The tensor itself: weir keeps every tensor in rows (ND)."""
    return self


def npu_moe_gating_top_k_softmax(x, finished=None, k=1):
    """(weights, experts, rows) of the k best experts of each row: weights of a softmax over all,
    experts int32, and ``rows`` numbering the pairs expert by expert.

    >>> weights, experts, rows = weir.npu.npu_moe_gating_top_k_softmax(
    ...     weir.tensor([[0.0, 9.0, 8.0], [9.0, 8.0, 0.0]]), k=2)
    >>> experts.tolist(), rows.tolist()
    ([[1, 2], [0, 1]], [[0, 2], [1, 3]])
    """
    if finished is not None:
        raise NotImplementedError("npu_moe_gating_top_k_softmax: weir has no 'finished'")
    shape = tuple(x.shape)
    weights, experts = _run("moe_gating", x.reshape((-1, shape[-1])), k)
    n = experts.shape[0]
    if isinstance(x, _C.Tensor):
        rows = _C.arange(n * k, dtype=_C.int32, device=x.device)
    else:
        rows = _torch_range(n * k, x)
    rows = rows.reshape((k, n)).transpose(0, 1).contiguous()
    return tuple(t.reshape((*shape[:-1], k)) for t in (weights, experts, rows))


def _torch_range(n, like):
    import torch

    return torch.arange(n, dtype=torch.int32, device=like.device)


# ---- attention ----

# The order of dims that gives batch, heads, length; H is heads and head size in one dim.
_LAYOUTS = {"BNSD": None, "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}


def _to_heads(x, layout, heads):
    if layout in ("BSH", "SBH"):
        x = x.reshape((*x.shape[:2], heads, x.shape[2] // heads))
    return x if layout == "BNSD" else x.permute(_LAYOUTS[layout])


def _from_heads(x, layout):
    back = {"BNSD": None, "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3)}[layout]
    x = x if back is None else x.permute(back).contiguous()
    return x.reshape((*x.shape[:2], x.shape[2] * x.shape[3])) if layout in ("BSH", "SBH") else x


def _heads_of_keys(query, key, heads, layout, given):
    """The number of heads of the keys, if the layout does not say it."""
    if layout not in ("BSH", "SBH"):
        return given or heads
    return given or key.shape[2] // (query.shape[2] // heads)


def _attend(name, query, key, value, heads, layout, mask, scale, sparse_mode, key_heads=0):
    """Computes attention for operands in the layout. ``mask`` is true for masked keys, as in
    torch_npu."""
    if layout not in _LAYOUTS:
        raise ValueError(f"{name}: weir has the layouts {', '.join(_LAYOUTS)}, not {layout!r}")
    if sparse_mode not in (0, 1, 2, 3):
        raise NotImplementedError(f"{name}: weir has sparse_mode 0 to 3, not {sparse_mode}")
    key_heads = _heads_of_keys(query, key, heads, layout, key_heads)
    q = _to_heads(query, layout, heads)
    k, v = (_to_heads(x, layout, key_heads) for x in (key, value))
    if sparse_mode == 2 and q.shape[2] != k.shape[2]:
        raise NotImplementedError(
            f"{name}: sparse_mode 2 is for queries and keys of one length; 3 aligns their ends"
        )
    causal = sparse_mode in (2, 3)  # in these modes the mask argument is a fixed causal mask
    taken = None if mask is None or causal else mask == 0
    return _from_heads(_run("attention", q, k, v, taken, causal, float(scale)), layout)


def _only_default(name, given):
    for argument, (value, default) in given.items():
        if value is not None and value != default:
            raise NotImplementedError(f"{name}: weir has no '{argument}' other than {default!r}")


def npu_fusion_attention(query, key, value, head_num, input_layout, pse=None, padding_mask=None,
                         atten_mask=None, scale=1.0, keep_prob=1.0, pre_tockens=2147483647,
                         next_tockens=2147483647, inner_precise=0, prefix=None,
                         actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0,
                         gen_mask_parallel=True, sync=False):  # fmt: skip
    """A tuple whose first element is softmax(query key' * scale, masked) value.

    ``atten_mask`` is true for masked keys; the windows of tokens are ignored. The other elements
    are for the backward pass of an NPU; here they are None and zeros, as PyTorch's autograd is
    used.

    >>> q = weir.ones((1, 2, 3, 4))
    >>> weir.npu.npu_fusion_attention(q, q, q, 2, "BNSD", scale=0.5, sparse_mode=3)[0].shape
    (1, 2, 3, 4)
    """
    _only_default("npu_fusion_attention", {
        "pse": (pse, None), "padding_mask": (padding_mask, None), "keep_prob": (keep_prob, 1.0),
        "prefix": (prefix, None), "actual_seq_qlen": (actual_seq_qlen, None),
        "actual_seq_kvlen": (actual_seq_kvlen, None),
    })  # fmt: skip
    made = _attend("npu_fusion_attention", query, key, value, head_num, input_layout, atten_mask,
                   scale, sparse_mode)  # fmt: skip
    return made, None, None, None, 0, 0, 0


def npu_prompt_flash_attention(query, key, value, *, num_heads=1, scale_value=1.0,
                               input_layout="BSH", num_key_value_heads=0, atten_mask=None,
                               sparse_mode=0, pre_tokens=2147483647, next_tokens=0,
                               **others):  # fmt: skip
    """softmax(query key' * scale_value, masked) value; weir lacks the NPU's further options, such
    as quantised values.

    >>> q = weir.ones((1, 3, 8))
    >>> weir.npu.npu_prompt_flash_attention(q, q, q, num_heads=2).shape
    (1, 3, 8)
    """
    _only_default("npu_prompt_flash_attention", {k: (v, None) for k, v in others.items()})
    return _attend("npu_prompt_flash_attention", query, key, value, num_heads, input_layout,
                   atten_mask, scale_value, sparse_mode, num_key_value_heads)  # fmt: skip


def npu_fused_infer_attention_score(query, key, value, *, num_heads=1, scale=1.0,
                                    input_layout="BSH", num_key_value_heads=0, atten_mask=None,
                                    sparse_mode=0, pre_tokens=2147483647, next_tokens=2147483647,
                                    inner_precise=0, softmax_lse_flag=False,
                                    **others):  # fmt: skip
    """(softmax(query key' * scale, masked) value, None); weir lacks the NPU's further options, such
    as paged or quantised values.

    >>> q, k = weir.ones((1, 4, 1, 8)), weir.ones((1, 2, 5, 8))
    >>> weir.npu.npu_fused_infer_attention_score(
    ...     q, k, k, num_heads=4, num_key_value_heads=2, input_layout="BNSD")[0].shape
    (1, 4, 1, 8)
    """
    given = {k: (v, None) for k, v in others.items()}
    given["softmax_lse_flag"] = (softmax_lse_flag, False)
    _only_default("npu_fused_infer_attention_score", given)
    made = _attend("npu_fused_infer_attention_score", query, key, value, num_heads, input_layout,
                   atten_mask, scale, sparse_mode, num_key_value_heads)  # fmt: skip
    return made, None
