"""Complex numbers of the real torch_npu: rotary embeddings as DeepSeek's and Llama's own code has them."""
import torch
import torch_npu  # noqa: F401


def rotate(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


torch.manual_seed(3)
angles = torch.outer(torch.arange(12.0), 1e4 ** -(torch.arange(0, 16, 2) / 16))
turns = torch.polar(torch.ones_like(angles), angles)
on_npu = torch.polar(torch.ones_like(angles).npu(), angles.npu())
torch.testing.assert_close(on_npu.cpu(), turns)
for dtype in (torch.float32, torch.bfloat16):
    x = torch.randn(2, 3, 12, 16).to(dtype)
    torch.testing.assert_close(rotate(x.npu(), on_npu).cpu(), rotate(x, turns))

a, b = torch.randn(5, 7, dtype=torch.complex64), torch.randn(5, 7, dtype=torch.complex64)
p, q = a.npu(), b.npu()
for made, want in ((p + q, a + b), (p - q, a - b), (p * q, a * b), (p / q, a / b), (-p, -a), (p.abs(), a.abs()),
                   (p * 2, a * 2), (p + 1, a + 1), (p.sum(0), a.sum(0)), (p @ q.t(), a @ b.t()), (p.real, a.real),
                   (p.imag, a.imag), (torch.complex(p.real, q.imag), torch.complex(a.real, b.imag))):
    torch.testing.assert_close(made.cpu(), want, rtol=1e-4, atol=1e-4)
print("fine")
