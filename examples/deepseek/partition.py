#!/usr/bin/env python3
"""The CloudMatrix384 partition: attention on 16 cube + 32 vector cores beside experts on 8 + 16,
about 600 us a layer each (arXiv 2506.12708). Says what the model gives for the decode step and
fails if either is off by more than a fifth.

    ./partition.py path/to/weir
"""
import json
import os
import subprocess
import sys
import tempfile

PUBLISHED, TOLERANCE, DIES, LAYERS = 600, 0.2, 320, 61


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.NamedTemporaryFile("w", suffix=".pbtxt") as step:
        subprocess.run([sys.executable, os.path.join(here, "decode.py"), "--dies", str(DIES), "--layers", str(LAYERS),
                        "--placement", "microbatch"], stdout=step, check=True)
        out = subprocess.run([sys.argv[1], "run", step.name, "--ranks", str(DIES), "--device", "npu:a3,compute=off",
                              "--json"], stdout=subprocess.PIPE, check=True).stdout
    bad = 0
    for stream in json.loads(out)["streams"][:2]:
        us = stream["busy_us"] / LAYERS
        off = us / PUBLISHED - 1
        bad |= abs(off) > TOLERANCE
        print(f"{stream['name']:10} {us:6.0f} us a layer, published about {PUBLISHED}: {100 * off:+.0f} %")
    return bad


if __name__ == "__main__":
    sys.exit(main())
