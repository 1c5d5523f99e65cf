"""Models of transformers and diffusers through torch.compile with weir, against eager PyTorch."""

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("diffusers")
import zoo  # noqa: E402

import weir  # noqa: E402


def _why_not(spec):
    """Why there are no tests on that device here; None if there are."""
    if not spec.startswith("cuda"):
        return None
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU here"
    try:
        weir.Device(spec).close()
    except weir.Error as error:
        return str(error)
    return None


@pytest.fixture(autouse=True, params=["cpu", "npu:a3", "cuda:0"])
def device(request):
    if reason := _why_not(request.param):
        pytest.skip(reason)
    torch._dynamo.reset()
    before = weir.get_device()
    weir.set_device(request.param)
    yield request.param
    weir.set_device(before)


def _moved(x):
    """A tensor or module where the device has its memory."""
    return x.to("cuda:0" if weir.get_device().name.startswith("cuda") else "cpu")


def _make(name):
    module, inputs = zoo.make(name)
    return _moved(module), {key: _moved(value) for key, value in inputs.items()}


def _share(backend):
    native, rest = backend.coverage.native.total(), backend.coverage.fallback.total()
    return native / (native + rest)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_values_are_eagers_and_operators_are_weirs(name, device):
    module, inputs = _make(name)
    backend = weir.get_npu_backend()
    with torch.no_grad():
        want = zoo.result(module(**inputs))
        got = zoo.result(torch.compile(module, backend=backend)(**inputs))
    # On a GPU eager's products of f32 may use other units than weir's.
    near = dict(rtol=1e-3, atol=1e-4) if device.startswith("cuda") else dict(rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got, want, **near)
    assert not backend.coverage.fallback or (device.startswith("cuda") and _share(backend) >= 0.9)


def _distance(a, b):
    return (a.double() - b.double()).norm().item()


@pytest.mark.parametrize("name", ["llama", "qwen2-moe", "gpt2", "vit"])
def test_values_in_bfloat16_are_as_near_to_those_in_float32_as_eagers(name):
    module, inputs = _make(name)
    with torch.no_grad():
        exact = zoo.result(module(**inputs))
        module = module.bfloat16()
        inputs = {k: x.bfloat16() if x.is_floating_point() else x for k, x in inputs.items()}
        eager = zoo.result(module(**inputs))
        got = zoo.result(torch.compile(module, backend=weir.get_npu_backend())(**inputs))
    assert got.dtype == torch.bfloat16
    assert _distance(got, exact) <= 1.5 * _distance(eager, exact) + 1e-3 * exact.double().norm().item()


def _generate(run, module, cache, count):
    ids = _moved(torch.arange(6)[None] % 97)
    tokens = []
    with torch.no_grad():
        out = run(input_ids=ids, past_key_values=cache, use_cache=True)
        for _ in range(count):
            token = out.logits[:, -1:].argmax(-1)
            tokens.append(int(token))
            out = run(input_ids=token, past_key_values=cache, use_cache=True)
    return tokens


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize(
    "name", ["llama", "qwen2-moe", "mixtral", "deepseek-v2", "deepseek-v3", "gpt2"]
)
def test_generated_tokens_are_eagers(name, kind):
    from transformers import DynamicCache, StaticCache

    count = 200
    module, _ = _make(name)

    def cache():
        if kind == "dynamic":
            return DynamicCache(config=module.config)
        return StaticCache(config=module.config, max_cache_len=count + 8)

    backend = weir.get_npu_backend()
    run = torch.compile(module, backend=backend, dynamic=kind == "dynamic")
    assert _generate(run, module, cache(), count) == _generate(module, module, cache(), count)


def _gradients(run, module, inputs):
    module.zero_grad(set_to_none=True)
    zoo.result(run(**inputs)).float().square().mean().backward()
    return {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}


EXPERTS = ["qwen2-moe", "mixtral", "deepseek-v2", "deepseek-v3"]
TRAINED = ["llama", "gpt2", "bert", "vit", "whisper-encoder", "resnet-18", "resnet-50", "unet"]


@pytest.mark.parametrize("name", TRAINED + EXPERTS)
def test_a_training_step_has_eagers_gradients_and_weirs_operators(name):
    """Experts in float32: transformers reads the groups' ends on the host in the backward pass, so that PyTorch leaves
    them out of what it compiles, and what weir gets of the model is weir's."""
    module, inputs = _make(name)
    want = _gradients(module, module, inputs)
    backend = weir.get_npu_backend()
    got = _gradients(torch.compile(module, backend=backend), module, inputs)
    # What a result that nobody uses is made of has no gradient eagerly, and zeros compiled.
    assert got.keys() >= want.keys()
    assert not any(got[name].any() for name in got.keys() - want.keys())
    for parameter, gradient in want.items():
        # Each element is a sum; what it is rounded by follows from the largest, such as 900 in resnet-50.
        atol = 1e-6 * max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(got[parameter], gradient, rtol=1e-3, atol=atol)
    assert _share(backend) >= 0.9, backend.coverage


@pytest.mark.parametrize("name", EXPERTS)
def test_a_training_step_of_experts_is_compiled_whole(name):
    """In bfloat16, see above. The gradients are as near to those in float32 as eager's."""
    module, inputs = _make(name)
    exact = _gradients(module, module, inputs)
    module = module.bfloat16()
    eager = _gradients(module, module, inputs)
    backend = weir.get_npu_backend()
    got = _gradients(torch.compile(module, backend=backend), module, inputs)
    assert got.keys() >= exact.keys()
    total = sum(x.double().norm().item() ** 2 for x in exact.values()) ** 0.5
    ours, theirs = (
        sum(_distance(made[n], x) ** 2 for n, x in exact.items()) ** 0.5 for made in (got, eager)
    )
    assert ours <= 1.5 * theirs + 1e-2 * total
    assert len(backend.graphs) == 2 and _share(backend) >= 0.9, backend.coverage
