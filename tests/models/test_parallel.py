"""Llama of transformers, random weights, rotary embeddings and grouped heads, cut over ranks by `parallelize_module`:
logits, eager and compiled, and losses of training are those of one rank."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("transformers")
RANK = pathlib.Path(__file__).with_name("parallel_rank.py")


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_llama_cut_over_ranks_gives_what_one_rank_gives(ranks, tmp_path):
    said = [tmp_path / f"rank{rank}.txt" for rank in range(ranks)]
    processes = []
    for rank, path in enumerate(said):
        with path.open("w") as out:
            command = [sys.executable, str(RANK), str(rank), str(ranks), str(tmp_path / "store")]
            processes.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
    try:
        states = [process.wait(560) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert states == [0] * ranks, "\n".join(f"---- rank {rank}:\n{path.read_text()}" for rank, path in enumerate(said))
