"""Programs of torch.cuda with and without defects, under weir.check and under PyTorch's own CUDA sanitizer.

    python tests/python/_torch/gpu_check.py       needs an NVIDIA GPU; scripts/gpu-check races runs it

Prints what both find in each program. Exit status 1 if weir.check misses a defect, finds one where there
is none, or misses what the sanitizer finds.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

START = """
import torch
side = torch.cuda.Stream()
main = torch.cuda.current_stream()
x = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
"""

# name: (the kinds of findings that there are, the program)
PROGRAMS = {
    "a write races with a read of another stream": (["race"], """
with torch.cuda.stream(side):
    y = x * 2
x.add_(1)
"""),
    "the same, ordered by wait_stream": ([], """
side.wait_stream(main)
with torch.cuda.stream(side):
    y = x * 2
main.wait_stream(side)
x.add_(1)
"""),
    "the same, ordered by an event": ([], """
done = torch.cuda.Event()
with torch.cuda.stream(side):
    y = x * 2
    done.record()
done.wait(main)
x.add_(1)
"""),
    "the same, through views that begin elsewhere": (["race"], """
with torch.cuda.stream(side):
    y = x[1:] * 2
x[:-1].add_(1)
"""),
    "columns that share no byte": ([], """
m = x.view(1024, 1024)
with torch.cuda.stream(side):
    y = m[:, :512] * 2
m[:, 512:].add_(1)
"""),
    "memory freed while another stream reads it, and given away": (["reuse"], """
with torch.cuda.stream(side):
    y = x * 2
del x
z = torch.zeros(1 << 20, device="cuda")
"""),
    "the same with record_stream": ([], """
with torch.cuda.stream(side):
    y = x * 2
x.record_stream(side)
del x
z = torch.zeros(1 << 20, device="cuda")
"""),
    "a matrix product's input is freed too early, two lines": (["reuse", "race"], """
a = torch.rand(512, 512, device="cuda")
b = torch.rand(512, 512, device="cuda")
side.wait_stream(main)
with torch.cuda.stream(side):
    c = a @ b
del a
a = torch.rand(512, 512, device="cuda")
d = c + 1
"""),
    "a prefetcher that is right": ([], """
host = [torch.rand(1 << 16).pin_memory() for _ in range(4)]
total = torch.zeros(1 << 16, device="cuda")
nxt = None
for i in range(5):
    batch = nxt
    if batch is not None:
        main.wait_stream(side)
        batch.record_stream(main)
    if i < 4:
        with torch.cuda.stream(side):
            nxt = host[i].to("cuda", non_blocking=True)
    if batch is not None:
        total += batch
        del batch
torch.cuda.synchronize()
"""),
    "a prefetcher without its wait": (["race"], """
host = torch.rand(1 << 16).pin_memory()
total = torch.zeros(1 << 16, device="cuda")
with torch.cuda.stream(side):
    batch = host.to("cuda", non_blocking=True)
total += batch
"""),
    "autograd of a model on two streams, joined": ([], """
model = torch.nn.Linear(256, 256).cuda()
inputs = torch.rand(64, 256, device="cuda")
side.wait_stream(main)
with torch.cuda.stream(side):
    left = model(inputs)
right = model(inputs)
main.wait_stream(side)
(left + right).sum().backward()
"""),
}


def ours(path, folder):
    out = path.with_suffix(".json")
    run = subprocess.run([sys.executable, "-m", "weir.check", "--json", str(out), str(path)], cwd=folder,
                         capture_output=True, text=True, timeout=180)
    if not out.exists():
        raise RuntimeError(run.stderr[-2000:])
    return sorted({f["kind"] for f in json.loads(out.read_text())["findings"]}), run.stderr


def theirs(path, folder):
    run = subprocess.run([sys.executable, str(path)], cwd=folder, capture_output=True, text=True, timeout=180,
                         env={**os.environ, "TORCH_CUDA_SANITIZER": "1"})
    return "data race" in run.stderr, run.stderr


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(6) as pool:
        jobs = []
        for i, (name, (kinds, text)) in enumerate(PROGRAMS.items()):
            path = pathlib.Path(folder, f"program{i}.py")
            path.write_text(START + text)
            jobs.append((name, kinds, pool.submit(ours, path, folder), pool.submit(theirs, path, folder)))
        print(f"{'program':62} {'there is':12} {'weir.check':12} sanitizer")
        for name, kinds, found, by_torch in jobs:
            found, text = found.result()
            by_torch, torch_text = by_torch.result()
            bad = found != sorted(kinds) or (by_torch and not found)
            wrong += bad
            print(f"{name:62} {'+'.join(kinds) or '-':12} {'+'.join(found) or '-':12} "
                  f"{'race' if by_torch else '-'}{'   WRONG' if bad else ''}")
            if bad:
                print(text[-3000:], torch_text[-1500:], sep="\n")
    print(f"{len(PROGRAMS) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
