"""Where the operators of a compiled model come from: names of modules, and lines."""

import inspect
import json
import re
import subprocess
import sys

import pytest
import torch

import test_generation

import weir


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.gate(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.table = torch.nn.Parameter(torch.randn(5, 4))

    def forward(self, x, at):
        for layer in self.layers:
            x = layer(x)
        return x + self.table[at]


def run(tmp_path, at):
    torch._dynamo.reset()
    config = weir.CompilerConfig()
    config.debug.graph_dump.type = "pbtxt"
    config.debug.graph_dump.path = str(tmp_path)
    backend = weir.get_npu_backend(compiler_config=config)
    compiled = torch.compile(Model(), backend=backend)
    with torch.no_grad():
        compiled(torch.randn(3, 4), torch.tensor([0, 1, 2]))
        with weir.trace() as trace:
            compiled(torch.randn(3, 4), torch.tensor(at))
    return trace, "".join(p.read_text() for p in tmp_path.glob("*original*.pbtxt"))


def test_names_of_modules_are_in_traces_and_dumps_and_lines_in_dumps(tmp_path):
    trace, dump = run(tmp_path, [1, 2, 3])
    names = [op["name"] for op in trace.ops]
    assert any(name.startswith("layers.0.gate/") for name in names)
    assert any(name.startswith("layers.1") for name in names)
    assert 'name: "layers.1.gate/' in dump
    assert "test_origins.py:" in dump


def test_an_error_has_the_line_of_the_operator(tmp_path):
    weir.set_device("cpu")
    with pytest.raises(weir.Error) as error:
        run(tmp_path, [1, 2, 9])
    weir.set_device("cpu")
    assert any("test_origins.py:" in note for note in error.value.__notes__)


def _llama(tmp_path, spec):
    """The dump and a trace of a small Llama's step, and the error of an unknown token."""
    weir.set_device(spec)
    config = weir.CompilerConfig()
    config.debug.graph_dump.type = "pbtxt"
    config.debug.graph_dump.path = str(tmp_path)
    model = test_generation.made(moe=False)
    compiled = torch.compile(model, backend=weir.get_npu_backend(compiler_config=config), dynamic=False)
    rest = torch.arange(2, 10), test_generation.empty(2)
    try:
        with torch.no_grad():
            compiled(torch.arange(8)[None], *rest)
            with weir.trace() as trace:
                compiled(torch.arange(8)[None], *rest)
            with pytest.raises(weir.Error) as error:
                compiled(torch.full((1, 8), test_generation.WORDS), *rest)
    finally:
        weir.set_device("cpu")
    (dump,) = tmp_path.glob("*original*.pbtxt")
    return dump, trace, error.value


def test_every_operator_of_a_llama_has_its_module_in_dumps_traces_advice_and_errors(tmp_path):
    dump, trace, error = _llama(tmp_path, "cpu")
    nodes = [n for n in dump.read_text().split("\nnode {") if re.search(r'op: "(?!Placeholder|View|Const|NetOutput)', n)]
    names = [re.search(r'name: "([^"]+)"', node)[1] for node in nodes]
    inside = re.compile(r"(words|layers\.[01](\.[a-z0-9.]+)?|head)/")
    assert len(names) > 40 and not [name for name in names if not inside.match(name)]
    assert not [name for name, node in zip(names, nodes) if "_source" not in node]
    assert not [op["name"] for op in trace.ops if not inside.match(op["name"])]
    assert "words/" in str(error) and any(".py:" in note for note in error.__notes__)
    said = subprocess.run([sys.executable, "-m", "weir", "advise", str(dump), "--device", "npu:a3", "--json"],
                          capture_output=True, text=True)  # fmt: skip
    assert said.returncode == 0, said.stderr
    advice = json.loads(said.stdout)
    assert advice["limits"] and not [x["node"] for x in advice["limits"] if not inside.match(x["node"])]
    assert not [x for x in advice["pairs"] if not (inside.match(x["first"]) and inside.match(x["second"]))]


def test_a_profile_of_pytorch_shows_lines_and_modules_of_the_program(tmp_path):
    path, written = tmp_path / "profile.json", tmp_path / "weir.json"
    model, x = Model(), torch.randn(3, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as profile:
        model(x, torch.tensor([0, 1, 2])).sum().backward()
    profile.export_chrome_trace(str(path))
    show = [sys.executable, "-m", "weir", "trace"]
    subprocess.run([*show, str(path), "--chrome", str(written)], check=True, capture_output=True, timeout=60)
    ops = [e for e in json.loads(written.read_text())["traceEvents"] if e.get("cat") == "op"]
    lines = {e["name"]: e["args"]["source"] for e in ops if "source" in e["args"]}
    first = {cls: inspect.getsourcelines(cls.forward)[1] for cls in (Block, Model)}
    assert lines["aten::addmm"].endswith(f"test_origins.py:{first[Block]} (forward)")
    assert lines["aten::index"].endswith(f"test_origins.py:{first[Model]} (forward)")
    # PyTorch's engine calls these; they belong to what they are the gradient of.
    assert lines["AddmmBackward0"] == lines["aten::addmm"]
    assert {"Model_0.Block_0.Linear_0"} == {
        e["args"]["scope"] for e in ops if e["name"] in ("aten::addmm", "AddmmBackward0") and "Block_0" in e["args"]["scope"]
    }
    diff = subprocess.run([*show, "diff", str(path), str(written), "--json"], check=True, capture_output=True, timeout=60)
    rows = json.loads(diff.stdout)["lines"]
    assert {row["name"] for row in rows} >= {lines["aten::addmm"], lines["aten::index"]}
    assert all(row["count_a"] == row["count_b"] for row in rows)
