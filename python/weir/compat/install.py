"""Installs the stand-in modules."""

import importlib.machinery
import os
import sys

from . import shim

# Has enough cores for the limits that such scripts set.
DEFAULT_DEVICE = "cpu:cube=24,vector=48"

_installed = False


def install():
    """Makes ``torch_npu``, ``torchair`` and ``mindspore`` importable. Further calls do nothing.

    ``torch.npu`` exists as soon as PyTorch is imported, as with the real torch_npu: the stand-in is
    loaded with PyTorch unless ``TORCH_DEVICE_BACKEND_AUTOLOAD`` is 0. PyTorch itself is imported
    when the program, or one of the three modules, imports it."""
    global _installed
    if _installed:
        return
    publishers = {
        "torch_npu": _publish_torch,
        "torchair": _publish_torch,
        "mindspore": _publish_mindspore,
    }
    sys.meta_path.insert(0, shim.Finder(publishers))
    _installed = True
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
        return
    if "torch" in sys.modules:
        import torch_npu  # noqa: F401
    else:
        sys.meta_path.insert(0, _WithTorch())


class _WithTorch:
    """An importer that loads PyTorch normally, and torch_npu right after it."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                import torch_npu  # noqa: F401

            spec.loader.exec_module = exec_module
        return spec


def _publish_mindspore():
    from .mindspore import publish

    publish()


def _publish_torch():
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "torch_npu and torchair need PyTorch, which is not installed here: "
            "pip install torch",
            name="torch",
        ) from None
    from . import torch_npu, torchair

    torch_npu.publish()
    torchair.publish()
