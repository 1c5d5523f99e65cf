"""torch.distributed over weir, between real processes."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

RANK = pathlib.Path(__file__).with_name("distributed_rank.py")


def run(scenario, ranks, tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, str(RANK), scenario, str(rank), str(ranks), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output


def test_every_collective_gives_the_values_of_a_reference(tmp_path):
    run("collectives", 3, tmp_path)


def test_parallel_and_sharded_training_have_the_losses_of_gloo(tmp_path):
    run("training", 2, tmp_path)


def test_compiled_collectives_are_nodes_of_a_plan_and_a_llama_cut_over_ranks_is_one(tmp_path):
    run("compiled", 2, tmp_path)


def test_a_small_llama_cut_over_four_ranks_gives_what_one_rank_gives(tmp_path):
    run("tensor_parallel", 4, tmp_path)


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


def test_launch_ends_with_the_status_of_the_rank_that_fails():
    done = launch("-n", "2", "sh", "-c", 'test "$WEIR_RANK" = 0 || exit 7')
    assert done.returncode == 7
    assert "rank 1 ended with status 7" in done.stderr
    assert launch("-n", "0", "true").returncode == 2
    assert launch("-n", "2").returncode == 2
    for words in (["--hosts", "a,b", "-n", "2", "true"], ["-n", "2", "--hosts=a,b", "true"]):
        refused = launch(*words)
        assert refused.returncode == 2 and "mpirun, mpiexec or srun" in refused.stderr
