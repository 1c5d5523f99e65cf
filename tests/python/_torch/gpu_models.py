"""transformers' Qwen2-MoE with streams that the compiler chooses, several processes at once.

    gpu_models.py [--device cuda:0] [--processes 4] [--layers 4] [--seeds 3] [--hidden 2048]

Each process has a cold cache of its own, so that it tunes its products beside the others'. The model
with `auto_streams` must give what it gives on one stream, as near as eager does, call after call.
Run it under compute-sanitizer as well (`--processes 1`). Prints `N passed, N failed`.
"""

import argparse
import os
import subprocess
import sys
import tempfile


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--child", type=int)
    return parser.parse_args()


def model_of(torch, args, seed):
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    torch.manual_seed(seed)
    config = Qwen2MoeConfig(
        vocab_size=4096,
        hidden_size=args.hidden,
        intermediate_size=args.hidden,
        moe_intermediate_size=args.hidden // 2,
        shared_expert_intermediate_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=16,
        num_key_value_heads=16,
        num_experts=16,
        num_experts_per_tok=4,
        use_cache=False,
    )
    return Qwen2MoeForCausalLM(config).to(torch.bfloat16).eval()


def compiled(torch, weir, model, streams):
    config = weir.CompilerConfig()
    config.auto_streams = streams
    torch._dynamo.reset()
    return torch.compile(model, backend=weir.get_npu_backend(compiler_config=config), dynamic=False)


def difference(a, b):
    return (a.double() - b.double()).abs().max().item()


def child(args):
    """One process: every seed's model on one stream and on several, against eager. -> failures"""
    import torch

    import weir

    weir.set_device(weir.Device(args.device))
    where = "cuda" if args.device.startswith("cuda") else "cpu"
    failures = 0
    for seed in range(args.seeds):
        model = model_of(torch, args, 100 * args.child + seed).to(where)
        for tokens in ((8, 1), (1, 64)):
            ids = torch.randint(0, 4096, tokens, device=where)
            with torch.no_grad():
                eager = model(ids).logits
                near = difference(eager, eager.roll(1, 0)) if tokens[0] > 1 else 1.0
                one = compiled(torch, weir, model, False)(ids).logits
                many = compiled(torch, weir, model, True)
                got = [many(ids).logits.clone() for _ in range(5)]
            allowed = 2 * difference(one, eager) + 0.02 * near
            worst = max(difference(g, eager) for g in got)
            right = worst <= allowed and all(torch.isfinite(g).all() for g in got)
            failures += not right
            print(f"{'ok  ' if right else 'FAIL'} process {args.child} seed {seed} {tokens}: {worst:.3g} of {allowed:.3g}")
    return failures


def main():
    args = options()
    if args.child is not None:
        sys.exit(min(child(args), 100))
    children = []
    for i in range(args.processes):
        cache = tempfile.mkdtemp(prefix="weir-models-")
        children.append(
            subprocess.Popen([sys.executable, *sys.argv, "--child", str(i)], env={**os.environ, "WEIR_CACHE_DIR": cache})
        )
    failed = sum(c.wait() != 0 for c in children)
    print(f"{len(children) - failed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
