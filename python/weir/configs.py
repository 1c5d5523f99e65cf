"""``CompilerConfig``: what the graph compiler is told, with TorchAir's names.

>>> config = weir.CompilerConfig()
>>> config.mode = "reduce-overhead"
>>> config.debug.graph_dump.type = "pbtxt"
>>> config.mode = "fast"
Traceback (most recent call last):
    ...
ValueError: mode 'fast' is not one of 'max-autotune', 'reduce-overhead', 'npugraph_ex'
"""

import difflib
import re
from typing import Any


class _Group:
    """Options with a fixed set of names, each checked when it is set."""

    _path = ""
    _options = {}

    def __init__(self):
        for name, (default, _check) in self._options.items():
            object.__setattr__(self, name, default() if isinstance(default, type) else default)

    def __setattr__(self, name, value):
        if name not in self._options:
            near = difflib.get_close_matches(name, self._options, 1)
            raise AttributeError(
                f"{self._path or 'CompilerConfig'} has no option '{name}'"
                + (f"; did you mean '{near[0]}'?" if near else f": {', '.join(self._options)}")
            )
        default, check = self._options[name]
        if isinstance(default, type):
            raise AttributeError(f"'{name}' is a group of options; set one of them")
        check(f"{self._path}.{name}".lstrip("."), value)
        object.__setattr__(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Everything that was set away from its default, by dotted name."""
        found = {}
        for name, (default, _check) in self._options.items():
            value = getattr(self, name)
            if isinstance(default, type):
                found.update({f"{name}.{k}": v for k, v in value.as_dict().items()})
            elif value != default:
                found[name] = value
        return found


def _one_of(*values):
    def check(name, value):
        if value not in values:
            known = ", ".join(repr(v) for v in values if v is not None)
            raise ValueError(f"{name} {value!r} is not one of {known}")

    return check


def _of_type(kind, also_none=False):
    def check(name, value):
        if not (isinstance(value, kind) or (also_none and value is None)):
            raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")

    return check


def _aicore_num(name, value):
    if value is not None and not re.fullmatch(r"\d+\|\d+|\d+", str(value)):
        raise ValueError(f"{name} is written 'cube|vector', such as '24|48', not {value!r}")


_flag = (False, _of_type(bool))


class _GraphDump(_Group):
    _path = "debug.graph_dump"
    _options = {
        "type": (None, _one_of(None, "pbtxt", "txt", "py")),
        "path": (None, _of_type(str, also_none=True)),
    }

    @property
    def enabled(self):
        return self.type is not None


class _Debug(_Group):
    _path = "debug"
    _options = {
        "graph_dump": (_GraphDump, None),
        "run_eagerly": _flag,
        "deadlock_check": _flag,
    }


class _GeConfig(_Group):
    _path = "ge_config"
    _options = {
        "enable_single_stream": _flag,
        "aicore_num": (None, _aicore_num),
        "oo_level": (None, _of_type(str, also_none=True)),
        "optimization_switch": (None, _of_type(str, also_none=True)),
    }


class _Experimental(_Group):
    _path = "experimental_config"
    _options = {
        "frozen_parameter": _flag,
        "static_model_ops_lower_limit": (None, _of_type(int, also_none=True)),
        "keep_inference_input_mutations": (True, _of_type(bool)),
        "tiling_schedule_optimize": _flag,
        "topology_sorting_strategy": (None, _one_of(None, "BFS", "DFS", "RDFS", "StableRDFS")),
        "cc_parallel_enable": _flag,
        "enable_ref_data": _flag,
        "enable_view_optimize": (True, _of_type(bool)),
    }


class _Inference(_Group):
    _path = "inference_config"
    _options = {
        "dynamic_gears_merge_policy": ("zip", _one_of("zip", "product")),
        "use_internal_format_weight": _flag,
    }


class CompilerConfig(_Group):
    """Options of :func:`weir.get_npu_backend`. Unknown names are refused with the nearest one.

    >>> config = weir.CompilerConfig()
    >>> config.ge_config.aicore_num = "24|48"
    >>> config.as_dict()
    {'ge_config.aicore_num': '24|48'}
    """

    _options = {
        "mode": ("max-autotune", _one_of("max-autotune", "reduce-overhead", "npugraph_ex")),
        "debug": (_Debug, None),
        "ge_config": (_GeConfig, None),
        "experimental_config": (_Experimental, None),
        "inference_config": (_Inference, None),
        "static_kernels": _flag,
        "auto_streams": _flag,
    }
