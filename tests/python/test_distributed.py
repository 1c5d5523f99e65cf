"""torch.distributed over weir, between real processes."""

import ast
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from test_collectives import fake_gpu

torch = pytest.importorskip("torch")

RANK = pathlib.Path(__file__).with_name("distributed_rank.py")


def run(scenario, ranks, tmp_path, device="cpu", killed=None, **environment):
    store = str(tmp_path / "store")
    said = [tmp_path / f"rank{rank}.txt" for rank in range(ranks)]
    processes = []
    for rank, path in enumerate(said):
        with path.open("w") as out:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(RANK), scenario, str(rank), str(ranks), store, device],
                    env={**os.environ, **environment},
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )
    end = time.monotonic() + 240
    try:
        for process in processes:
            process.wait(max(0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    states = [process.poll() for process in processes]  # None: it runs still
    for process in processes:
        process.kill()
        process.wait()
    if any(state != (-signal.SIGKILL if rank == killed else 0) for rank, state in enumerate(states)):
        told = [failure(rank, states[rank], path.read_text()) for rank, path in enumerate(said)]
        pytest.fail("\n".join(line for lines in zip(*told) for line in lines), pytrace=False)


def failure(rank, state, text):
    """A line, which is what summaries have, and all that the rank said."""
    errors = [line for line in text.splitlines() if "Error" in line] or ["no error is told"]
    status = "runs still" if state is None else f"status {state}"
    return f"rank {rank}: {status}: {errors[-1]}", f"---- rank {rank} said:\n{text}"


def test_every_collective_gives_the_values_of_a_reference_and_a_rank_that_is_late_or_lost_is_named(tmp_path):
    run("everything", 3, tmp_path, killed=2)


def test_random_programs_of_collectives_give_what_pytorch_computes(tmp_path):
    program = RANK.with_name("random_collectives.py")
    done = subprocess.run([sys.executable, str(program), "--ranks", "3", "--count", "2"], capture_output=True, text=True, timeout=235)
    assert done.returncode == 0, done.stdout + done.stderr


def test_parallel_and_sharded_training_have_the_losses_of_gloo(tmp_path):
    run("training", 2, tmp_path)


def test_compiled_collectives_are_nodes_of_a_plan_and_a_llama_cut_over_ranks_is_one(tmp_path):
    run("compiled", 2, tmp_path)


def test_a_small_llama_cut_over_four_ranks_gives_what_one_rank_gives(tmp_path):
    run("tensor_parallel", 4, tmp_path)


def test_tensors_of_a_gpu_have_groups_of_their_own(tmp_path):
    run("on_a_fake_gpu", 3, tmp_path, **fake_gpu())


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no CUDA GPU here")


@on_a_gpu
@pytest.mark.parametrize("scenario", ["collectives", "training", "compiled"])
def test_two_processes_on_one_gpu_do_what_they_do_on_the_host(scenario, tmp_path):
    run(scenario, 2, tmp_path, "cuda:0", WEIR_DEVICE="cuda:0")


def launch(*words, **options):
    command = [sys.executable, "-m", "weir", "launch", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, **options)


def test_launch_starts_ranks_that_find_each_other():
    program = (
        "import os, weir; d = weir._C.Device('cpu'); g = weir._C.Group(d); "
        "x = weir.tensor([float(g.rank + 1)], device=d); g.all_reduce(x, x); "
        "os.write(1, f'{g.size} {x.tolist()}\\n'.encode()); g.close()"  # whole lines, also of three at once
    )
    done = launch("-n", "3", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", *["3 [6.0]"] * 3]


def test_launch_keeps_a_port_for_the_store_of_torch():
    """Nobody else gets it; rank 0 may listen there, at an address that is this machine's."""
    program = """if True:
        import os, socket
        at = "127.0.0.1", int(os.environ["MASTER_PORT"])
        assert os.environ["MASTER_ADDR"] == at[0]
        stranger, store = socket.socket(), socket.socket()
        try:
            stranger.bind(at)
        except OSError:
            os.write(1, b"kept\\n")  # whole lines, also of two at once
        if os.environ["RANK"] == "0":
            store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            store.bind(at)
            store.listen()
            os.write(1, b"listens\\n")
    """
    run = launch("-n", "2", sys.executable, "-c", program, env={**os.environ, "MASTER_ADDR": "nowhere"})
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.split()) == ["kept", "kept", "listens"]


def test_launch_ends_with_the_status_of_the_rank_that_fails():
    done = launch("-n", "2", "sh", "-c", 'test "$WEIR_RANK" = 0 || exit 7')
    assert done.returncode == 7
    assert "rank 1 ended with status 7" in done.stderr
    assert launch("-n", "0", "true").returncode == 2
    assert launch("-n", "2").returncode == 2


def fake_launcher(folder, name, version):
    """A program of that name that says what it is, or prints its command line and what it would pass on."""
    script = folder / name
    script.write_text(
        f"""#!{sys.executable}
import os, sys
if sys.argv[1:] == ["--version"]:
    print("{version}")
else:
    print(sys.argv[1:])
    print({{name: os.environ[name] for name in ("WEIR_STORE", "WEIR_TOKEN", "WEIR_ENGINE", "MASTER_ADDR")}})
"""
    )
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    "name, version, hosts, names",
    [
        ("mpirun", "mpirun (Open MPI) 5.0.11", "--host", "-x WEIR_STORE -x WEIR_TOKEN -x WEIR_ENGINE"),
        ("mpiexec.hydra", "HYDRA build details:", "-hosts", "-genvlist WEIR_STORE,WEIR_TOKEN,WEIR_ENGINE"),
    ],
)
def test_launch_on_hosts_runs_the_launcher_of_the_mpi_that_is_there(tmp_path, name, version, hosts, names):
    fake = fake_launcher(tmp_path, name, version)
    environment = {**os.environ, "WEIR_MPIRUN": fake, "WEIR_PORT": "4321"}
    environment.pop("WEIR_ENGINE", None)
    done = launch("--hosts", "a:2,b-1.c:3", "-n", "4", "prog", "-n", "7", env=environment)
    assert done.returncode == 0, done.stderr
    command, passed = (ast.literal_eval(line) for line in done.stdout.splitlines())
    assert command[:4] == [hosts, "a:2,b-1.c:3", "-n", "4"] and command[-4:] == ["sh", "prog", "-n", "7"]
    assert names in " ".join(command)
    assert passed["WEIR_STORE"] == "a:4321" and passed["MASTER_ADDR"] == "a" and passed["WEIR_ENGINE"] == "mpi"
    assert len(passed["WEIR_TOKEN"]) == 32 and passed["WEIR_TOKEN"] not in " ".join(command)
    assert launch("--hosts=a:2,b", "prog", env=environment).stdout.startswith(f"['{hosts}', 'a:2,b', '-n', '3'")


@pytest.mark.parametrize(
    "words, said",
    [
        (["--hosts", "a;b", "true"], "'a;b' is not a machine"),
        (["--hosts", "a:2,-b", "true"], "'-b' is not a machine"),
        (["--hosts", "a:0", "true"], "'a:0' is not a machine"),
        (["--hosts", "a,", "true"], "'' is not a machine"),
        (["-n", "4", "--hosts=a:2,b", "true"], "-n 4 is out of range: --hosts names room for 1..3 ranks"),
        (["--hosts", "a:1000,b:25", "true"], "1025 ranks are out of range: a group has 1..1024"),
        (["--hosts", "a"], "which program?"),
    ],
)
def test_launch_on_hosts_refuses_what_is_not_a_list_of_machines(words, said):
    refused = launch(*words)
    assert refused.returncode == 2 and said in refused.stderr


def test_launch_on_hosts_passes_all_words_of_the_program_or_none(tmp_path):
    fake = fake_launcher(tmp_path, "mpirun", "mpirun (Open MPI) 5.0.11")
    environment = {**os.environ, "WEIR_MPIRUN": fake}
    done = launch("--hosts", "a:2", "prog", *map(str, range(4000)), env=environment)
    assert ast.literal_eval(done.stdout.splitlines()[0])[-1] == "3999"
    refused = launch("--hosts", "a:2", "prog", *map(str, range(4100)), env=environment)
    assert refused.returncode == 2 and not refused.stdout and "words on its command line" in refused.stderr


def test_launch_on_hosts_says_what_to_do_where_there_is_no_mpi(tmp_path):
    refused = launch("--hosts", "a,b", "true", env={**os.environ, "PATH": str(tmp_path)})
    assert refused.returncode == 2 and "install one on every machine, name it in WEIR_MPIRUN" in refused.stderr


SUMS = """
import torch
from torch import distributed as dist
import weir.distributed
dist.init_process_group("weir")
x = torch.arange(4.0) + dist.get_rank()
dist.all_reduce(x)
assert x.tolist() == [1, 3, 5, 7], x
dist.destroy_process_group()
"""


def test_pytorch_runs_on_machines_joined_by_open_mpi(tmp_path):
    launcher = shutil.which("mpirun.openmpi")
    if not launcher:
        pytest.skip("mpirun.openmpi is not in PATH")
    (tmp_path / "mpirun").symlink_to(launcher)
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    ports = []
    for _ in range(3):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(min(free.getsockname()[1], 65534)))
    environment = {**os.environ, "TMPDIR": str(tmp_path), "WEIR_MPIRUN": launcher}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MASTER_PORT": ports[0]}
    script = RANK.parents[2] / "examples" / "launch" / "mpirun.sh"
    command = [script, tmp_path / "hosts", "2", sys.executable, "-c", SUMS]
    done = subprocess.run(command, env=environment | {"WEIR_PORT": ports[1]}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    done = launch("--hosts", "localhost:2", sys.executable, "-c", SUMS, env=environment | {"WEIR_PORT": ports[2]})
    assert done.returncode == 0, done.stderr
