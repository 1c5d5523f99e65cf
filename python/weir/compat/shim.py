"""Modules that stand in for others, made when they are first imported."""

import difflib
import importlib.abc
import importlib.machinery
import sys
import types


class Shim(types.ModuleType):
    """A module whose missing names are errors that help."""

    __path__ = ()  # a package: its submodules are in sys.modules

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        known = [n for n in vars(self) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; the nearest is '{near[0]}'" if near else f"; there are {', '.join(sorted(known))}"
        raise AttributeError(f"weir does not provide {self.__name__}.{name}{hint}")


def publish(name, doc, **names):
    """A shim of that name, importable, and an attribute of its parent."""
    module = Shim(name, doc)
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    return module


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-ins; a module that is not among them is an error that names the nearest."""

    def __init__(self, publishers):
        self.publishers = dict(publishers)  # {root: function that publishes it and its parts}

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in self.publishers:
            return None
        if root not in sys.modules:
            self.publishers[root]()
        if name in sys.modules:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        known = [n for n in sys.modules if n.partition(".")[0] == root]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; the nearest is '{near[0]}'" if near else ""
        raise ModuleNotFoundError(f"weir does not provide the module {name}{hint}", name=name)

    def create_module(self, spec):
        return sys.modules[spec.name]

    def exec_module(self, module):
        """It is complete already."""
