"""Graphs that torch.compile dumps of whole models, through the weir command."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("transformers")
pytest.importorskip("diffusers")
import zoo  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = """
import sys, torch, zoo, weir
module, inputs = zoo.make(sys.argv[1])
backend = weir.get_npu_backend()
"""
WHOLE = """
with torch.no_grad():
    torch.compile(module, backend=backend)(**inputs)
"""
WAYS = {
    "decode": """
from transformers import StaticCache
cache = StaticCache(config=module.config, max_cache_len=16)
run = torch.compile(module, backend=backend, dynamic=False)
with torch.no_grad():
    module(input_ids=torch.arange(6)[None], past_key_values=cache, use_cache=True)
    run(input_ids=torch.tensor([[7]]), past_key_values=cache, use_cache=True)
""",
    "dynamic": """
run = torch.compile(module, backend=backend, dynamic=True)
with torch.no_grad():
    for n in (6, 9):
        run(input_ids=torch.arange(n)[None])
assert [len(g.elastic) for g in backend.graphs] == [1]
""",
    "training": """
torch.compile(module, backend=backend)(**inputs).logits.square().mean().backward()
assert len(backend.graphs) == 2
""",
    "calls of PyTorch": """
def step(**inputs):
    return torch.logcumsumexp(module(**inputs).logits, 1).softmax(-1)
with torch.no_grad():
    torch.compile(step, backend=backend)(**inputs)
assert backend.coverage.fallback
""",
}


def _check(program, name, folder):
    """The program's dumps, each through every command."""
    path = os.pathsep.join([str(ROOT / "bench/python"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", START + program, name],
        env={**os.environ, "WEIR_GRAPH_DUMP": str(folder), "PYTHONPATH": path},
        check=True,
        timeout=600,
    )
    dumps = sorted(folder.glob("*_graph.pbtxt"))
    assert dumps
    for dump in dumps:
        for command in ["run", "advise", "tune", "check", "estimate"]:
            done = subprocess.run(
                [sys.executable, "-m", "weir", command, dump, "--device", "npu:a3"],
                capture_output=True,
                text=True,
                timeout=600,
            )
            said = f"weir {command} {dump.name}: {done.returncode}\n{done.stderr}"
            assert done.returncode == 0, said
            assert done.stdout
    return dumps


@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_command_takes_the_dump_of_a_model(name, tmp_path):
    _check(WHOLE, name, tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_every_command_takes_the_dumps_of_a_llama(way, tmp_path):
    dumps = _check(WAYS[way], "llama", tmp_path)
    assert len(dumps) >= (2 if way == "training" else 1)
    text = "".join(dump.read_text() for dump in dumps)
    assert "HostCall" in text or way != "calls of PyTorch"
