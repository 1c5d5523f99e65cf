"""Builds llama.cpp with its CANN backend on weir and runs it; started by scripts/upstream-check.

    llama.py [--build FOLDER] [--only OPERATOR] [--json FILE] [--timeout S] CHECKOUT

First `test-backend-ops -b CANN0`, an operator at a time: each case compares CANN0 with llama.cpp's
CPU backend. Then tiny models of random weights, written with the checkout's gguf package, decode
greedily on both backends: the text must be the same. llama.txt beside this file has the cases that
cannot pass, with the reasons; a case that passes and is in it is an error too.
"""

import argparse
import collections
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
CANN = ROOT / "build" / "release" / "cann" / "latest"
CASE = re.compile(r"^(?:.*?\]\s.*?)?\s*([A-Z0-9_]+\(.*?\)): .*?(OK|FAIL|not supported)", re.M)
PLAIN = re.compile(r"\x1b\[[0-9;]*m")


def read_list(path):
    """[(operator, pattern of its cases, reason)]"""
    rows = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            case, _, reason = line.partition(": ")
            operator, _, pattern = case.partition("(")
            rows.append((operator, re.compile(pattern or "."), reason.strip()))
    return rows


def build(checkout, folder):
    settings = ["CMAKE_BUILD_TYPE=Release", "GGML_CANN=ON", "SOC_TYPE=Ascend910B1",
                f"CANN_INSTALL_DIR={CANN}", "GGML_OPENMP=OFF", "LLAMA_CURL=OFF",
                "LLAMA_OPENSSL=OFF", "LLAMA_BUILD_TESTS=ON", "LLAMA_BUILD_EXAMPLES=ON",
                "LLAMA_BUILD_TOOLS=OFF", "LLAMA_BUILD_SERVER=OFF"]  # fmt: skip
    steps = (["cmake", "-S", checkout, "-B", folder, *(f"-D{s}" for s in settings)],
             ["cmake", "--build", folder, "--parallel", str(os.cpu_count()), "--target", "test-backend-ops", "llama-simple"])  # fmt: skip
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"llama.cpp cannot be built:\n{(done.stdout + done.stderr)[-3000:]}")


def run(command, timeout):
    """(exit status, output, what went wrong)"""
    libraries = f"{CANN / 'lib64'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    env = dict(os.environ, LD_LIBRARY_PATH=libraries, WEIR_CANN_DEVICES="1")
    try:
        done = subprocess.run(command, env=env, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return 124, "", f"did not end within {timeout:g} s"
    return done.returncode, PLAIN.sub("", done.stdout.decode(errors="replace")), done.stderr.decode(
        errors="replace"
    )


# ---- operators ----


def supported(program, timeout):
    """{operator: number of cases that the backend supports}"""
    status, out, why = run([program, "support", "-b", "CANN0", "--output", "csv"], timeout)
    if status:
        sys.exit(f"test-backend-ops cannot be run: {why[-2000:]}")
    rows = csv.DictReader(io.StringIO(out[out.index('"backend_name"') :]))
    return collections.Counter(row["op_name"] for row in rows if row["supported"] == "1")


def operators(program, only, timeout):
    """(operator, case, status, reason)"""
    expected = read_list(pathlib.Path(__file__).with_name("llama.txt"))
    for name, count in sorted(supported(program, timeout).items()):
        if only and only != name:
            continue
        # An error aborts the program: what is known to fail is left out of the first run.
        rows = [row for row in expected if row[0] == name]
        command = [program, "test", "-b", "CANN0", "-o", name]
        if rows:
            # std::regex knows ECMAScript's negative look-ahead
            left_out = "|".join(f".*(?:{row[1].pattern})" for row in rows)
            command += ["-p", f"^(?!(?:{left_out})).*"]
        status, out, err = run(command, timeout)
        found = {c: s for c, s in CASE.findall(out) if s != "not supported"}
        for case, result in found.items():
            yield name, case, "passed" if result == "OK" else "failed", ""
        if status and "FAIL" not in found.values():
            why = re.search(r"EZ\d+: .*", out + err)
            yield name, f"{name} (all)", "failed", why[0] if why else err.strip()[-200:]
        if len(found) < count and rows:
            reason = "; ".join(row[2] for row in rows)
            for number in range(count - len(found)):
                yield name, f"{name} #{number}", "skipped", reason


# ---- a model ----


def write_model(checkout, path, kind):
    """A llama of two layers with random weights and a vocabulary of bytes."""
    if str(checkout / "gguf-py") not in sys.path:
        sys.path.insert(0, str(checkout / "gguf-py"))
    import gguf
    import numpy

    width, heads, shared, hidden, layers = 64, 4, 2, 128, 2
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % i for i in range(256))]
    random = numpy.random.default_rng(5)
    file = gguf.GGUFWriter(str(path), "llama")
    file.add_context_length(256)
    file.add_embedding_length(width)
    file.add_block_count(layers)
    file.add_feed_forward_length(hidden)
    file.add_head_count(heads)
    file.add_head_count_kv(shared)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(width // heads)
    file.add_vocab_size(len(tokens))
    file.add_tokenizer_model("llama")
    file.add_token_list(tokens)
    file.add_token_scores([0.0] * len(tokens))
    file.add_token_types([2, 3, 3, *[6] * 256])  # unknown, control, bytes
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)

    def weight(name, *shape):
        values = random.normal(0, 2 / shape[-1] ** 0.5, shape).astype(numpy.float32)
        file.add_tensor(name, values.astype(kind))

    def ones(name, n):
        file.add_tensor(name, numpy.ones(n, numpy.float32))

    embedding = random.normal(0, 1, (len(tokens), width)).astype(numpy.float32)
    file.add_tensor("token_embd.weight", embedding)
    ones("output_norm.weight", width)
    weight("output.weight", len(tokens), width)
    for i in range(layers):
        ones(f"blk.{i}.attn_norm.weight", width)
        ones(f"blk.{i}.ffn_norm.weight", width)
        weight(f"blk.{i}.attn_q.weight", width, width)
        weight(f"blk.{i}.attn_k.weight", width * shared // heads, width)
        weight(f"blk.{i}.attn_v.weight", width * shared // heads, width)
        weight(f"blk.{i}.attn_output.weight", width, width)
        weight(f"blk.{i}.ffn_gate.weight", hidden, width)
        weight(f"blk.{i}.ffn_up.weight", hidden, width)
        weight(f"blk.{i}.ffn_down.weight", width, hidden)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def models(checkout, program, timeout):
    # Quantised weights are left out: on CANN0 they are multiplied in halves, on the CPU in bytes.
    for kind in ("float32", "float16"):
        with tempfile.TemporaryDirectory(prefix="weir-llama-") as folder:
            model = pathlib.Path(folder) / "tiny.gguf"
            try:
                write_model(checkout, model, kind)
            except ImportError as error:
                yield "model", kind, "skipped", f"gguf wants numpy, pyyaml, tqdm, requests: {error}"
                continue
            text = []
            for layers in ("0", "99"):  # on CANN0: none, all
                status, out, err = run(
                    [program, "-m", model, "-n", "32", "-ngl", layers, "To be or not"], timeout
                )
                if status:
                    yield "model", kind, "failed", f"exit {status}: {err.strip()[-300:]}"
                    break
                if layers == "99" and "CANN0" not in err:
                    yield "model", kind, "failed", "nothing ran on CANN0"
                    break
                text.append(out)
            else:
                same = text[0] == text[1] and len(text[0]) > 16
                why = "" if same else f"{text[0]!r} on the CPU, {text[1]!r} on CANN0"
                yield "model", kind, "passed" if same else "failed", why


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "upstream-llama")
    parser.add_argument("--only", metavar="OPERATOR", help="an operator of ggml, or `model`")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--timeout", type=float, default=1800, metavar="S", help="per operator")
    parser.add_argument("checkout", type=pathlib.Path)
    args = parser.parse_args()
    checkout = args.checkout.resolve()
    if not (CANN / "include" / "aclnnop" / "aclnn_add.h").exists():
        sys.exit("skipped: scripts/build release first")
    build(checkout, args.build)
    found, wrong = [], 0
    programs = args.build / "bin"
    for case in (
        *models(checkout, programs / "llama-simple", args.timeout),
        *(() if args.only == "model" else operators(
            programs / "test-backend-ops", args.only, args.timeout)),
    ):  # fmt: skip
        found.append(case)
        if case[2] == "failed":
            wrong += 1
            print(f"  failed: {case[1]}: {case[3]}", flush=True)
    counts = collections.defaultdict(collections.Counter)
    for name, _, status, _ in found:
        counts[name][status] += 1
    print(f"  {'':20}  passed  failed  skipped")
    for name, count in [*counts.items(), ("all", sum(counts.values(), collections.Counter()))]:
        print(f"  {name:20}  {count['passed']:6}  {count['failed']:6}  {count['skipped']:7}")
    for (name, why), count in collections.Counter(
        (c[0], c[3]) for c in found if c[2] == "skipped"
    ).items():
        print(f"  {count:6} of {name} left out: {why}")
    if args.json:
        keys = ("part", "case", "status", "reason")
        text = json.dumps([dict(zip(keys, case)) for case in found], indent=1)
        pathlib.Path(args.json).write_text(text)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
