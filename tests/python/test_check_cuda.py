"""weir.check for programs of torch.cuda, driven by hand: no GPU is needed."""

import json
import random
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch.cuda import _sanitizer  # noqa: E402

from weir.check import _cuda, _order  # noqa: E402


class Program:
    """Events by short names, and what both checkers say to each launch."""

    def __init__(self):
        self.ours, self.theirs = _order.Watcher(), _sanitizer.EventHandler()
        self.findings = []

    def launch(self, stream, reads=(), writes=()):
        """Whether weir and PyTorch find something."""
        uses = [(p, 1, _order.Region(p, p + 1), p in writes, ["x"], "") for p in {*reads, *writes}]
        ours = self.ours.launched(stream, "kernel", uses)
        theirs = self.theirs._handle_kernel_launch(
            stream, set(reads) - set(writes), set(writes), set(), "kernel", {p: [] for p in {*reads, *writes}})
        self.findings += ours
        return bool(ours), bool(theirs)

    def do(self, name, *args):
        ours, theirs = {
            "create_event": ("event_created", "_handle_event_creation"),
            "delete_event": ("event_deleted", "_handle_event_deletion"),
            "record": ("event_recorded", "_handle_event_record"),
            "wait": ("event_waited", "_handle_event_wait"),
            "create_stream": ("stream_created", "_handle_stream_creation"),
            "sync_event": ("event_synchronized", "_handle_event_synchronization"),
            "sync_stream": ("stream_synchronized", "_handle_stream_synchronization"),
            "sync_device": ("device_synchronized", "_handle_device_synchronization"),
        }[name]
        getattr(self.ours, ours)(*args)
        getattr(self.theirs, theirs)(*args)


# Each line is an event; a launch is "stream reads writes" and ends with ! if it races.
CASES = {
    "one stream is in order": ["k1 a a", "k1 a", "k1 - a"],
    "two readers do not race": ["k1 - a", "sync_device", "k1 a", "k2 a"],
    "a read on another stream without a wait races": ["k1 - a", "k2 a !"],
    "a write on another stream without a wait races": ["k1 a", "k2 - a !"],
    "an event orders": ["k1 - a", "record e 1", "wait e 2", "k2 a"],
    "a read is held against the last write only": ["k1 - a", "record e 1", "wait e 2", "k2 - a", "k1 a !"],
    "two branches join": ["k1 - a", "record e 1", "wait e 2", "wait e 3", "k2 a", "k3 a", "record f 2", "record g 3",
                          "wait f 1", "wait g 1", "k1 - a"],
    "one of two branches is missing": ["k1 - a", "record e 1", "wait e 2", "wait e 3", "k2 a", "k3 a", "record f 2",
                                       "wait f 1", "k1 - a !"],
    "order goes through a third stream": ["k1 - a", "record e 1", "wait e 2", "record f 2", "wait f 3", "k3 a"],
    "an event recorded before the write does not order it": ["record e 1", "k1 - a", "wait e 2", "k2 a !"],
    "a deleted event orders nothing": ["k1 - a", "record e 1", "delete_event e", "wait e 2", "k2 a !"],
    "all reads since the write count": ["k1 - a", "record e 1", "wait e 2", "wait e 3", "k2 a", "k3 a", "record f 3",
                                        "wait f 1", "k1 - a !"],
    "the last record of an event counts": ["record e 1", "k1 - a", "record e 1", "wait e 2", "k2 a"],
    "clocks take the maximum": ["k1 - a", "record e 1", "k1 - b", "record f 1", "wait f 2", "wait e 2", "k2 b"],
    "the host waits for a device": ["k1 - a", "k2 - b", "sync_device", "k3 a b"],
    "the host waits for a stream": ["k1 - a", "sync_stream 1", "k2 a"],
    "but not for the others": ["k1 - a", "k2 - b", "sync_stream 1", "k3 b !"],
    "the host waits for an event": ["k1 - a", "record e 1", "k1 - b", "sync_event e", "k2 a", "k2 b !"],
    "a new stream comes after what the host waited for": ["k1 - a", "sync_device", "create_stream 9", "k9 a"],
    "a new stream does not come after the rest": ["k1 - a", "create_stream 9", "k9 a !"],
    "an event that was never recorded orders nothing": ["k1 - a", "create_event e", "wait e 2", "k2 a !"],
}


def play(program, line):
    number = {"a": 100, "b": 200, "c": 300, "e": 1, "f": 2, "g": 3}
    words = line.split()
    if words[0][0] == "k" and words[0][1:].isdigit():
        races = words[-1] == "!"
        sets = [[number[p] for p in w if p != "-"] for w in words[1 : len(words) - races]] + [[]]
        assert program.launch(int(words[0][1:]), *sets[:2]) == (races, races), line
    else:
        program.do(words[0], *(number.get(w, None) or int(w) for w in words[1:]))


@pytest.mark.parametrize("name", CASES)
def test_both_checkers_say_the_same(name):
    program = Program()
    for line in CASES[name]:
        play(program, line)


def test_every_race_that_pytorch_finds_is_found():
    rng = random.Random(7)
    found = 0
    for _ in range(300):
        program = Program()
        for event in (1, 2, 3):
            program.do("create_event", event)
        for _ in range(40):
            stream, event = rng.randrange(4), rng.randrange(1, 4)
            what = rng.random()
            if what < 0.5:
                memory = [100, 200, 300]
                reads, writes = rng.sample(memory, rng.randrange(3)), rng.sample(memory, rng.randrange(2))
                ours, theirs = program.launch(stream, reads, writes)
                assert ours or not theirs
                found += theirs
            elif what < 0.7:
                program.do("record", event, stream)
            elif what < 0.9:
                program.do("wait", event, stream)
            elif what < 0.94:
                program.do("sync_stream", stream)
            elif what < 0.97:
                program.do("sync_event", event)
            else:
                program.do("sync_device")
    assert found > 100  # the sequences are not trivial


def use(watcher, stream, address, writes, size=64, operator="kernel"):
    return watcher.launched(stream, operator,
                            [(address, size, _order.Region(address, address + size), writes, ["x"], "")])


def test_memory_reused_while_another_stream_reads_it_is_found():
    watcher = _order.Watcher()
    watcher.allocated(1000, stream=1)
    assert not use(watcher, 1, 1000, True)
    watcher.event_recorded(5, 1)
    watcher.event_waited(5, 2)
    assert not use(watcher, 2, 1000, False, operator="slow read")
    watcher.deallocated(1000)
    watcher.allocated(1000, stream=1)
    (finding,) = use(watcher, 1, 1000, True)
    assert finding.kind == "reuse" and finding.first.operator == "slow read"


@pytest.mark.parametrize("cure", ["record_stream", "wait", "host", "another pool", "empty cache"])
def test_memory_reused_in_order_is_no_finding(cure):
    watcher = _order.Watcher()
    watcher.allocated(1000, stream=1)
    use(watcher, 1, 1000, True)
    watcher.event_recorded(5, 1)
    watcher.event_waited(5, 2)
    use(watcher, 2, 1000, False)
    if cure == "record_stream":
        watcher.stream_recorded(1000, 2)
    watcher.deallocated(1000)
    if cure == "wait":
        watcher.event_recorded(6, 2)
        watcher.event_waited(6, 1)
    if cure == "host":
        watcher.stream_synchronized(2)
    if cure == "empty cache":
        watcher.cache_emptied()
    watcher.allocated(1000, stream=3 if cure == "another pool" else 1)
    assert use(watcher, 3 if cure == "another pool" else 1, 1000, True) == []


def test_only_the_reused_part_of_freed_memory_counts():
    watcher = _order.Watcher()
    watcher.allocated(1000, stream=1)
    use(watcher, 2, 1000, True, size=512)
    watcher.deallocated(1000)
    watcher.allocated(1256, stream=1)  # the allocator split the block
    watcher.allocated(2000, stream=1)
    assert use(watcher, 1, 2000, True) == []
    (finding,) = use(watcher, 1, 1256, True)
    assert finding.kind == "reuse"


def brute_overlap(a, b):
    def bytes_of(view):
        offset, sizes, strides, element = view
        places = {offset}
        for n, stride in zip(sizes, strides):
            places = {p + i * stride for p in places for i in range(n)}
        return {p + i for p in places for i in range(element)}

    return bool(bytes_of(a) & bytes_of(b))


def test_views_overlap_exactly_where_they_share_bytes():
    rng = random.Random(3)
    for _ in range(300):
        views = [(4 * rng.randrange(8), tuple(rng.randrange(1, 4) for _ in range(2)),
                  tuple(4 * rng.randrange(5) for _ in range(2)), 4) for _ in range(2)]
        assert _cuda.views_overlap(*views) == brute_overlap(*views), views


class OnCpu:
    """The dispatch mode with tensors of the host in the place of CUDA's."""

    def __init__(self):
        self.stream, self.findings = 0, []
        self.watcher = _order.Watcher(_cuda.views_overlap)
        self.mode = _cuda.CudaMode(self.watcher, self.findings.append, is_device=lambda t: True,
                                   current_stream=lambda: self.stream)


def test_operators_of_pytorch_are_seen_with_their_arguments_and_lines():
    program = OnCpu()
    with program.mode:
        x = torch.zeros(4, 4)
        program.stream = 1
        y = x + 1
    (finding,) = program.findings
    assert (finding.first.operator, finding.second.operator) == ("aten::zeros", "aten::add.Tensor")
    assert finding.second.arguments == ("self",) and not finding.second.writes
    assert finding.second.stack[0][0] == __file__
    assert y.sum() == 16


def test_views_that_share_no_bytes_do_not_race_and_others_do():
    program = OnCpu()
    with program.mode:
        x = torch.zeros(4, 4)
        program.watcher.device_synchronized()
        x[:, 0].fill_(1)
        program.stream = 1
        x[:, 1].fill_(2)
        assert program.findings == []
        x[0].fill_(3)
    assert len(program.findings) == 1  # and PyTorch's checker compares addresses only


def test_views_and_shapes_do_not_read_memory():
    program = OnCpu()
    with program.mode:
        x = torch.zeros(4, 4)
        program.stream = 1
        x.t(), x.view(16)[2:], torch.empty_like(x), x.shape
    assert program.findings == []


def test_the_command_runs_a_script_and_passes_its_status_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, weir\ns = weir.Stream()\na = weir.ones((4,)) + 1\n"
                      "if sys.argv[1] == 'race':\n    with weir.stream(s):\n        a.sum()\nsys.exit(3)\n")

    def run(word):
        done = subprocess.run([sys.executable, "-m", "weir.check", str(script), word], capture_output=True, text=True,
                              timeout=120)
        return done.returncode, done.stderr

    status, text = run("clean")
    assert status == 3 and "no findings" in text
    status, text = run("race")
    assert status == 1 and "1 finding" in text and "script.py:6" in text


RACE = """
import weir

def race():
    s = weir.Stream()
    a = weir.ones((4,)) + 1
    with weir.stream(s):
        a.sum()
    weir.synchronize()
"""


def run_check(tmp_path, *words, script=None):
    if script is not None:
        (tmp_path / "script.py").write_text(script)
    return subprocess.run([sys.executable, "-m", "weir.check", *words], capture_output=True, text=True, timeout=240,
                          cwd=tmp_path)


def test_a_message_of_sys_exit_is_shown_and_a_traceback_begins_in_the_script(tmp_path):
    done = run_check(tmp_path, "script.py", script="import sys\nsys.exit('no such thing')\n")
    assert done.returncode == 1 and "no such thing" in done.stderr
    done = run_check(tmp_path, "script.py", script="def f():\n    raise KeyError('x')\nf()\n")
    assert done.returncode == 1 and "KeyError: 'x'" in done.stderr
    assert "weir" not in done.stderr.split("Traceback")[1].split("KeyError")[0]
    assert done.stderr.rstrip().endswith("no findings")


def test_a_module_is_run_like_a_script(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(RACE + "import sys\nprint(sys.argv[1:], __name__)\nrace()\n")
    done = run_check(tmp_path, "-m", "package.train", "--epochs", "1")
    assert done.stdout == "['--epochs', '1'] __main__\n"
    assert done.returncode == 1 and "1 finding" in done.stderr and "train.py:8" in done.stderr


def test_a_missing_script_is_reported(tmp_path):
    for words, sentence in ((["missing.py"], "there is no script 'missing.py'"), (["."], "without a __main__.py"),
                            ([], "say which script to run")):
        done = run_check(tmp_path, *words)
        assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing_are_checked(tmp_path, method):
    body = f"""
import multiprocessing

if __name__ == "__main__":
    process = multiprocessing.get_context("{method}").Process(target=race, name="worker")
    process.start()
    process.join()
    print("ended with", process.exitcode)
"""
    done = run_check(tmp_path, "--json", "found.json", "script.py", script=RACE + body)
    assert done.stdout == "ended with 0\n", done.stderr
    assert done.returncode == 1 and "other processes: 1 finding" in done.stderr and "script.py:8" in done.stderr
    (finding,) = json.loads((tmp_path / "found.json").read_text())["findings"]
    assert finding["process"] == "worker" and finding["kind"] == "race"


def test_operators_of_other_threads_are_seen(monkeypatch):
    import threading

    from weir.check import _session

    program = OnCpu()
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    _session._enter_in_threads(lambda: _cuda.CudaMode(program.watcher, program.findings.append,
                                                      is_device=lambda t: True, current_stream=lambda: program.stream))
    x = torch.zeros(4)

    def on_stream(number):
        program.stream = number
        thread = threading.Thread(target=x.add_, args=(1,))
        thread.start()
        thread.join()

    on_stream(1)
    on_stream(2)
    (finding,) = program.findings
    assert (finding.first.stream, finding.second.stream) == (1, 2)


def test_findings_go_to_a_file_that_stays_if_the_new_one_cannot_be_written(tmp_path, capsys, monkeypatch):
    from weir.check.__main__ import write_json

    path = tmp_path / "findings.json"
    write_json(str(path), {"findings": []})
    before = path.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError):
        write_json(str(path), {"findings": [1]})
    assert path.read_text() == before and [p.name for p in tmp_path.iterdir()] == ["findings.json"]
    write_json("-", {"findings": []})
    assert capsys.readouterr().out == before
