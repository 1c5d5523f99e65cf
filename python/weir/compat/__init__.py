"""Scripts written for torch_npu, TorchAir and MindSpore, run as they are.

    python -m weir.compat [--device D] [--trace OUT] [--check] (script | - | -m module) [arguments]

:func:`install` makes stand-in modules with these names importable: ``torch_npu``, ``torchair``,
``torch.npu`` and ``mindspore``. A name that they lack is an error that suggests the nearest name.
"""

from .install import DEFAULT_DEVICE, install
from .run import run_module, run_script

__all__ = ["DEFAULT_DEVICE", "install", "run_module", "run_script"]
