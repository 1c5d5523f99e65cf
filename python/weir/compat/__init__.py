"""Scripts written for torch_npu, TorchAir and MindSpore, run as they are.

    python -m weir.compat [--device D] [--trace OUT] [--check] (script | - | -m module) [arguments]

:func:`install` puts modules of those names, made of weir, where ``import`` finds them:
``torch_npu``, ``torchair``, ``torch.npu`` and ``mindspore``. What they do not have is an error
that names it and the nearest thing there is.
"""

from .install import DEFAULT_DEVICE, install
from .run import run_module, run_script

__all__ = ["DEFAULT_DEVICE", "install", "run_module", "run_script"]
