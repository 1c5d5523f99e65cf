"""What an installed package has beside the modules: the command, the licence, entry points."""

import importlib.metadata
import subprocess
import sys

import pytest

import weir


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_m_weir_is_the_command():
    said = output(sys.executable, "-m", "weir", "--version")
    assert importlib.metadata.version("weir") in said
    assert "cpu" in output(sys.executable, "-m", "weir", "devices")


def test_the_command_is_an_entry_point():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="weir")
    assert entry.value == "weir._command:main"


def test_a_wrong_argument_ends_as_the_command_ends():
    done = subprocess.run(
        [sys.executable, "-m", "weir", "fly"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "fly" in done.stderr


def test_the_licence_is_an_spdx_expression():
    metadata = importlib.metadata.metadata("weir")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert weir.__version__ == metadata["Version"]


def test_pytorch_finds_the_backend_by_its_name_alone():
    """Through the entry point: nothing of weir is imported before."""
    pytest.importorskip("torch")
    text = (
        "import torch\n"
        "f = torch.compile(lambda x: x + 1, backend='weir', options={'auto_streams': True})\n"
        "print(f(torch.ones(2)).tolist())\n"
        "import weir\n"
        "print(torch.compile(lambda x: x * 3, backend='weir')(torch.ones(2)).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.stdout.split("\n")[:2] == ["[2.0, 2.0]", "[3.0, 3.0]"], done.stderr[-2000:]
