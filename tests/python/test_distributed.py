"""torch.distributed over weir, between real processes."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from test_collectives import fake_gpu

torch = pytest.importorskip("torch")

RANK = pathlib.Path(__file__).with_name("distributed_rank.py")


def run(scenario, ranks, tmp_path, device="cpu", **environment):
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
    if any(state != 0 for state in states):
        told = [failure(rank, states[rank], path.read_text()) for rank, path in enumerate(said)]
        pytest.fail("\n".join(line for lines in zip(*told) for line in lines), pytrace=False)


def failure(rank, state, text):
    """A line, which is what summaries have, and all that the rank said."""
    errors = [line for line in text.splitlines() if "Error" in line] or ["no error is told"]
    status = "runs still" if state is None else f"status {state}"
    return f"rank {rank}: {status}: {errors[-1]}", f"---- rank {rank} said:\n{text}"


def test_every_collective_gives_the_values_of_a_reference(tmp_path):
    run("collectives", 3, tmp_path)


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
    for words in (["--hosts", "a,b", "-n", "2", "true"], ["-n", "2", "--hosts=a,b", "true"]):
        refused = launch(*words)
        assert refused.returncode == 2 and "mpirun, mpiexec or srun" in refused.stderr
