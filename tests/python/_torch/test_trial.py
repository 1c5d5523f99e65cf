"""Streams that the compiler chose are kept only where they are faster."""

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
from weir._torch import trial  # noqa: E402


class Way:
    def __init__(self, name, seconds, clock):
        self.name, self.seconds, self.clock, self.calls = name, seconds, clock, 0

    def run(self, args):
        self.calls += 1
        self.clock.now += self.seconds
        return [self.name]


class Clock:
    """Times are known `late` calls later."""

    def __init__(self, late=0):
        self.now, self.late, self.ended = 0.0, late, 0

    def begin(self):
        return self.now

    def end(self, began):
        self.ended += 1
        return self.now - began, self.ended

    def seconds(self, timed):
        seconds, number = timed
        return seconds if self.ended >= number + self.late else None


def race(one, several, late=0, calls=60):
    clock = Clock(late)
    ways = Way("one", one, clock), Way("several", several, clock)
    made = trial.Trial(ways, clock, 0)
    names = [made.run([])[0] for _ in range(calls)]
    return made, ways, names


@pytest.mark.parametrize("several, kept", [(0.5, "several"), (0.99, "one"), (1.0, "one"), (2.0, "one")])
def test_a_placement_that_is_faster_by_more_than_noise_is_kept(several, kept):
    made, ways, names = race(1.0, several)
    turns = 2 * (trial.WARM + trial.ROUNDS)
    assert names[:turns] == ["one", "several"] * (turns // 2)
    assert set(names[turns:]) == {kept} and made.several == (kept == "several")
    assert made.ways == (made.chosen,)  # the other one is let go


def test_the_fastest_of_several_placements_is_kept():
    clock = Clock()
    ways = Way("one", 1.0, clock), Way("auto", 0.9, clock), Way("siblings", 0.8, clock)
    made = trial.Trial(ways, clock, 0)
    names = [made.run([])[0] for _ in range(60)]
    turns = 3 * (trial.WARM + trial.ROUNDS)
    assert names[:turns] == ["one", "auto", "siblings"] * (turns // 3)
    assert set(names[turns:]) == {"siblings"} and made.several


def test_a_trial_continues_while_times_are_not_known_yet():
    made, ways, names = race(1.0, 0.5, late=6)
    turns = 2 * (trial.WARM + trial.ROUNDS)
    assert names[turns : turns + 4] == ["one", "several"] * 2
    assert names[-1] == "several"


def test_a_model_gives_eager_values_with_every_placement():
    def f(x, a, b):
        return torch.softmax(x @ a, -1) + torch.softmax(x @ b, -1)

    config = weir.CompilerConfig()
    config.auto_streams = True
    backend = weir.get_npu_backend(compiler_config=config)
    torch._dynamo.reset()
    run = torch.compile(f, backend=backend, fullgraph=True)
    torch.manual_seed(0)
    x, a, b = (torch.randn(256, 256) for _ in range(3))
    with torch.no_grad():
        for _ in range(2 * (trial.WARM + trial.ROUNDS) + 2):
            torch.testing.assert_close(run(x, a, b), f(x, a, b), rtol=1e-4, atol=1e-4)
    assert backend.coverage.native.total() == 5  # counted once
    (made,) = backend.graphs[0].plans.values()
    if isinstance(made, trial.Trial):  # the compiler did choose streams
        assert made.chosen in made.ways


def test_placements_on_a_modelled_device_are_not_timed():
    weir.set_device("npu:a3")
    try:
        config = weir.CompilerConfig()
        config.auto_streams = True
        backend = weir.get_npu_backend(compiler_config=config)
        torch._dynamo.reset()
        run = torch.compile(lambda x, y: (x @ x, y @ y), backend=backend, fullgraph=True)
        with torch.no_grad():
            run(torch.randn(256, 256), torch.randn(256, 256))
        (made,) = backend.graphs[0].plans.values()
        assert not isinstance(made, trial.Trial)
    finally:
        weir.set_device("cpu")
