"""An operator that weir lacks is an error that names it, and never zeros. torch_npu's queue tells its error once and drops what
comes later: whoever reads a result then is told again."""
import torch
import torch_npu  # noqa: F401


def named(what, function):
    try:
        print(function())
    except (RuntimeError, NotImplementedError) as error:
        assert what in str(error).lower(), error
    else:
        raise AssertionError(f"{what}: no error")


x = torch.randn(4, 4).npu()
named("qr", lambda: torch.linalg.qr(x))
named("qr", lambda: (torch.ones(4).npu() + 1).cpu())
named("qr", lambda: (x + 1).sum().item())
named("qr", torch.npu.synchronize)
print("fine")
