"""``mindspore.context``: modes and targets. Everything runs as in PyNative mode."""

import weir as _weir

GRAPH_MODE = 0
PYNATIVE_MODE = 1

_context = {"mode": PYNATIVE_MODE, "device_target": None, "device_id": 0}
_ACCEPTED = {"max_call_depth", "save_graphs", "save_graphs_path", "enable_graph_kernel",
             "memory_optimize_level", "max_device_memory", "deterministic", "jit_level",
             "ascend_config", "jit_config", "pynative_synchronize"}  # fmt: skip


def set_context(**options):
    """``mode``, ``device_target`` and ``device_id``; hints about memory and compilation are
    accepted and have no effect here."""
    for name, value in options.items():
        if name == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
            raise ValueError(f"mode must be GRAPH_MODE (0) or PYNATIVE_MODE (1), not {value!r}")
        if name == "device_target" and value not in ("CPU", "GPU", "Ascend"):
            raise ValueError(f"device_target must be CPU, GPU or Ascend, not {value!r}")
        if name not in _context and name not in _ACCEPTED:
            raise ValueError(f"set_context has no option '{name}': {', '.join(sorted(_context))}")
        _context[name] = value


def get_context(name):
    """The value of an option."""
    if name == "device_target" and _context[name] is None:
        return _weir.hal.default_stream().device_name
    if name not in _context:
        raise ValueError(f"no option '{name}' is set")
    return _context[name]


def set_device(device_target, device_id=None):
    """Names the target; the device is weir's."""
    set_context(device_target=device_target)


def set_seed(seed):
    """Seeds NumPy, which such scripts take their numbers from."""
    import numpy

    numpy.random.seed(seed)


class ParallelMode:
    """Modes of parallel training; accepted without effect, as there is one device."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"


class JitConfig:
    """Options of jit; accepted without effect."""

    def __init__(self, jit_level="", exc_mode="auto", jit_syntax_level="", **options):
        self.jit_config_dict = {"jit_level": jit_level, "exc_mode": exc_mode, **options}


def jit(fn=None, **options):
    """Returns the function unchanged: it runs operator by operator."""
    return fn if fn is not None else (lambda f: f)
