"""Automatic streams of whole models on a modelled NPU: predicted, so that what they gain cannot shrink unseen."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("transformers")
ROOT = pathlib.Path(__file__).parents[2]

# What one stream takes, of what is found, at least: four layers at the sizes of the benchmark.
LEAST = {
    "llama prefill": 1.03,
    "llama decode": 1.08,
    "qwen2-moe prefill": 1.15,
    "qwen2-moe decode": 1.2,
    "deepseek-v3 prefill": 1.09,
    "deepseek-v3 decode": 1.2,
    "gpt2 prefill": 1.0,
    "gpt2 decode": 1.05,
}


def test_found_streams_are_as_good_as_streams_by_hand(tmp_path):
    out = tmp_path / "streams.json"
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/python/npu_streams.py"), "--phases", "prefill,decode", "--json", str(out)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert set(rows) == set(LEAST)
    assert not {name: row for name, row in rows.items() if row["found"] > min(row["one"], row["hand"])}
    assert not {name: row for name, row in rows.items() if row["one"] < LEAST[name] * row["found"]}
    assert rows["qwen2-moe prefill"]["limits"]  # core limits are chosen, too
