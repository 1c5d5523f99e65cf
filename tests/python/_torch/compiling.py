"""What tests of compiled functions share."""

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()


def compiled(model, dynamic=False, **options):
    config = weir.CompilerConfig()
    for name, value in options.items():
        *path, last = name.split("__")
        target = config
        for part in path:
            target = getattr(target, part)
        setattr(target, last, value)
    backend = weir.get_npu_backend(compiler_config=config)
    return torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True), backend


def call_in_thread(run, *args):
    """Calls a compiled function from one of several threads. Dynamo itself now and then refuses such
    a call ("Attempt to trace generator"), which has nothing to do with the backend: call again."""
    for _ in range(5):
        try:
            return run(*args)
        except torch._dynamo.exc.Unsupported as error:
            if "generator" not in str(error):
                raise
    return run(*args)


def same(got, want, tolerance=1e-5):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
