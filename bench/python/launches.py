"""The launches of compiled models on a GPU and the bytes they move: counted, not timed; no GPU is needed.

    launches.py [--size tiny|bench] [--layers N] [--phases prefill,decode] [--list] [--predict]
                [--json FILE] [--save FOLDER] [MODEL ...]

A model of gpu_models.py is traced on the host in virtual time, where nothing is computed, and its graph
is compiled for `cuda:0`: the real one, or the fake one of tests/cuda (found in build/release) where there
is none. Bytes are those of plan.launches(): each operand of a launch once, as if no cache kept it.
`--list` shows every launch, `--predict` what `npu:a3` and a model of an H200 are predicted to take on one
stream and on those that auto_streams finds. The trace is made on the host: on a GPU PyTorch may choose another
operator for attention, but weir maps both to the same one.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import warnings

ROOT = pathlib.Path(__file__).parents[2]


def _fake():
    """Makes the fake GPU the driver, where there is no other."""
    names = ("WEIR_LIBCUDA", "WEIR_LIBNVRTC", "WEIR_LIBCUBLASLT")
    fake = ROOT / "build/release/tests/libfake_cuda.so"
    if not any(name in os.environ for name in names) and fake.exists():
        os.environ.update(dict.fromkeys(names, str(fake)), WEIR_CACHE_DIR="/dev/null/cache")


def graphs_of(name, phase, args):
    """The graph files of one step."""
    import gpu_models
    import torch
    import weir
    from transformers import initialization

    weir.set_device("npu:a3,compute=off")
    torch._dynamo.reset()
    backend = weir.get_npu_backend()

    class Step(gpu_models.Step):
        PROMPT = 1  # what it says does not matter

        def _compiled(self, way):
            return torch.compile(self.model, dynamic=False, backend=backend)

    settings = argparse.Namespace(small=args.size == "tiny", layers=args.layers, device="cpu")
    torch.set_default_dtype(torch.bfloat16)  # no memory is touched for weights that nobody reads
    with torch.no_grad(), initialization.no_init_weights():
        Step(gpu_models.make(name, settings), phase, "weir", settings)()
    made = [m for g in backend.graphs for m in g.plans.values()]
    return [getattr(m, "plan", m).graph.dump() if not hasattr(m, "graph") else m.graph.dump() for m in made]


def launches_of(texts, device):
    """[plan.launches() of all graphs]"""
    import weir

    return [x for text in texts for x in weir.Graph.loads(text, device=device).compile().launches()]


def show(title, launches, args):
    read, written = (sum(x[k] for x in launches) for k in ("bytes_read", "bytes_written"))
    print(f"{title}: {len(launches)} launches of {sum(x['nodes'] for x in launches)} operators, "
          f"{read / 1e6:.1f} MB read, {written / 1e6:.1f} MB written", flush=True)  # fmt: skip
    kinds = collections.defaultdict(lambda: [0, 0, 0])
    for x in launches:
        kind = kinds[x["op"] if x["nodes"] == 1 else "(chain)"]
        kind[0] += 1
        kind[1] += x["bytes_read"]
        kind[2] += x["bytes_written"]
    for kind, (count, r, w) in sorted(kinds.items(), key=lambda x: -x[1][1] - x[1][2]):
        print(f"    {kind:16} {count:4d}  {r / 1e6:9.2f} MB read {w / 1e6:9.2f} MB written")
    if args.list:
        for x in launches:
            what = x["op"] if x["nodes"] == 1 else f"{x['op']} and {x['nodes'] - 1} more"
            print(f"        {x['bytes_read'] / 1e3:10.1f} kB {x['bytes_written'] / 1e3:10.1f} kB  {what}  {x['name']}")


def _placed(text, spec, folder):
    """The graph with the streams that the compiler finds for it there."""
    import weir

    for old in pathlib.Path(folder).glob("*.pbtxt"):
        old.unlink()
    weir.Graph.loads(text, device=weir.Device(spec)).compile(streams="auto", dump_dir=folder)
    return max(pathlib.Path(folder).glob("*.pbtxt")).read_text()


def _predicted(text, spec, folder):
    """(microseconds, streams) as `weir run` says."""
    path = pathlib.Path(folder) / "graph.txt"
    path.write_text(text)
    weir = os.environ.get("WEIR_CLI", str(ROOT / "build/release/weir"))
    done = subprocess.run([weir, "run", str(path), "--device", spec, "--json"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    said = json.loads(done.stdout)
    return said["makespan_us"], len(said["streams"])


def predict(texts):
    """Predicted microseconds on one stream and on those that are found."""
    for spec in ("npu:a3", "npu:h200"):
        one = many = 0.0
        with tempfile.TemporaryDirectory() as folder:
            for text in texts:
                one += _predicted(text, spec, folder)[0]
                us, streams = _predicted(_placed(text, f"{spec},compute=off", folder), spec, folder)
                many += us
        print(f"    predicted on {spec}: one stream {one:.1f} us, {streams} stream(s) {many:.1f} us, "
              f"gain {one / many:.3f}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="tiny", choices=["tiny", "bench"])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--phases", default="prefill,decode", type=lambda s: s.split(","))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--save", metavar="FOLDER", help="where the graphs are kept, for `weir run`")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    _fake()
    import gpu_models
    import weir

    device, counted = weir.Device("cuda:0"), {}
    for name in args.models or gpu_models.MODELS:
        for phase in args.phases:
            texts = graphs_of(name, phase, args)
            launches = launches_of(texts, device)
            counted[f"{name} {phase}"] = launches
            show(f"{name} {phase} ({args.size}, {args.layers} layers)", launches, args)
            if args.predict:
                predict(texts)
            for i, text in enumerate(texts if args.save else ()):
                os.makedirs(args.save, exist_ok=True)
                (pathlib.Path(args.save) / f"{name}-{phase}-{i}.pbtxt").write_text(text)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(counted, file)


if __name__ == "__main__":
    main()
