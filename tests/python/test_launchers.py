"""Ranks started by launchers of others: torchrun, and Slurm's and MPICH's by way of the scripts to copy."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "examples" / "launch"
# What a launcher around the tests may have set.
OURS = re.compile("(WEIR|SLURM|OMPI|PMI|PMIX|MASTER|TORCHELASTIC|MPI)_|(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE)$")

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")

# Two groups, one after the other: of weir alone, then torch.distributed's. Whole lines, also of two at once.
BOTH = """
import os
import weir

device = weir._C.Device("cpu:cores=1")
group = weir._C.Group(device)
x = weir.tensor([float(group.rank + 1)], device=device)
group.all_reduce(x, x)
line = f"weir {group.rank} {group.size} {x.tolist()}\\n"
group.close()

import torch
from torch import distributed as dist
import weir.distributed

dist.init_process_group("weir")
y = torch.tensor([10 * dist.get_rank() + 1])
dist.all_reduce(y)
line += f"torch {dist.get_rank()} {dist.get_world_size()} {y.tolist()} {os.environ['LOCAL_RANK']}\\n"
dist.barrier()
dist.destroy_process_group()
os.write(1, line.encode())
"""

ONE = """
import os, weir
device = weir._C.Device("cpu:cores=1")
group = weir._C.Group(device)
x = weir.tensor([float(group.rank + 1)], device=device)
group.all_reduce(x, x)
os.write(1, f"{group.rank} {group.size} {x.tolist()} {os.environ.get('WORLD_SIZE')}\\n".encode())
group.close()
"""


def environment(**more):
    return {**{name: value for name, value in os.environ.items() if not OURS.match(name)}, **more}


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240, **options)


@needs_torch
def test_torchrun_starts_ranks_of_weir_alone_and_of_torch_distributed(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(BOTH)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    done = run(command, env=environment(TMPDIR=str(tmp_path), OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "torch 0 2 [12] 0",
        "torch 1 2 [12] 1",
        "weir 0 2 [3.0]",
        "weir 1 2 [3.0]",
    ]
    assert not list(tmp_path.glob("weir-*"))  # the store's file is gone


@needs_torch
def test_torchrun_ends_the_job_when_a_rank_fails_and_the_other_names_it(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(
        """
import os, weir
device = weir._C.Device("cpu:cores=1")
group = weir._C.Group(device)
if group.rank == 1:
    os._exit(7)
x = weir.tensor([1.0], device=device)
try:
    group.all_reduce(x, x)
    x.tolist()
except RuntimeError as error:
    os.write(1, f"{error}\\n".encode())
"""
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    done = run(command, env=environment(TMPDIR=str(tmp_path), OMP_NUM_THREADS="1"))
    assert done.returncode != 0
    assert "exitcode" in done.stderr and "7" in done.stderr
    # torchrun may end rank 0 before it has said so.
    assert done.stdout == "" or "rank 1 died" in done.stdout, done.stdout


SRUN = r"""#!/bin/sh
# Starts a process for each task, as srun does, and says how it was called.
echo "srun $1 $2" >&2
while [ "${1#--}" != "$1" ]; do shift; done
for id in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$id SLURM_LOCALID=$((id % 2)) SLURM_STEP_ID=0 "$@" &
    pids="$pids $!"
done
status=0
for pid in $pids; do wait "$pid" || status=$?; done
exit $status
"""
SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames node[07-08],x" ] || exit 1
printf '%s\\n' node07 node08 x
"""


def programs(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def slurm(tmp_path, scontrol, **more):
    return environment(
        PATH=programs(tmp_path, srun=SRUN, scontrol=scontrol),
        SLURM_JOB_ID="77123",
        SLURM_JOB_NODELIST="node[07-08],x",
        SLURM_NTASKS="4",
        SLURM_NNODES="3",
        **more,
    )


def test_the_script_for_slurm_hands_every_rank_its_numbers_the_first_host_and_a_token(tmp_path):
    say = 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $WEIR_STORE $MASTER_ADDR:$MASTER_PORT $WEIR_ENGINE $WEIR_TOKEN $1"'
    done = run(["bash", LAUNCH / "job.sbatch", "sh", "-c", say, "sh", "an argument"], env=slurm(tmp_path, SCONTROL))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "srun --export=ALL --mpi=pmi2\n"
    ranks = sorted(line.split(" ", 7) for line in done.stdout.splitlines())
    assert [words[:3] for words in ranks] == [["0", "4", "0"], ["1", "4", "1"], ["2", "4", "0"], ["3", "4", "1"]]
    assert {tuple(words[3:6]) for words in ranks} == {("node07:29523", "node07:30523", "mpi")}
    assert len({words[6] for words in ranks}) == 1 and len(ranks[0][6]) == 32
    assert {words[7] for words in ranks} == {"an argument"}
    other = run(["bash", LAUNCH / "job.sbatch", "true"], env=slurm(tmp_path, SCONTROL, WEIR_SRUN_MPI="pmix"))
    assert other.stderr == "srun --export=ALL --mpi=pmix\n"


def test_ranks_that_slurm_starts_on_one_host_find_each_other(tmp_path):
    """srun alone: the file where they meet is named after the job and its step."""
    path = programs(tmp_path, srun=SRUN)
    names = dict(SLURM_JOB_ID="77124", SLURM_NTASKS="2", SLURM_NNODES="1", TMPDIR=str(tmp_path))
    done = run(["srun", "--ntasks=2", sys.executable, "-c", ONE], env=environment(PATH=path, **names))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 [3.0] None", "1 2 [3.0] None"]
    assert not list(tmp_path.glob("weir-*"))


def test_the_script_for_mpich_runs_ranks_of_the_mpich_that_is_there(tmp_path):
    hydra = os.environ.get("TEST_MPICH", "")
    if not os.access(hydra, os.X_OK):
        pytest.skip("no MPICH: TEST_MPICH names no mpiexec.hydra (scripts/mpi-env installs one)")
    folder = pathlib.Path(hydra).parent
    hosts = tmp_path / "hosts"
    hosts.write_text("# the machines\n\nlocalhost:2\n")
    more = dict(WEIR_PORT="29671", UCX_TLS="^sm", UCX_MEM_EVENTS="no", LD_LIBRARY_PATH=str(folder.parent / "lib"))
    done = run(
        [LAUNCH / "mpiexec.sh", hosts, "2", sys.executable, "-c", ONE],
        env=environment(PATH=f"{folder}:{os.environ['PATH']}", **more),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 [3.0] 2", "1 2 [3.0] 2"]
