"""Collectives between processes against NumPy, by every engine that there is."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

RANK = pathlib.Path(__file__).with_name("collectives_rank.py")
RANKS_OF_MPI = "4" if "WEIR_SOAK" in os.environ else "3"
BUILDS = pathlib.Path(__file__).parents[2] / "build"


def run(launcher, *words, **environment):
    done = subprocess.run(
        [*launcher, sys.executable, str(RANK), *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def weir_launch(ranks):
    return [sys.executable, "-m", "weir", "launch", "-n", str(ranks)]


def fake(name):
    """A library of the build's tests."""
    found = [path for path in (BUILDS / build / "tests" / name for build in ("release", "rel")) if path.exists()]
    if not found:
        pytest.skip(f"{name} is not built")
    return str(found[0])


def fake_gpu():
    cuda = fake("libfake_cuda.so")
    return {"WEIR_LIBCUDA": cuda, "WEIR_LIBNVRTC": cuda, "WEIR_LIBCUBLASLT": cuda, "WEIR_CACHE_DIR": "/dev/null/none"}


TYPES = "float32,float16,bfloat16,float64,int64,int32,int8,uint8"
# Each MPI has half of them.
TYPES_OF_OPEN_MPI = TYPES if "WEIR_SOAK" in os.environ else "float32,float16,int64,int8"
TYPES_OF_MPICH = TYPES if "WEIR_SOAK" in os.environ else "bfloat16,float64,int32,uint8"


def test_shared_memory(tmp_path):
    run(weir_launch(3), "cpu:cores=2", TYPES, tmp_path, WEIR_ENGINE="shm")


@pytest.mark.skipif("WEIR_SOAK" not in os.environ, reason="minutes; WEIR_SOAK=1 runs it")
@pytest.mark.parametrize("ranks, types", [(4, TYPES), (8, "float32,bfloat16,int8")])
def test_shared_memory_of_more_ranks(ranks, types, tmp_path):
    run(weir_launch(ranks), "cpu:cores=2", types, tmp_path, WEIR_ENGINE="shm")


def test_shared_memory_of_gpus():
    run(weir_launch(2), "cuda:0", "float32,bfloat16", WEIR_ENGINE="shm", **fake_gpu())


def test_nccl():
    nccl = fake("libfake_nccl.so")
    run(weir_launch(2), "cuda:0", "float32,int64,int8", WEIR_ENGINE="nccl", WEIR_LIBNCCL=nccl, **fake_gpu())


def test_open_mpi(tmp_path):
    launcher = os.environ.get("TEST_OPEN_MPI") or shutil.which("mpirun.openmpi")
    if not launcher:
        pytest.skip("mpirun.openmpi is not in PATH, and TEST_OPEN_MPI does not name it")
    command = [launcher, "--allow-run-as-root", "--oversubscribe", "-n", RANKS_OF_MPI]
    run(command, "cpu:cores=2", TYPES_OF_OPEN_MPI, tmp_path, WEIR_ENGINE="mpi", TMPDIR=str(tmp_path))


def test_the_file_for_open_mpi_and_several_machines(tmp_path):
    launcher = shutil.which("mpirun.openmpi")
    if not launcher:
        pytest.skip("mpirun.openmpi is not in PATH")
    (tmp_path / "mpirun").symlink_to(launcher)
    (tmp_path / "hosts").write_text("# the machines\nlocalhost slots=2\n")
    script = BUILDS.parent / "examples" / "launch" / "mpirun.sh"
    environment = {f"OMPI_ALLOW_RUN_AS_ROOT{more}": "1" for more in ("", "_CONFIRM")}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    run([script, tmp_path / "hosts", "2"], "cpu:cores=2", "float32", WEIR_ENGINE="mpi", WEIR_PORT=port, **environment)


def test_mpich(tmp_path):
    launcher = os.environ.get("TEST_MPICH") or shutil.which("mpiexec.hydra")
    if not launcher:
        pytest.skip("mpiexec.hydra is not in PATH, and TEST_MPICH does not name it")
    library = pathlib.Path(launcher).parent.parent / "lib" / "libmpi_abi.so.1"
    found = {"WEIR_MPI": str(library)} if library.exists() else {}
    run([launcher, "-n", RANKS_OF_MPI], "cpu:cores=2", TYPES_OF_MPICH, tmp_path, WEIR_ENGINE="mpi", **found)
