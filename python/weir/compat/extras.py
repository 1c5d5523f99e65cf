"""Smaller parts of ``torch_npu``: marks, casts, operators for the cache."""

import itertools

import torch

import weir
from weir._torch import kernels

_ids = itertools.count(1)


class mstx:
    """Marks for Ascend's profiler; weir's trace has none, so these do nothing."""

    @staticmethod
    def mark(message, stream=None, domain="default"):
        """Nothing."""

    @staticmethod
    def range_start(message, stream=None, domain="default"):
        """A number for range_end."""
        return next(_ids)

    @staticmethod
    def range_end(range_id, domain="default"):
        """Nothing."""

    range_push = range_start

    @staticmethod
    def range_pop(domain="default"):
        """Nothing."""

    @staticmethod
    def mstx_range(message, stream=None, domain="default"):
        """A decorator that changes nothing."""
        return lambda function: function


def npu_prefetch(input, dependency, max_size, offset=0):
    """On an NPU, loads up to ``max_size`` bytes of ``input`` into the cache after ``dependency``.
    weir relies on hardware caches, so this only checks its arguments."""
    if max_size <= 0:
        raise RuntimeError(f"npu_prefetch: max_size must be positive, not {max_size}")
    if offset < 0:
        raise RuntimeError(f"npu_prefetch: offset must not be negative, and is {offset}")


def npu_quant_matmul(x1, x2, scale, *, offset=None, pertoken_scale=None, bias=None,
                     output_dtype=None, **options):  # fmt: skip
    """(x1 @ x2 + bias) of int8 values in int32, times the scales of columns and rows."""
    used = sorted(name for name, value in options.items() if value)
    if used:
        raise NotImplementedError(f"npu_quant_matmul of weir has no '{used[0]}'")
    if x1.dtype != torch.int8 or x2.dtype != torch.int8:
        raise RuntimeError(f"npu_quant_matmul multiplies int8, not {x1.dtype} and {x2.dtype}")
    for name, value in (("scale", scale), ("offset", offset)):
        if value is not None and value.dtype == torch.int64:  # of npu_trans_quant_param
            raise NotImplementedError(f"npu_quant_matmul of weir has no {name} of packed int64")
    whole = bias is not None and bias.dtype == torch.int32
    product = kernels.run("int_matmul", x1, x2, bias if whole else None)
    if output_dtype == torch.int32:
        return product
    made = product.to(torch.float32) * scale.to(torch.float32)
    if pertoken_scale is not None:
        made = made * pertoken_scale.to(torch.float32).unsqueeze(-1)
    if bias is not None and not whole:
        made = made + bias
    if output_dtype in (None, torch.int8):
        made = made if offset is None else made + offset
        return made.round().clamp(-128, 127).to(torch.int8)
    return made.to(output_dtype)


_compatible = False


def use_compatible_impl(is_enable):
    """Accepted without effect: weir's operators are always compatible with PyTorch's."""
    global _compatible
    _compatible = bool(is_enable)


def are_compatible_impl_enabled():
    """The value set by use_compatible_impl."""
    return _compatible


def set_deterministic_level(level):
    """Accepted without effect: weir's results are the same in each run."""


def set_op_timeout_ms(timeout):
    """Accepted without effect: op_timeout is set when a device of weir is opened."""
    if timeout < 0:
        raise TypeError(f"set_op_timeout_ms: can't convert negative value to unsigned int: {timeout}")


_MODES = ("default", "warn", "error")
_mode = 0


def set_sync_debug_mode(debug_mode):
    """Accepts "default", "warn" or "error", or their numbers, without effect: weir has no implicit
    waits of the host to warn of."""
    global _mode
    number = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if number not in range(len(_MODES)):
        raise RuntimeError(f"set_sync_debug_mode: {debug_mode!r} is not one of {', '.join(_MODES)}")
    _mode = number


def get_sync_debug_mode():
    """The number that was set."""
    return _mode


_super_kernels = []  # the open ones


def super_kernel_scope_begin(scope_name=None):
    """Begins a super kernel in a graph of weir."""
    scope = weir.scope.super_kernel(scope_name or "super_kernel")
    scope.__enter__()
    _super_kernels.append(scope)


def super_kernel_scope_end(scope_name=None):
    """Ends the innermost super kernel."""
    if not _super_kernels:
        raise RuntimeError("super_kernel_scope_end without super_kernel_scope_begin")
    _super_kernels.pop().__exit__(None, None, None)


def get_cann_version(module="CANN"):
    """Returns no version: weir's stand-in does not use CANN."""
    return ""


class autocast(torch.autocast):
    """torch.autocast("npu")."""

    def __init__(self, enabled=True, dtype=torch.float16, cache_enabled=True):
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def grad_scaler(*args, **kwargs):
    """PyTorch's scaler, for the device of the NPU's memory."""
    from .tensors import home

    kwargs.pop("dynamic", None)
    return torch.amp.GradScaler(home().partition(":")[0], *args, **kwargs)


# Old names of tensors by type: torch.npu.FloatTensor(2, 3).
TYPES = {
    f"{name}{kind}": getattr(torch, f"{name}{kind}")
    for name in "Bool Byte Char Short Int Long Half Float Double BFloat16".split()
    for kind in ("Tensor", "Storage")
    if hasattr(torch, f"{name}{kind}")
}

NPU = {
    name: globals()[name]
    for name in (
        "use_compatible_impl are_compatible_impl_enabled set_deterministic_level "
        "super_kernel_scope_begin super_kernel_scope_end set_op_timeout_ms set_sync_debug_mode get_sync_debug_mode"
    ).split()
}
