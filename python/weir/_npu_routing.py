"""torch_npu's routing of rows to their experts and back, for weir's and for PyTorch's tensors. It
is composed of the tensors' own operators, so ``torch.compile`` traces them one by one.

Of ``n`` rows and ``k`` experts for each, number ``j * n + i`` is row i's j-th expert, as
``npu_moe_gating_top_k_softmax`` numbers them.
"""

from . import _C

__all__ = [
    "npu_grouped_matmul",
    "npu_moe_compute_expert_tokens",
    "npu_moe_finalize_routing",
    "npu_moe_init_routing",
]


class _Torch:
    """The functions used here, for PyTorch's tensors."""

    def __init__(self, like):
        import torch

        self.torch, self.device = torch, like.device

    def argsort(self, x):
        return self.torch.argsort(x, stable=True)

    def arange(self, n):
        return self.torch.arange(n, dtype=self.torch.int32, device=self.device)

    def as_int32(self, x):
        return x.to(self.torch.int32)

    def as_float(self, x):
        return x.to(self.torch.float32)

    def cast(self, x, dtype):
        if isinstance(dtype, _C.dtype):
            from ._torch.values import TORCH_DTYPES

            dtype = TORCH_DTYPES[dtype.name]
        return x.to(dtype)

    def concat(self, tensors):
        return self.torch.cat(tensors, 0)


class _Weir:
    """The same functions for weir's tensors."""

    def __init__(self, like):
        self.device = like.device

    argsort = staticmethod(_C.argsort)

    def arange(self, n):
        return _C.arange(n, dtype=_C.int32, device=self.device)

    def as_int32(self, x):
        return x.cast(_C.int32)

    def as_float(self, x):
        return x.cast(_C.float32)

    def cast(self, x, dtype):
        return x.cast(dtype)

    def concat(self, tensors):
        return _C.concat(tensors, 0)


def _words(x):
    return _Weir(x) if isinstance(x, _C.Tensor) else _Torch(x)


def npu_moe_init_routing(x, row_idx, expert_idx, active_num):
    """(expanded_x, expanded_row_idx, expanded_expert_idx): the rows of x once for each of their
    experts, sorted by expert; the position of number i in that order; and the sorted experts.
    ``expanded_x`` has min(active_num, rows) * k rows.

    >>> x = weir.tensor([[1.0], [2.0]])
    >>> rows, experts = weir.tensor([[0, 2], [1, 3]]), weir.tensor([[1, 0], [0, 2]])
    >>> to, where, sorted_experts = weir.npu.npu_moe_init_routing(
    ...     x, rows.cast(weir.int32), experts.cast(weir.int32), 2)
    >>> to.tolist(), where.tolist(), sorted_experts.tolist()
    ([[1.0], [2.0], [1.0], [2.0]], [2, 1, 0, 3], [0, 0, 1, 2])
    """
    words, (n, k) = _words(x), expert_idx.shape
    if x.shape[0] != n or tuple(row_idx.shape) != tuple(expert_idx.shape):
        raise ValueError(
            f"npu_moe_init_routing: x has {x.shape[0]} rows, row_idx is {tuple(row_idx.shape)} and "
            f"expert_idx {tuple(expert_idx.shape)}: they must be of the same rows"
        )
    experts = expert_idx.reshape((-1,))
    order = words.argsort(experts)
    numbers = row_idx.reshape((-1,)).index_select(0, order)
    row_of = words.arange(n).reshape((1, n)).expand((k, n)).reshape((-1,))
    taken = numbers[: min(active_num, n) * k]
    return (
        x.index_select(0, row_of.index_select(0, taken)),
        words.as_int32(words.argsort(numbers)),  # numbers is a permutation of 0..n * k - 1
        experts.index_select(0, order),
    )


def npu_moe_compute_expert_tokens(sorted_expert_for_source_row, num_expert):
    """For each expert, where its rows end among the rows sorted by expert.

    >>> experts = weir.tensor([0, 0, 2, 2, 2]).cast(weir.int32)
    >>> weir.npu.npu_moe_compute_expert_tokens(experts, 4).tolist()
    [2, 2, 5, 5]
    """
    words = _words(sorted_expert_for_source_row)
    experts = words.arange(num_expert).reshape((num_expert, 1))
    before = sorted_expert_for_source_row.reshape((1, -1)) <= experts
    return words.as_int32(words.as_int32(before).sum(1))


def npu_moe_finalize_routing(expanded_permuted_rows, skip1, skip2, bias, scales,
                             expanded_src_to_dst_row, export_for_source_row,
                             drop_pad_mode=0):  # fmt: skip
    """For each row: skip1 + skip2 + the sum over its experts of (the expert's result + the expert's
    bias) * ``scales``. ``expanded_src_to_dst_row`` is ``expanded_row_idx`` of
    npu_moe_init_routing.

    >>> made, where = weir.tensor([[1.0], [2.0], [4.0], [8.0]]), weir.tensor([2, 1, 0, 3])
    >>> weir.npu.npu_moe_finalize_routing(
    ...     made, None, None, None, weir.tensor([[1.0, 10.0], [1.0, 10.0]]), where, None).tolist()
    [[14.0], [82.0]]
    """
    if drop_pad_mode not in (0, None):
        raise NotImplementedError(
            f"npu_moe_finalize_routing: weir has drop_pad_mode 0, not {drop_pad_mode}"
        )
    if bias is not None and export_for_source_row is None:
        raise ValueError("npu_moe_finalize_routing: a bias needs export_for_source_row")
    words = _words(expanded_permuted_rows)
    known = scales if scales is not None else export_for_source_row
    k = 1 if known is None else known.shape[1]
    n, width = expanded_src_to_dst_row.shape[0] // k, expanded_permuted_rows.shape[-1]

    def by_expert(x, last):  # from [n, k] to [k, n, last]
        return x.transpose(0, 1).reshape((k, n, last))

    made = words.as_float(expanded_permuted_rows.index_select(0, expanded_src_to_dst_row))
    made = made.reshape((k, n, width))
    if bias is not None:
        experts = by_expert(export_for_source_row, 1).reshape((-1,))
        made = made + words.as_float(bias.index_select(0, experts)).reshape((k, n, width))
    if scales is not None:
        made = made * words.as_float(by_expert(scales, 1))
    made = made.sum(0)
    for skip in (skip1, skip2):
        made = made if skip is None else made + words.as_float(skip)
    return words.cast(made, expanded_permuted_rows.dtype)


def _sizes(group_list, kind):
    """The number of rows of each group; reads a tensor on the host."""
    numbers = list(group_list) if isinstance(group_list, (list, tuple)) else group_list.tolist()
    return numbers if kind == 1 else [n - before for n, before in zip(numbers, [0, *numbers])]


def _product(a, w, bias, dtype):
    """a x w + bias as ``dtype``, or a's; the sum with a bias of another type is float32."""
    words, made = _words(a), a @ w
    if bias is not None and bias.dtype == made.dtype:
        made = made + bias
    elif bias is not None:
        made = words.as_float(made) + words.as_float(bias)
    return words.cast(made, dtype or a.dtype)


def _on_device(x, weight, bias, group_list, kind, dtype):
    """The product for one x and one weight of three dims, with the groups' ends on the device."""
    from ._npu_operators import _run

    words, n = _words(x), weight.shape[0]
    ends = group_list
    if kind == 1:
        upto = words.arange(n).reshape((1, n)) <= words.arange(n).reshape((n, 1))
        ends = words.as_int32((words.as_int32(upto) * words.as_int32(group_list)).sum(1))
    made = _run("grouped_matmul", x, weight, ends, bias)
    return words.cast(made, dtype or x.dtype)


def _stays(x, weight, bias, group_list, split_item):
    """Whether _on_device can be used."""
    one_bias = not bias or (len(bias) == 1 and len(bias[0].shape) == 2)
    return (
        len(x) == len(weight) == 1
        and split_item in (2, 3)
        and len(weight[0].shape) == 3
        and one_bias
        and not (bias and bias[0].dtype != x[0].dtype)
        and group_list is not None
        and not isinstance(group_list, (list, tuple))
    )


def npu_grouped_matmul(x, weight, *, bias=None, group_list=None, split_item=0, group_type=-1,
                       group_list_type=0, output_dtype=None, **others):  # fmt: skip
    """A list: products of several x with several weights, plus their biases.

    A single x is split into groups of rows: ``group_list`` says where each group ends or, with
    ``group_list_type`` 1, how many rows it has. A single weight of three dims contains one weight
    per group; then a single bias of two dims contains one bias per group. A bias may have another
    type than x, such as float32 for float16. With ``split_item`` 2 or 3 the result is one tensor.
    Results have the type of x, or ``output_dtype``.

    A tensor ``group_list`` is read on the device if there is one x, one weight and one result, and
    the bias has x's type. Rows after the last group are then 0, and ends that decrease or exceed
    the rows of x put the stream in error. Otherwise the host reads the tensor.

    >>> a, w = weir.ones((3, 2)), weir.ones((2, 2, 1))
    >>> weir.npu.npu_grouped_matmul(
    ...     [a], [w * 2], group_list=[1, 3], split_item=3, group_type=0)[0].tolist()
    [[4.0], [4.0], [4.0]]
    """
    given = [name for name, value in others.items() if value is not None]
    if given or group_type not in (-1, 0, None) or split_item not in (0, 1, 2, 3):
        what = f"'{given[0]}'" if given else f"group_type {group_type} and split_item {split_item}"
        raise NotImplementedError(f"npu_grouped_matmul: weir has not {what}")
    if _stays(x, weight, bias, group_list, split_item):
        only = bias[0] if bias else None
        return [_on_device(x[0], weight[0], only, group_list, group_list_type, output_dtype)]
    if len(weight) == 1 and len(weight[0].shape) == 3:
        if bias and len(bias) == 1 and len(bias[0].shape) == 2:
            bias = [bias[0][i] for i in range(bias[0].shape[0])]
        weight = [weight[0][i] for i in range(weight[0].shape[0])]
    if len(x) == 1 and group_list is not None:
        sizes = _sizes(group_list, group_list_type)
        if sum(sizes) != x[0].shape[0] or min(sizes) < 0:
            raise ValueError(
                f"npu_grouped_matmul: groups of {sizes} rows are not the {x[0].shape[0]} rows of x"
            )
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        x = [x[0][end - size : end] for end, size in zip(ends, sizes)]
    if not len(x) == len(weight) == len(bias or weight):
        raise ValueError(
            f"npu_grouped_matmul: {len(x)} x, {len(weight)} weights"
            + (f" and {len(bias)} biases" if bias else "")
            + ": there must be as many of each"
        )
    biases = bias or [None] * len(x)
    made = [_product(a, w, b, output_dtype) for a, w, b in zip(x, weight, biases)]
    if split_item in (0, 1):
        return made
    filled = [y for y in made if y.shape[0]]
    return [_words(made[0]).concat(filled) if len(filled) > 1 else (filled or made)[0]]
