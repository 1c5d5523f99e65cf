"""Examples in docstrings run; stubs name what there is."""

import ast
import doctest
import importlib
import inspect
import pathlib
import pkgutil

import pytest

import weir

PACKAGE = pathlib.Path(weir.__file__).parent


def modules():
    names = ["weir"] + [
        f"weir.{m.name}"
        for m in pkgutil.iter_modules([str(PACKAGE)])
        if m.name not in ("_C", "_torch", "compat")
    ]
    return names


def run_examples(name, text, skip=()):
    test = doctest.DocTestParser().get_doctest(text, {"weir": weir}, name, None, 0)
    if any(word in text for word in skip):
        return 0
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
    return runner.tries


def needs():
    """Examples that need a package which is not here."""
    missing = []
    for package in ("numpy", "torch"):
        try:
            importlib.import_module(package)
        except ImportError:
            missing.append(f"import {package}")
    return missing


@pytest.mark.parametrize("name", modules())
def test_examples_of_the_modules(name):
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder().find(module, globs={"weir": weir}):
        if test.examples:
            run_examples(test.name, test.docstring, needs())


def test_examples_of_the_extension():
    tried = 0
    for name, thing in inspect.getmembers(weir._C):
        if thing.__doc__ and ">>>" in thing.__doc__ and not name.startswith("__"):
            tried += run_examples(name, thing.__doc__)
    assert tried > 40


def test_the_stub_names_exactly_what_the_extension_has():
    tree = ast.parse((PACKAGE / "_C.pyi").read_text())
    stubs = {
        n.target.id if isinstance(n, ast.AnnAssign) else n.name
        for n in tree.body
        if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AnnAssign))
    }
    real = {n for n in dir(weir._C) if not n.startswith("__")}
    assert stubs == real
    (tensor,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    methods = {n.name for n in tensor.body if isinstance(n, ast.FunctionDef)}
    from weir.compat.mindspore.tensor import METHODS

    real = {n for n in dir(weir.Tensor) if not n.startswith("_")} - set(METHODS)
    assert real <= methods
    assert (PACKAGE / "py.typed").exists()


def test_everything_public_has_a_docstring():
    for name, thing in inspect.getmembers(weir):
        if not name.startswith("_") and callable(thing):
            assert thing.__doc__, name
