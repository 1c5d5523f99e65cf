"""Where the operators of a compiled model come from: names of modules, and lines."""

import pytest
import torch

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
