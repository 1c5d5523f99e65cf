"""scripts/upstream-check, on a checkout that looks like MindSpore's."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "upstream-check"

STREAMS = '''
import pytest
from mindspore import Tensor, hal, ops


class Stream:
    """Some text.

    Examples:
        >>> import mindspore as ms
        >>> ms.hal.synchronize()
    """


def fragment():
    """
    >>> s.synchronize()
    """
'''
TESTS = '''
import pytest
from mindspore import Tensor, hal, ops


@pytest.mark.parametrize("n", [1, 2])
def test_that_passes(n):
    s = hal.Stream()
    with hal.StreamCtx(s):
        y = Tensor([1.0]) + n
    s.synchronize()
    assert y.asnumpy().tolist() == [1 + n]


def test_that_needs_more():
    ops.erfinv(Tensor([1.0]))


@pytest.mark.skip(reason="not today")
def test_that_is_skipped():
    pass


def test_that_ends_its_process():
    import os
    os._exit(3)
'''


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip


def test_cases_of_a_checkout_are_run_and_counted_with_reasons(tmp_path):
    hal, tests = tmp_path / "mindspore/python/mindspore/hal", tmp_path / "tests/st/hal"
    hal.mkdir(parents=True)
    tests.mkdir(parents=True)
    (hal / "stream.py").write_text(STREAMS)
    (tests / "test_hal_stream.py").write_text(TESTS)
    (tests / "test_hal_broken.py").write_text("import mindspore.dataset\n\ndef test_it(): pass\n")
    done = run("--json", tmp_path / "cases.json", "--timeout", 60, tmp_path, tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'none'}: skipped: it is not there" in done.stdout
    cases = json.loads((tmp_path / "cases.json").read_text())["mindspore"]
    told = {case["case"].rpartition(":")[2]: (case["status"], case["reason"]) for case in cases}
    assert told["6"] == ("passed", "")
    assert told["15"] == ("skipped", "a fragment: imports nothing of the package")
    assert told["test_that_passes[1]"] == told["test_that_passes[2]"] == ("passed", "")
    assert told["test_that_needs_more"] == ("failed", "weir does not provide mindspore.ops.erfinv")
    assert told["test_that_is_skipped"] == ("skipped", "not today")
    assert told["test_that_ends_its_process"] == ("failed", "the process ended without a result")
    (broken,) = (reason for status, reason in told.values() if "not imported" in reason)
    assert "weir does not provide mindspore.dataset" in broken
    assert re.search(r"all +3 +3 +2\n", done.stdout)


@pytest.mark.parametrize("arguments", [[], [pathlib.Path(__file__).parent]])
def test_without_a_checkout_there_is_a_reason(arguments):
    done = run(*arguments)
    assert done.returncode == 0 and "skipped: " in done.stdout


def test_the_list_of_torch_npus_tests_gives_a_reason_for_whatever_it_leaves_out():
    here = pathlib.Path(__file__).parents[1] / "cann" / "upstream"
    spec = importlib.util.spec_from_file_location("cann_upstream", here / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    files = run.read_list(here / "torch_npu.txt")
    assert sum("test_base_ops" in name for name in files) >= 60
    for left_out in files.values():
        assert all("." in case and len(reason) > 8 for case, reason in left_out.items())
    for left_out in run.read_list(here / "mindspore.txt").values():
        assert all(len(reason) > 8 for reason in left_out.values())
