"""Random training, programs of open sizes that write, and modules that share tensors give what eager PyTorch gives."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import open_updates  # noqa: E402
import programs  # noqa: E402
import shared_tensors  # noqa: E402
import training  # noqa: E402

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 1))
CALLS = 4 if COUNT == 1 else 12


@pytest.mark.parametrize("kind", [training, open_updates, shared_tensors], ids=lambda kind: kind.__name__)
def test_random_programs_equal_eager_ones(kind):
    programs.quiet()
    wrong = [text for seed in range(2, 2 + COUNT) for text in kind.try_seed(seed, CALLS)[1]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("foreach", [False, True])
def test_parameters_of_a_compiled_step_may_change_their_layout(foreach):
    models, steps = [], []
    for backend in ("weir", "eager"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        models.append(torch.nn.Linear(6, 5))
        step = torch.optim.SGD(models[-1].parameters(), 0.1, momentum=0.9, foreach=foreach).step
        steps.append(torch.compile(step, backend=backend))
    for number in range(5):
        x = torch.randn(3, 6)
        for model, step in zip(models, steps):
            if number == 2:
                model.weight.data = model.weight.data.t().contiguous().t()
            model.zero_grad()
            model(x).square().sum().backward()
            step()
        torch.testing.assert_close(models[0].weight, models[1].weight)


def test_a_frozen_weight_of_a_convolution_gets_no_gradient():
    ours, theirs = (torch.nn.Conv1d(6, 6, 3, padding=1) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    run = torch.compile(ours, backend="weir")
    x = torch.randn(3, 6, 5)
    for frozen in (False, True):
        for model, call in ((ours, run), (theirs, theirs)):
            model.weight.requires_grad_(not frozen)
            model.zero_grad()
            y = x.clone().requires_grad_(True)
            call(y).square().sum().backward()
            model.seen = y.grad
        torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)
        torch.testing.assert_close(ours.seen, theirs.seen)
        assert not frozen or ours.weight.grad is None
