"""Stand-in modules, created when they are first imported."""

import difflib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types

SHOWN = 12  # names listed if none is similar


def public(module):
    """The public names of a module: its ``__all__``, or else its names without private ones and
    without imported modules and types."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    return {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and not isinstance(thing, types.ModuleType)
        and getattr(thing, "__module__", None) not in ("__future__", "collections.abc", "typing")
    }


class Shim(types.ModuleType):
    """A module with helpful errors for missing names."""

    __path__ = ()  # a package: its submodules are in sys.modules

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in _later:
            return importlib.import_module(f"{self.__name__}.{name}")
        raise AttributeError(_missing(self, name), name=name)


# The real package for each root of the stand-ins. torchair is part of torch_npu.
_REAL = {
    "torch_npu": "torch_npu",
    "torch": "torch_npu",
    "torchair": "torch_npu",
    "mindspore": "MindSpore",
}


def _missing(module, name):
    """The error text for a missing name: where it is found, or a similar name; and how to run the
    real package."""
    root = module.__name__.partition(".")[0]
    said = _nearest(module, name)
    if root not in _REAL:
        return said
    return f"{said}. 'weir cann' runs the real {_REAL[root]} on weir (docs/cann.md)"


def _nearest(module, name):
    said = f"weir does not provide {module.__name__}.{name}"
    root = module.__name__.partition(".")[0]
    for other in sorted(sys.modules):
        if other.partition(".")[0] == root and name in vars(sys.modules[other]):
            return f"{said}; there is {other}.{name}"
    known = sorted(n for n in vars(module) if not n.startswith("_"))
    by_lower = {n.lower(): n for n in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    if near:
        return f"{said}; the nearest is '{by_lower[near[0]]}'"
    rest = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"{said}; there are {', '.join(known[:SHOWN])}{rest}"


def publish(name, doc, **names):
    """Creates a Shim of that name, makes it importable, and sets it in its parent."""
    module = Shim(name, doc)
    vars(module).update(names)
    return place(name, module)


_later = {}  # {module: function that publishes it}


def publish_later(name, function):
    """Registers a function to call when the module is first imported."""
    _later[name] = function


def place(name, module):
    """Makes a module importable by another name."""
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    return module


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-ins; for a missing submodule raises an error with the nearest name."""

    def __init__(self, publishers):
        self.publishers = dict(publishers)  # {root: function that publishes it and its submodules}

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in self.publishers:
            return None
        if root not in sys.modules:
            self.publishers[root]()
        if name in _later:
            _later.pop(name)()
        if name in sys.modules:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        parent, _, last = name.rpartition(".")
        # "from parent import last" would discard an error that has the module's own name.
        raise ModuleNotFoundError(_missing(sys.modules[parent], last), name=root)

    def create_module(self, spec):
        return sys.modules[spec.name]

    def exec_module(self, module):
        """Does nothing: the module is complete."""
