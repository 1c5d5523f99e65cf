"""weir: a multi-stream execution runtime for AI accelerators.

>>> a = weir.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> side = weir.Stream()
>>> side.wait_stream(weir.current_stream())
>>> with weir.stream(side):
...     b = a @ a
>>> weir.current_stream().wait_stream(side)
>>> (b + 1).tolist()
[[8.0, 11.0], [16.0, 23.0]]

Operators queue their work on the current stream and return at once; reading values waits.
"""

import atexit as _atexit
from typing import Any as _Any

from . import _C, errors
from ._C import (  # noqa: F401
    Device,
    Event,
    Graph,
    Plan,
    Stream,
    Tensor,
    abs,
    add,
    arange,
    argmax,
    argsort,
    attention,
    bfloat16,
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    bool_,
    cast,
    clamp,
    clone,
    concat,
    contiguous,
    conv2d,
    copy_,
    cos,
    cummax,
    cummin,
    cumprod,
    cumsum,
    div,
    dtype,
    embedding,
    empty,
    eq,
    exp,
    expand,
    expert_choice,
    expert_order,
    expert_sum,
    fill_,
    float16,
    float32,
    float64,
    gather,
    ge,
    gelu,
    get_device,
    grouped_matmul,
    gt,
    host_call,
    index_select,
    int8,
    int32,
    int64,
    layer_norm,
    le,
    linear,
    list_drivers,
    list_ops,
    log,
    lt,
    matmul,
    matmul_bias,
    max,
    maximum,
    mean,
    min,
    minimum,
    moe_gating,
    mul,
    ne,
    neg,
    nonzero,
    normal_,
    permute,
    pow,
    relu,
    reshape,
    rms_norm,
    rotary,
    rsqrt,
    scatter_,
    scatter_add_,
    set_device,
    sigmoid,
    silu,
    sin,
    slice_dim,
    softmax,
    sort,
    sqrt,
    sub,
    sum,
    swiglu,
    tanh,
    topk,
    transpose,
    uint8,
    uniform_,
    version,
    wait_tensor,
    where,
)
from . import _numpy, hal, npu, ops, scope  # noqa: F401
from ._create import asarray, from_dlpack, from_numpy, full, ones, tensor, zeros
from ._log import logger
from .check import check
from .compile import compile
from .configs import CompilerConfig
from .errors import (
    BusyError,
    DeadlockError,
    DriverError,
    Error,
    InvalidError,
    KernelError,
    OutOfMemoryError,
    TypeMismatchError,
    UnavailableError,
    WaitTimeoutError,
)
from .memory import (
    empty_cache,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    max_memory_allocated,
    max_memory_reserved,
    reset_peak_memory_stats,
)
from .streams import current_stream, default_stream, stream, synchronize
from .trace import trace

__version__ = version()
_atexit.register(_C.finish)


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: dict[_Any,
    _Any] | None=None,
) -> _Any:
    """A backend for ``torch.compile``; see :func:`weir._torch.backend.get_npu_backend`.

    >>> import torch
    >>> f = torch.compile(lambda x: x * 2, backend=weir.get_npu_backend())
    >>> f(torch.ones(2))
    tensor([2., 2.])
    """
    from ._torch import get_npu_backend as make

    return make(compiler_config=compiler_config, custom_decompositions=custom_decompositions)
