"""generate() of transformers: random small decoders, ways of decoding, caches and paddings give eager's tokens.
WEIR_TEST_PROGRAMS is how many are tried."""

import copy
import os
import random

import pytest
import torch

transformers = pytest.importorskip("transformers")

import weir  # noqa: E402

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 4))
SPECIAL = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, vocab_size=61)
WAYS = ("greedy", "sample", "beams", "sampled beams", "several", "assisted", "looked up", "penalties", "continued")


def small(pick, **more):
    return dict(SPECIAL, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=pick.choice((4, 2, 1)), max_position_embeddings=64, **more)  # fmt: skip


def window(pick, *sizes):
    return {"sliding_window": pick.choice(sizes)}


CONFIGS = {
    "Llama": lambda p: small(p),
    "Qwen2": lambda p: small(p, use_sliding_window=True, max_window_layers=p.choice((0, 1, 2)), **window(p, 3, 6)),
    "Qwen3": lambda p: small(p),
    "Mistral": lambda p: small(p, **window(p, None, 3, 5)),
    "Mixtral": lambda p: small(p, num_local_experts=4, num_experts_per_tok=2, **window(p, None, 4)),
    "Gemma2": lambda p: small(p, query_pre_attn_scalar=8, **window(p, 3, 5)),
    "Gemma3Text": lambda p: small(p, query_pre_attn_scalar=8, **window(p, 3, 5)),
    "GPT2": lambda p: dict(SPECIAL, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "Bloom": lambda p: dict(SPECIAL, hidden_size=32, n_layer=2, n_head=4),
    "Falcon": lambda p: dict(SPECIAL, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                             alibi=p.random() < 0.5, multi_query=p.random() < 0.5),
}  # fmt: skip


def make(kind, pick, attention):
    config = getattr(transformers, f"{kind}Config")(**CONFIGS[kind](pick))
    try:
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    except ValueError:  # it has no attention of that kind
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():  # logits that are far apart
        for weight in model.parameters():
            weight.mul_(5 if weight.ndim > 1 else 1)
    return model


class Case:
    def __init__(self, seed):
        pick = random.Random(seed)
        self.seed, self.kind, self.way = seed, pick.choice(list(CONFIGS)), pick.choice(WAYS)
        self.dynamic = pick.choice((None, True))
        torch.manual_seed(seed)
        self.model = make(self.kind, pick, pick.choice(("sdpa", "eager")))
        self.helper = make(self.kind, pick, "sdpa") if self.way == "assisted" else None
        batch = 1 if self.way in ("assisted", "looked up") else pick.choice((1, 2, 3))
        self.prompt = pick.randint(1, 9)
        self.ids = torch.randint(3, 61, (batch, self.prompt))
        self.mask = torch.ones_like(self.ids)
        for row in range(1, batch):  # padded on the left
            padding = pick.randint(0, self.prompt - 1)
            self.ids[row, :padding] = self.mask[row, :padding] = 0
        self.options = dict(max_new_tokens=pick.randint(3, 12), return_dict_in_generate=True, output_logits=True)
        self.options |= {
            "sample": dict(do_sample=True, top_k=pick.choice((0, 5)), temperature=pick.choice((0.7, 2.0))),
            "beams": dict(num_beams=3, num_return_sequences=2, early_stopping=pick.random() < 0.5),
            "sampled beams": dict(num_beams=2, do_sample=True),
            "several": dict(do_sample=True, num_return_sequences=3),
            "looked up": dict(prompt_lookup_num_tokens=3),
            "penalties": dict(repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=3),
        }.get(self.way, {})
        if self.way not in ("assisted", "looked up", "continued"):
            self.options["cache_implementation"] = pick.choice((None, "static", "dynamic"))

    def run(self):
        torch.manual_seed(self.seed)
        more = {"assistant_model": self.helper} if self.helper else {}
        with torch.no_grad():
            made = [self.model.generate(self.ids.clone(), attention_mask=self.mask, **self.options, **more)]
            for extra in (1, 2) if self.way == "continued" else ():
                ids = torch.cat((made[0].sequences, torch.full((len(self.ids), extra), 7)), 1)
                mask = torch.cat((self.mask, torch.ones_like(ids[:, self.prompt :])), 1)
                cache = copy.deepcopy(made[0].past_key_values)
                options = {**self.options, "max_new_tokens": 4, "past_key_values": cache}
                made.append(self.model.generate(ids, attention_mask=mask, **options))
        return made


@pytest.mark.parametrize("seed", range(COUNT))
def test_generated_tokens_and_logits_are_eagers(seed):
    torch._dynamo.reset()
    case = Case(seed)
    want, backend = case.run(), weir.get_npu_backend()
    for model in filter(None, (case.model, case.helper)):
        model.forward = torch.compile(model.forward, backend=backend, dynamic=case.dynamic)
    for got, expected in zip(case.run(), want, strict=True):
        assert torch.equal(got.sequences, expected.sequences)
        torch.testing.assert_close(got.logits, expected.logits, rtol=2e-3, atol=2e-3)
