"""Examples in docstrings and on the page of the docs run; stubs name what there is."""

import ast
import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re

import pytest

import weir

PACKAGE = pathlib.Path(weir.__file__).parent


def modules():
    names = ["weir"] + [
        f"weir.{m.name}"
        for m in pkgutil.iter_modules([str(PACKAGE)])
        if m.name not in ("_C", "_torch", "compat", "__main__")
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


# ---- docs/python.md: each block for itself, with the names that it takes for granted ----

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
BLOCKS = [text for text in BLOCKS if "torch.cuda" not in text]  # that one is test_cuda.py's


def _given(text):
    """What a reader would have: arrays, a model, the imports."""
    np = pytest.importorskip("numpy")
    names = {"weir": weir, "np": np, "ctypes": importlib.import_module("ctypes")}
    if "torch" in text:
        torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
        names.update(torch=torch, model=torch.nn.Linear(4, 4), torch_tensor=torch.ones(3))
    names["numpy_array"] = np.ones((2, 3), np.float32)
    compiled = "torch.compile" in text
    names["x"] = names["torch"].ones(2, 4) if compiled else weir.ones((4,))
    names["w"], names["t"] = weir.ones((8, 8)), weir.ones((8, 8))
    return names


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_samples_of_the_page(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = weir.get_device()
    text = BLOCKS[number]
    chosen = re.search(r'weir\.set_device\("(.*?)"\)', text)
    try:
        if chosen:
            weir.set_device(chosen[1])
            text = text.replace(chosen[0], "pass")
        names = _given(text)
        exec(compile(text, f"{PAGE.name}, sample {number}", "exec"), names)
        weir.synchronize()
        CLAIMS.get(number, lambda names: None)(names)
    finally:
        weir.set_device(before)


def _claim_tensors(names):
    assert names["d"].tolist() == [[6, 12], [12, 26]]
    names["numpy_array"][0, 0] = 7
    assert names["b"].tolist()[0][0] == 7  # shared


def _claim_streams(names):
    assert names["y"].tolist() == [0.25] * 4
    assert names["side"].priority == -1 and names["side"].get_limit() == (8, 16)


def _claim_graphs(names):
    assert names["plan"](names["t"]).tolist() == [[8] * 8] * 8
    assert names["layer"](names["t"], names["w"]).shape == (8, 8)


def _claim_compile(names):
    assert list(pathlib.Path.cwd().glob("dynamo_original_graph_*_rank_0_pid_*_ts_*.pbtxt"))
    assert "operators are weir's" in str(names["backend"].coverage)


def _claim_host_call(names):
    assert names["y"].tolist() == [3] * 4


CLAIMS = {0: _claim_tensors, 1: _claim_streams, 2: _claim_graphs, 3: _claim_compile,
          5: _claim_host_call}  # fmt: skip


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_samples_of_the_readmes(page, capsys):
    """What a comment behind a print says is what is printed."""
    text = (PAGE.parents[1] / page).read_text()
    (sample,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    (said,) = re.findall(r"^print\(.*\) +# (.*)$", sample, re.M)
    exec(compile(sample, page, "exec"), {})
    assert capsys.readouterr().out.strip() == said


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


def public(module):
    """(name, thing) of the functions and classes that a module offers."""
    for name, thing in inspect.getmembers(module):
        theirs = getattr(thing, "__module__", None) in ("typing", "collections.abc")
        if not name.startswith("_") and callable(thing) and not theirs:
            yield name, thing


@pytest.mark.parametrize("name", ["weir", "weir.hal", "weir.npu", "weir.scope", "weir.ops"])
def test_everything_public_has_a_docstring(name):
    for at, thing in public(importlib.import_module(name)):
        assert thing.__doc__, at
        for method, function in vars(thing).items() if inspect.isclass(thing) else ():
            if not method.startswith("_") and callable(function):
                assert function.__doc__, f"{at}.{method}"


@pytest.mark.parametrize("name", ["weir", "weir.scope", "weir.ops"])
def test_everything_public_has_an_example(name):
    for at, thing in public(importlib.import_module(name)):
        known_by_its_parent = inspect.isclass(thing) and issubclass(thing, weir.Error)
        assert ">>>" in thing.__doc__ or known_by_its_parent, at
