"""How many kernels models launch on a GPU: counted on the fake one, so that it cannot grow unseen."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("transformers")
ROOT = pathlib.Path(__file__).parents[2]
FAKE = ROOT / "build/release/tests/libfake_cuda.so"

# Two layers of bench/python/gpu_models.py's models at small sizes. Of DeepSeek-V3's the first is dense.
MOST = {
    "llama prefill": 35,
    "llama decode": 39,
    "qwen2-moe prefill": 57,
    "qwen2-moe decode": 61,
    "deepseek-v3 prefill": 55,
    "deepseek-v3 decode": 60,
    "gpt2 prefill": 22,
    "gpt2 decode": 26,
}


@pytest.mark.skipif(not FAKE.exists(), reason="the fake GPU is not built here")
def test_models_launch_no_more_than_they_did(tmp_path):
    out = tmp_path / "launches.json"
    names = sorted({name.split()[0] for name in MOST})
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/python/launches.py"), "--layers", "2", "--json", str(out), *names],
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counted = {name: len(launches) for name, launches in json.loads(out.read_text()).items()}
    assert set(counted) == set(MOST)
    grown = {name: (n, MOST[name]) for name, n in counted.items() if n > MOST[name]}
    assert not grown, f"launches and what they may be: {grown}"
