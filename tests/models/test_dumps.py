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
COMPILE = """
import sys, torch, zoo, weir
module, inputs = zoo.make(sys.argv[1])
with torch.no_grad():
    torch.compile(module, backend=weir.get_npu_backend())(**inputs)
"""


@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_command_takes_the_dump_of_a_model(name, tmp_path):
    path = os.pathsep.join([str(ROOT / "bench/python"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", COMPILE, name],
        env={**os.environ, "WEIR_GRAPH_DUMP": str(tmp_path), "PYTHONPATH": path},
        check=True,
        timeout=600,
    )
    dumps = sorted(tmp_path.glob("*_graph.pbtxt"))
    assert dumps
    for command in ["run", "advise", "tune", "check", "estimate"]:
        done = subprocess.run(
            [sys.executable, "-m", "weir", command, dumps[0], "--device", "npu:a3"],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"weir {command}: {done.returncode}\n{done.stderr}"
        assert done.stdout
