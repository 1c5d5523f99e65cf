"""python -m weir.compat: what it runs, what it says and how it ends."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from weir import compat

SAMPLES = pathlib.Path(__file__).parent / "samples"


def command(*args, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "weir.compat", *args],
        capture_output=True,
        text=True,
        timeout=150,
        **kwargs,
    )


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Writes a script and gives its name; the command runs where it is."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="s.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return name

    return write


def test_races_are_reported_and_the_timeline_is_written(tmp_path):
    pytest.importorskip("numpy")
    out = tmp_path / "timeline.html"
    bad = command("--check", "--trace", str(out), str(SAMPLES / "mindspore_incorrect.py"))
    assert bad.returncode == 1, bad.stderr
    assert "MatMul" in bad.stderr and "Sum" in bad.stderr
    assert "MatMul" in out.read_text()
    good = command("--check", str(SAMPLES / "mindspore_correct.py"))
    assert good.returncode == 0, good.stderr


@pytest.mark.parametrize("device", [compat.DEFAULT_DEVICE, "npu:a3"])
def test_both_faulty_samples_name_the_operators_and_the_wait(device, script):
    pytest.importorskip("numpy")
    for name, first, second in (
        ("mindspore_incorrect.py", "MatMul", "Sum"),
        ("mindspore_event.py", "Sum", "Add"),
    ):
        done = command("--device", device, "--check", str(SAMPLES / name))
        assert done.returncode == 1, done.stderr
        assert first in done.stderr and second in done.stderr and "wait" in done.stderr
        assert done.stderr.count(name) >= 2  # where each of the two was called
    right = (SAMPLES / "mindspore_event.py").read_text().replace("\nev1.wait()", "\nev2.wait()")
    done = command("--device", device, "--check", script(right))
    assert done.returncode == 0, done.stderr


RACE = """
import sys, weir
b = weir.ones((64, 64)) @ weir.ones((64, 64))
with weir.stream(weir.Stream()):
    b.sum()
"""


@pytest.mark.parametrize(
    "end, status", [("", 1), ("sys.exit()", 1), ("sys.exit(0)", 1), ("sys.exit(4)", 4)]
)
def test_a_race_counts_however_the_script_ends(script, end, status):
    done = command("--check", script(RACE + end))
    assert done.returncode == status and "MatMul" in done.stderr


def test_arguments_and_exit_status_are_the_scripts(script):
    name = script(
        """
        import sys, weir
        print(sys.argv, weir.get_device().name, __name__, __file__)
        sys.exit(len(sys.argv))
        """
    )
    env = {k: v for k, v in os.environ.items() if k != "WEIR_DEVICE"}
    done = command(name, "-x", "--check", env=env)
    assert done.stdout == f"['s.py', '-x', '--check'] {compat.DEFAULT_DEVICE} __main__ s.py\n"
    assert done.returncode == 3
    assert "cpu:cores=2" in command("--device", "cpu:cores=2", name).stdout
    done = command(script("import sys\nsys.exit('no luck')"))
    assert (done.returncode, done.stderr) == (1, "no luck\n")


def test_modules_folders_and_the_standard_input(script):
    script("from . import b\nimport sys\nprint(b.x, __package__, sys.argv[1:])", "p/a.py")
    script("x = 5", "p/b.py")
    script("", "p/__init__.py")
    script("import b\nprint('main', b.x)", "p/__main__.py")
    assert command("-m", "p.a", "--trace", "y").stdout == "5 p ['--trace', 'y']\n"
    assert command("p").stdout == "main 5\n"
    assert command("-", "q", input="import sys\nprint(sys.argv)").stdout == "['-', 'q']\n"
    done = command("-m", "not_there")
    assert done.returncode == 1 and "not_there" in done.stderr


def test_an_exception_is_shown_from_the_script_on(script):
    done = command(script("def f():\n    return 1 / 0\nf()"))
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    assert 'File "s.py", line 2, in f' in done.stderr and "compat" not in done.stderr
    done = command(script("print('x'"))
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "compat" not in done.stderr


def test_work_that_fails_after_the_last_line_is_no_success(script):
    done = command(script("import weir\nweir.embedding(weir.ones((2, 2)), weir.tensor([9]))"))
    assert done.returncode == 1 and "9" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "args, sentence",
    [
        (["none.py"], "there is no script 'none.py'"),
        (["."], "'.' is a folder without a __main__.py"),
        (["--trace", "t.txt", "s.py"], "to .html or .json, not to 't.txt'"),
        (["--trace", "no/t.html", "s.py"], "there is no folder"),
        (["--device", "tpu", "s.py"], "tpu"),
        (["--device", "cpu:cores=none", "s.py"], "cores"),
        ([], "say which script to run"),
        (["-m"], "say which script to run"),
    ],
)
def test_a_missing_script_is_reported_before_anything_runs(script, args, sentence):
    script("print('ran')")
    done = command(*args)
    assert done.returncode in (1, 2) and sentence in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


def test_without_pytorch_and_without_numpy(script):
    done = command(script("import sys\nsys.modules['torch'] = None\nimport torch_npu"))
    assert done.returncode == 1 and "which is not installed here: pip install torch" in done.stderr
    done = command(
        script(
            """
            import sys
            sys.modules["numpy"] = None
            import mindspore as ms
            from mindspore import Tensor, ops
            print(ops.matmul(Tensor([[2.0]]), Tensor([[3.0]])).tolist())
            Tensor([1.0]).asnumpy()
            """
        )
    )
    assert done.stdout == "[[6.0]]\n" and "numpy" in done.stderr


def test_torch_npu_and_torchair_are_imported_without_numpy(script):
    done = command(script("import sys\nsys.modules['numpy'] = None\nimport torch_npu, torchair\nprint(torchair.__name__)\n"))
    assert done.returncode == 0 and done.stdout == "torchair\n", done.stderr
