"""``CompilerConfig``: the options of the graph compiler, with TorchAir's names.

>>> config = weir.CompilerConfig()
>>> config.mode = "reduce-overhead"
>>> config.debug.graph_dump.type = "pbtxt"
>>> config.mode = "fast"
Traceback (most recent call last):
    ...
ValueError: mode 'fast' is not one of 'max-autotune', 'reduce-overhead', 'npugraph_ex'
"""

from __future__ import annotations

import copy
import difflib
import os
import re
import warnings
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
        """All options that differ from their defaults, by dotted name."""
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


def _at_least(least):
    def check(name, value):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")

    return check


def _like(pattern, example):
    def check(name, value):
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(f"{name} is written as {example!r}, not {value!r}")

    return check


def _folder(name, value):
    if not isinstance(value, str) or not os.path.isdir(value):
        raise FileNotFoundError(f"{name}: there is no folder {value!r}")


def _file(name, value):
    if value is not None and not os.path.isfile(value):
        raise FileNotFoundError(f"{name}: there is no file {value!r}")


def _callable(name, value):
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {type(value).__name__}")


def _anything(name, value):
    pass


_flag = (False, _of_type(bool))
_on = (True, _of_type(bool))


class _GraphDump(_Group):
    _path = "debug.graph_dump"
    _options = {
        "type": (None, _one_of(None, "pbtxt", "txt", "py")),
        "path": (None, _of_type(str, also_none=True)),
    }

    @property
    def enabled(self):
        return self.type is not None


class _DataDump(_Group):
    _path = "debug.data_dump"
    _options = {
        "filter": (None, _callable),
        "type": (None, _one_of(None, "npy")),
        "path": (None, _of_type(str, also_none=True)),
    }


class _FxSummary(_Group):
    _path = "debug.fx_summary"
    _options = {"type": (None, _one_of(None, "csv")), "skip_compile": _on}


class _AclGraphDebug(_Group):
    _path = "debug.aclgraph"
    _options = {
        "disable_reinplace_inplaceable_ops_pass": _flag,
        "disable_reinplace_input_mutated_ops_pass": _flag,
        "disable_mempool_reuse_in_same_fx": _flag,
        "enable_output_clone": _flag,
        "static_capture_size_limit": (64, _at_least(1)),
        "clone_input": _on,
        "remove_cat_ops": _on,
    }


class _Debug(_Group):
    _path = "debug"
    _options = {
        "graph_dump": (_GraphDump, None),
        "data_dump": (_DataDump, None),
        "fx_summary": (_FxSummary, None),
        "aclgraph": (_AclGraphDebug, None),
        "run_eagerly": _flag,
        "deadlock_check": _flag,
    }


class _DumpConfig(_Group):
    _path = "dump_config"
    _options = {
        "enable_dump": _flag,
        "dump_path": ("./", _folder),
        "dump_mode": ("all", _one_of("input", "output", "all")),
        "quant_dumpable": _flag,
        "dump_step": ("", _like(r"\d+(-\d+)?(\|\d+(-\d+)?)*|", "0|2-5")),
        "dump_layer": ("", _of_type(str)),
        "dump_data": ("tensor", _one_of("tensor", "stats")),
        "dump_config_path": (None, _file),
        "data_dump_stage": ("optimized", _one_of("original", "optimized")),
    }


class _AoeConfig(_Group):
    _path = "aoe_config"
    _options = {
        "aoe_mode": (None, _one_of(None, "2")),
        "work_path": ("./", _folder),
        "aoe_config_file": (None, _file),
    }


class _FusionConfig(_Group):
    _path = "fusion_config"
    _options = {"fusion_switch_file": (None, _file)}


class _ExportExperimental(_Group):
    _path = "export.experimental"
    _options = {
        "enable_record_nn_module_stack": _flag,
        "auto_atc_config_generated": _flag,
        "enable_lite_export": _flag,
    }


class _Export(_Group):
    _path = "export"
    _options = {
        "export_mode": _flag,
        "export_path_dir": ("./", _folder),
        "export_name": (None, _of_type(str, also_none=True)),
        "weight_name": (None, _of_type(dict, also_none=True)),
        "inputs_name": (None, _of_type(dict, also_none=True)),
        "experimental": (_ExportExperimental, None),
    }


class _AclGraphConfig(_Group):
    _path = "aclgraph_config"
    _options = {"use_custom_pool": (None, _anything)}


class _GeConfig(_Group):
    _path = "ge_config"
    _options = {
        "enable_single_stream": _flag,
        "aicore_num": (None, _aicore_num),
        "oo_level": (None, _of_type(str, also_none=True)),
        "oo_constant_folding": (None, _one_of(None, True, False)),
        "oo_dead_code_elimination": (None, _one_of(None, True, False)),
        "export_compile_stat": ("2", _one_of("0", "1", "2")),
        "optimization_switch": (None, _of_type(str, also_none=True)),
    }


class _AclGraphExperimental(_Group):
    _path = "experimental_config.aclgraph"
    _options = {
        "_aclnn_static_shape_kernel": _flag,
        "_aclnn_static_shape_kernel_build_dir": (None, _of_type(str, also_none=True)),
        "_aclnn_static_shape_kernel_sym_value_range": (None, _of_type(list, also_none=True)),
        "_aclnn_static_shape_kernel_sym_index": (0, _at_least(0)),
        "_super_kernel_optimize": _flag,
        "_super_kernel_optimize_options": (None, _of_type(dict, also_none=True)),
        "_super_kernel_debug_options": (None, _of_type(dict, also_none=True)),
    }


class _Experimental(_Group):
    _path = "experimental_config"
    _options = {
        "frozen_parameter": _flag,
        "static_model_ops_lower_limit": (None, _of_type(int, also_none=True)),
        "keep_inference_input_mutations": _on,
        "tiling_schedule_optimize": _flag,
        "topology_sorting_strategy": (None, _one_of(None, "BFS", "DFS", "RDFS", "StableRDFS")),
        "cc_parallel_enable": _flag,
        "enable_ref_data": _flag,
        "enable_view_optimize": _on,
        "memory_efficiency": _flag,
        "jit_compile": ("auto", _one_of("auto")),
        "npu_fx_pass": _flag,
        "aot_config_enable_joint_graph": _flag,
        "aot_config_output_loss_index": (0, _at_least(0)),
        "remove_noop_ops": _on,
        "pattern_fusion_pass": _on,
        "aclgraph": (_AclGraphExperimental, None),
    }


class _Inference(_Group):
    _path = "inference_config"
    _options = {
        "dynamic_gears_merge_policy": ("zip", _one_of("zip", "product")),
        "use_internal_format_weight": _flag,
    }


# The options that have an effect in weir; all others are only checked.
_ACTED_ON = {
    "mode",
    "debug.graph_dump.type",
    "debug.graph_dump.path",
    "debug.run_eagerly",
    "debug.deadlock_check",
    "debug.aclgraph.static_capture_size_limit",
    "ge_config.enable_single_stream",
    "ge_config.aicore_num",
    "experimental_config.aclgraph._aclnn_static_shape_kernel",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
    "static_kernels",
    "auto_streams",
    "one_launch",
}
_told = set()  # options for which the warning was printed

# The options of torch.compile's backend npugraph_ex; "not" marks those with the opposite meaning.
_NPUGRAPH_EX = {
    "force_eager": "debug.run_eagerly",
    "static_kernel_compile": "experimental_config.aclgraph._aclnn_static_shape_kernel",
    "super_kernel_optimize": "experimental_config.aclgraph._super_kernel_optimize",
    "super_kernel_optimize_options": "experimental_config.aclgraph._super_kernel_optimize_options",
    "super_kernel_debug_options": "experimental_config.aclgraph._super_kernel_debug_options",
    "frozen_parameter": "experimental_config.frozen_parameter",
    "remove_noop_ops": "experimental_config.remove_noop_ops",
    "remove_cat_ops": "debug.aclgraph.remove_cat_ops",
    "inplace_pass": "not debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
    "input_inplace_pass": "not debug.aclgraph.disable_reinplace_input_mutated_ops_pass",
    "pattern_fusion_pass": "experimental_config.pattern_fusion_pass",
    "clone_input": "debug.aclgraph.clone_input",
    "clone_output": "debug.aclgraph.enable_output_clone",
    "capture_limit": "debug.aclgraph.static_capture_size_limit",
    "use_graph_pool": "aclgraph_config.use_custom_pool",
    "reuse_graph_pool_in_same_fx": "not debug.aclgraph.disable_mempool_reuse_in_same_fx",
    "post_grad_custom_pre_pass": "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass": "post_grad_custom_post_pass",
    "dump_tensor_data": "dump_config.enable_dump",
    "data_dump_stage": "dump_config.data_dump_stage",
    "data_dump_dir": "dump_config.dump_path",
    "_vllm_aclnn_static_kernel_sym_index": "experimental_config.aclgraph."
    "_aclnn_static_shape_kernel_sym_index",
    "_vllm_aclnn_static_kernel_sym_range": "experimental_config.aclgraph."
    "_aclnn_static_shape_kernel_sym_value_range",
}


class CompilerConfig(_Group):
    """Options of :func:`weir.get_npu_backend`. The error for an unknown name suggests the nearest
    one.

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
        "dump_config": (_DumpConfig, None),
        "aoe_config": (_AoeConfig, None),
        "fusion_config": (_FusionConfig, None),
        "export": (_Export, None),
        "aclgraph_config": (_AclGraphConfig, None),
        "post_grad_custom_pre_pass": (None, _callable),
        "post_grad_custom_post_pass": (None, _callable),
        "static_kernels": _flag,
        "auto_streams": _flag,
        "one_launch": _on,
    }

    def say_what_has_no_effect(self) -> None:
        """Warns once of each option that was set and has no effect in weir."""
        found = [name for name in self.as_dict() if name not in _ACTED_ON | _told]
        if found:
            _told.update(found)
            names = ", ".join(found)
            warnings.warn(f"no effect in weir: {names}", stacklevel=3)

    def with_options(self, options: dict[str, Any]) -> CompilerConfig:
        """A copy with the ``options`` of torch.compile, named as in its backend npugraph_ex or by
        their dotted names here.

        >>> config = weir.CompilerConfig().with_options({"force_eager": True, "mode": "npugraph_ex"})
        >>> config.as_dict()
        {'mode': 'npugraph_ex', 'debug.run_eagerly': True}
        """
        made = copy.deepcopy(self)
        for option, value in options.items():
            place = _NPUGRAPH_EX.get(option, option)
            if place.startswith("not "):
                place, value = place[4:], not value
            *groups, name = place.split(".")
            target = made
            for group in groups:
                target = getattr(target, group, None)
            if not isinstance(target, _Group) or name not in target._options:
                names = [*made._options, *_NPUGRAPH_EX]
                near = difflib.get_close_matches(option, names, 1)
                raise ValueError(
                    f"there is no option '{option}'"
                    + (f"; did you mean '{near[0]}'?" if near else f": {', '.join(names)}")
                )
            setattr(target, name, value)
        made.say_what_has_no_effect()
        return made
