"""Models of transformers and diffusers through torch.compile with weir, against eager PyTorch."""

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("diffusers")
import zoo  # noqa: E402

import weir  # noqa: E402

@pytest.fixture(autouse=True, params=["cpu", "npu:a3"])
def device(request):
    torch._dynamo.reset()
    before = weir.get_device()
    weir.set_device(request.param)
    yield request.param
    weir.set_device(before)


def _share(backend):
    native, rest = backend.coverage.native.total(), backend.coverage.fallback.total()
    return native / (native + rest)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_values_are_eagers_and_operators_are_weirs(name):
    module, inputs = zoo.make(name)
    backend = weir.get_npu_backend()
    with torch.no_grad():
        want = zoo.result(module(**inputs))
        got = zoo.result(torch.compile(module, backend=backend)(**inputs))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert not backend.coverage.fallback


def _generate(run, module, cache, count):
    ids = torch.arange(6)[None] % 97
    tokens = []
    with torch.no_grad():
        out = run(input_ids=ids, past_key_values=cache, use_cache=True)
        for _ in range(count):
            token = out.logits[:, -1:].argmax(-1)
            tokens.append(int(token))
            out = run(input_ids=token, past_key_values=cache, use_cache=True)
    return tokens


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["llama", "qwen2-moe", "mixtral", "deepseek-v3", "gpt2"])
def test_generated_tokens_are_eagers(name, kind):
    from transformers import DynamicCache, StaticCache

    count = 200
    module, _ = zoo.make(name)

    def cache():
        if kind == "dynamic":
            return DynamicCache(config=module.config)
        return StaticCache(config=module.config, max_cache_len=count + 8)

    backend = weir.get_npu_backend()
    run = torch.compile(module, backend=backend, dynamic=kind == "dynamic")
    assert _generate(run, module, cache(), count) == _generate(module, module, cache(), count)


@pytest.mark.parametrize(
    "name", ["llama", "gpt2", "bert", "vit", "whisper-encoder", "resnet-18", "unet"]
)
def test_a_training_step_has_eagers_gradients_and_weirs_operators(name):
    def gradients(run, module):
        module.zero_grad(set_to_none=True)
        zoo.result(run(**inputs)).square().mean().backward()
        return {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}

    module, inputs = zoo.make(name)
    want = gradients(module, module)
    backend = weir.get_npu_backend()
    got = gradients(torch.compile(module, backend=backend), module)
    # What a result that nobody uses is made of has no gradient eagerly, and zeros compiled.
    assert got.keys() >= want.keys()
    assert not any(got[name].any() for name in got.keys() - want.keys())
    for parameter, gradient in want.items():
        torch.testing.assert_close(got[parameter], gradient, rtol=1e-3, atol=1e-6)
    assert _share(backend) >= 0.9, backend.coverage


@pytest.mark.parametrize("name", ["qwen2-moe", "mixtral", "deepseek-v2", "deepseek-v3"])
def test_a_training_step_of_experts_is_compiled_whole(name):
    """In bfloat16: in float32 transformers reads the groups' ends on the host in the backward pass,
    so that PyTorch leaves the experts out of what it compiles."""
    module, inputs = zoo.make(name)
    backend = weir.get_npu_backend()
    run = torch.compile(module.bfloat16(), backend=backend)
    zoo.result(run(**inputs)).float().square().mean().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())
    assert len(backend.graphs) == 2 and _share(backend) >= 0.9, backend.coverage
