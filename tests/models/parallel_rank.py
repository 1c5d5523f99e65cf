"""One rank of tests/models/test_parallel.py: parallel_rank.py RANK RANKS FILE."""

import copy
import datetime
import faulthandler
import sys

import torch
import transformers
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, parallel

import weir
import weir.distributed  # registers the backend

CONFIG = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8,
              num_key_value_heads=4, max_position_embeddings=64, tie_word_embeddings=False, use_cache=False)  # fmt: skip


def cut(net, mesh):
    """As PyTorch's page on tensor parallelism cuts Llama: projections by columns, then by rows."""
    column, row = parallel.ColwiseParallel(), parallel.RowwiseParallel()
    for layer in net.model.layers:
        names = {f"self_attn.{name}_proj": column for name in "qkv"} | {"self_attn.o_proj": row}
        names |= {"mlp.gate_proj": column, "mlp.up_proj": column, "mlp.down_proj": row}
        parallel.parallelize_module(layer, mesh, names)
    return parallel.parallelize_module(net, mesh, {
        "model.embed_tokens": parallel.RowwiseParallel(input_layouts=Replicate()),
        "lm_head": parallel.ColwiseParallel(output_layouts=Replicate()),
    })  # fmt: skip


def trained(net, tokens):
    """The loss of each of some steps."""
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=0.01), []
    for _ in range(5):
        loss = net(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def main(rank, ranks, path):
    faulthandler.dump_traceback_later(500, exit=True)  # a hang says where
    torch.set_num_threads(1)
    dist.init_process_group("weir", init_method=f"file://{path}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=240))  # fmt: skip
    torch.manual_seed(0)
    whole = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG)).eval()
    tokens = torch.randint(0, 64, (2, 9))
    mesh = init_device_mesh("cpu", (ranks,))
    net = cut(copy.deepcopy(whole), mesh)
    rows = net.model.layers[0].self_attn.k_proj.weight.to_local().shape[0]
    assert rows == 4 // ranks * 8, rows  # heads of keys are the rank's own
    close = dict(rtol=1e-4, atol=1e-5)
    backend = weir.get_npu_backend()
    with torch.no_grad():
        for part in (tokens, tokens[:, :5], tokens[:1]):
            want = whole(part).logits
            assert want.std() > 0.1, want.std()
            torch.testing.assert_close(net(part).logits, want, **close)
        run = torch.compile(net, backend=backend)
        torch.testing.assert_close(run(tokens).logits, whole(tokens).logits, **close)
    native = backend.coverage.native
    assert native["_c10d_functional.all_reduce.default"] >= 5, native  # two of a layer, and the embedding's
    assert native["_c10d_functional.all_gather_into_tensor.default"] >= 1, native
    assert not any("c10d" in name for name in backend.coverage.fallback), backend.coverage.fallback
    losses = trained(whole, tokens)
    assert losses[-1] < losses[0] - 0.01, losses  # it learns
    torch.testing.assert_close(trained(net, tokens), losses, rtol=1e-4, atol=1e-4)
    dist.barrier()
    dist.destroy_process_group()


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
