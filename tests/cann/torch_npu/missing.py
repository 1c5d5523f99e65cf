"""An operator that weir lacks is an error that names it, and never zeros."""
import torch
import torch_npu  # noqa: F401

try:
    print(torch.linalg.qr(torch.randn(4, 4).npu()))
except (RuntimeError, NotImplementedError) as error:
    assert "qr" in str(error).lower(), error
else:
    raise AssertionError("a QR decomposition was computed: choose another operator here")
print("fine")
