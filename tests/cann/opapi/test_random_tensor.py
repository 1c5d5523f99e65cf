"""Random numbers with seed and offset in tensors: those of the operators that take them as numbers."""
import torch

from aclnn import call
from samples import close

COVERED = {"InplaceUniformTensor", "InplaceNormalTensor", "InplaceRandomTensor",
           "InplaceRandomWithoutFromToTensor", "MultinomialTensor", "DropoutGenMaskV2Tensor"}


def at(seed, offset, more=0):
    return torch.tensor([seed]), torch.tensor([offset - more]), more


def test_numbers_are_those_of_the_seed_as_a_number():
    for dtype in (torch.float32, torch.float64, torch.float16):
        for name, ends in (("InplaceUniform", (-1.0, 3.0)), ("InplaceNormal", (1.0, 2.0))):
            x, y = torch.empty(7, 143, dtype=dtype), torch.empty(7, 143, dtype=dtype)
            call(name, x, *ends, 7, 36)
            call(f"{name}Tensor", y, *ends, *at(7, 36, 12))
            close(y, x, 0.2)
            call(f"{name}Tensor", y, *ends, *at(7, 24))
            assert not torch.equal(x, y)
    for dtype in (torch.int64, torch.int32, torch.float32):
        x, y = torch.zeros(900, dtype=dtype), torch.zeros(900, dtype=dtype)
        call("InplaceRandom", x, -5, 60, 3, 8)
        call("InplaceRandomTensor", y, -5, 60, *at(3, 8, 4))
        assert torch.equal(x, y) and x.min() == -5 and x.max() == 59
        call("InplaceRandomWithoutFromTo", x, 3, 8)
        call("InplaceRandomWithoutFromToTensor", y, *at(3, 8))
        assert torch.equal(x, y)


def test_samples_and_masks():
    p = torch.rand(4, 30)
    for replace in (False, True):
        x, y = torch.zeros(4, 9, dtype=torch.int64), torch.zeros(4, 9, dtype=torch.int64)
        call("Multinomial", p, 9, replace, 5, 6, x)
        call("MultinomialTensor", p, 9, replace, *at(5, 6, 6), y)
        assert torch.equal(x, y)
    x, y = torch.zeros(128, dtype=torch.uint8), torch.zeros(128, dtype=torch.uint8)
    call("DropoutGenMaskV2", [10, 100], 0.3, 1, 2, torch.float32, x)
    call("DropoutGenMaskV2Tensor", [10, 100], 0.3, *at(1, 2, 2), torch.float32, y)
    assert torch.equal(x, y) and y.any()
