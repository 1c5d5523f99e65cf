"""Random numbers of ``torch.npu``: PyTorch's generator, which random tensors on the NPU use."""

from __future__ import annotations

from ._npu_device import _check_name, device_count

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator():
    import torch

    return torch.default_generator


def manual_seed(seed: int) -> None:
    """Seeds PyTorch's generator, which random tensors on the NPU use."""
    _generator().manual_seed(seed)  # torch.manual_seed would call this function again


def seed() -> int:
    """Seeds the generator with a random number, and returns that number."""
    return _generator().seed()


def initial_seed() -> int:
    """The number with which the generator was seeded."""
    return _generator().initial_seed()


def get_rng_state(device: object = "npu"):
    """The state of PyTorch's generator."""
    _check_name(device)
    return _generator().get_state()


def set_rng_state(new_state, device: object = "npu") -> None:
    """Restores a state of PyTorch's generator."""
    _check_name(device)
    _generator().set_state(new_state)


def get_rng_state_all() -> list:
    """The states of all NPUs, which share one generator."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states) -> None:
    """As set_rng_state, with a list of equal states."""
    for state in new_states:
        set_rng_state(state)


manual_seed_all = manual_seed
seed_all = seed
