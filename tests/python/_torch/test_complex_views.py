"""Results that are real or conjugated views of complex values: random programs give eager's values, layouts, shared
memory and gradients. WEIR_TEST_PROGRAMS is how many are tried."""

import os
import random

import pytest
import torch

from stand_in import host  # noqa: F401

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 4))

MAKE = {
    "complex": lambda a, b: torch.complex(a, b + 1),
    "polar": lambda a, b: torch.polar(a.abs(), b),
    "pairs": lambda a, b: torch.view_as_complex(torch.stack((a, b), -1)),
}
STEP = {
    "times 2": lambda z: z * 2,
    "times itself": lambda z: z * z,
    "times a number": lambda z: z * (1 - 2j),
    "copied": lambda z: z.clone(),
    "turned": lambda z: z.t(),
    "flat": lambda z: z.reshape(-1, z.shape[0]),
    "rows": lambda z: z[1:],
    "conjugated": lambda z: z.conj(),
    "conjugated copy": lambda z: z.conj().resolve_conj() * 1,
    "negated": lambda z: -z,
}
VIEW = {
    "whole": lambda z: z,
    "real": lambda z: z.real,
    "imaginary": lambda z: z.imag,
    "conjugated": lambda z: z.conj(),
    "adjoint": lambda z: z.mH,
    "pairs": lambda z: torch.view_as_real(z.resolve_conj()),
    "a row of real": lambda z: z.real[0],
    "rows of imaginary": lambda z: z.imag[1:].t(),
    "conjugated rows": lambda z: z[1:].conj(),
    "column": lambda z: z[:, 0],
}


class Program:
    def __init__(self, seed):
        pick = random.Random(seed)
        self.make = pick.choice(list(MAKE))
        self.steps = [pick.choice(list(STEP)) for _ in range(pick.randint(1, 3))]
        # (which of the values, how it is returned)
        self.results = [(pick.randint(0, len(self.steps)), pick.choice(list(VIEW))) for _ in range(pick.randint(2, 4))]
        self.dynamic = pick.choice((None, True, False))

    def __call__(self, a, b):
        values = [MAKE[self.make](a, b)]
        for step in self.steps:
            values.append(STEP[step](values[-1]))
        return [VIEW[view](values[at]) for at, view in self.results]


def memories(tensors):
    first = {}
    return [first.setdefault(t.untyped_storage().data_ptr(), at) for at, t in enumerate(tensors)]


def check(function, dynamic, training):
    torch._dynamo.reset()
    run = torch.compile(function, backend="weir", dynamic=dynamic, fullgraph=True)
    for rows in (3, 4, 5):
        torch.manual_seed(rows)
        arguments = torch.randn(2, rows, 4)
        sides = []
        for way in (run, function):
            a, b = (x.clone().requires_grad_(training) for x in arguments)
            with torch.set_grad_enabled(training):
                results = way(a, b)
            if training:
                sum((x.abs() ** 2).sum() for x in results).backward()
            sides.append((results, [a.grad, b.grad]))
        (got, got_gradients), (want, want_gradients) = sides
        # Only whether a view of memory that no other result has is conjugated lazily is not PyTorch's.
        layouts, expected = ([(x.shape, x.stride(), x.storage_offset()) for x in made] for made in (got, want))
        assert layouts == expected
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(got_gradients, want_gradients, rtol=1e-5, atol=1e-5)
        assert memories(got) == memories(want)
        if not training:
            for x, y in zip(got, want):  # a write to one is seen in the others
                x.mul_(3), y.mul_(3)
            torch.testing.assert_close(got, want)


PARTS = [
    lambda z: (z.real, z.imag),
    lambda z: (z.conj(), z.real),
    lambda z: (torch.view_as_real(z), z.imag),
    lambda z: (z.imag[1:], z.conj(), z.mH, z.real),
]


@pytest.mark.parametrize("where, dynamic", [("host", None), ("host", True), ("as on a GPU", None)])
@pytest.mark.parametrize("number", range(len(PARTS)))
def test_parts_of_a_product_share_its_memory(number, dynamic, where, request):
    if where != "host":
        request.getfixturevalue("host")
    check(lambda a, b: PARTS[number](torch.complex(a, b) * 2), dynamic, False)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_programs_of_complex_values_are_eagers(seed, training):
    program = Program(seed)
    check(program, program.dynamic, training)
