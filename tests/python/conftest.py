"""What all Python tests share: a time limit for each, and the totals as scripts/run-tests reads
them."""

import faulthandler
import os

import pytest

import weir

TIMEOUT_S = 240  # far beyond what any takes, also on a machine that does other things


def pytest_configure(config):
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # else the dump of a hang is lost with it
        config.weir_stderr = os.dup(2)


@pytest.fixture(autouse=True)
def limit(pytestconfig):
    """A test that hangs says where and ends the run."""
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True, file=pytestconfig.weir_stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """A test that leaves a scope open or another stream current would spoil the next."""
    yield
    assert weir._C.scope_depth() == 0
    weir.default_stream().set_current()


@pytest.fixture
def split():
    """A device with the cores that programs for the NPU expect."""
    before = weir.get_device()
    device = weir.Device("cpu:cube=24,vector=48")
    weir.set_device(device)
    yield device
    weir.set_device(before)


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace):
    doctest_namespace["weir"] = weir


def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    count = {k: len(stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")}
    if os.environ.get("WEIR_TEST_TOTALS"):
        for kind in ("failed", "error"):
            for report in stats.get(kind, []):
                terminalreporter.write_line(f"FAIL {report.nodeid}")
        for report in stats.get("skipped", []):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            terminalreporter.write_line(f"skip {report.nodeid} ({reason})")
        terminalreporter.write_line(
            f"{count['passed']} passed, {count['failed'] + count['error']} failed, "
            f"{count['skipped']} skipped"
        )
