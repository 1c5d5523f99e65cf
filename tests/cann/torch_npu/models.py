"""Small random models of transformers on the NPU and on the CPU: the same logits, the same tokens, the
same weights after two training steps."""
import sys

import torch
import torch_npu  # noqa: F401
from transformers import (LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM,
                          Qwen2MoeConfig, Qwen2MoeForCausalLM)

SIZES = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "mixtral": lambda: MixtralForCausalLM(
        MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": lambda: Qwen2MoeForCausalLM(
        Qwen2MoeConfig(**SIZES, moe_intermediate_size=48, shared_expert_intermediate_size=96,
                       num_experts=4, num_experts_per_tok=2)),
}


def forward(model, ids):
    with torch.no_grad():
        return model(ids).logits.cpu()


def generate(model, ids):
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12,
                          do_sample=False, pad_token_id=0).cpu()


def train(model, ids):
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        optimiser.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses), [p.detach().cpu() for p in model.parameters()]


for name in sys.argv[1:] or MODELS:
    for task in (forward, generate, train):
        results = []
        for device in ("cpu", "npu"):
            torch.manual_seed(3)
            model = MODELS[name]().eval().to(device)
            results.append(task(model, torch.randint(0, 128, (2, 9)).to(device)))
        want, got = results
        torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-4,
                                   msg=lambda m: f"{name} {task.__name__}: {m}")
        print(name, task.__name__)
print("fine")
