import pytest
import torch

from gmi_drl.algo.captured import WARM_UP_CALLS, Captured


def test_on_a_cpu_every_call_runs_the_function():
    total = torch.zeros(())
    add = Captured(lambda: total.add_(1), torch.device("cpu"))
    for _ in range(WARM_UP_CALLS + 3):
        add()
    assert total == WARM_UP_CALLS + 3


@pytest.mark.gpu
@pytest.mark.parametrize("is_on", [True, False])
def test_a_replay_does_what_a_call_does(is_on):
    device = torch.device("cuda")
    total, step, calls = torch.zeros((), device=device), torch.ones((), device=device), []

    def run():
        calls.append(None)
        total.add_(step)

    add = Captured(run, device, is_on=is_on)
    for _ in range(WARM_UP_CALLS + 3):
        add()
    step.fill_(10)  # a replay reads what its tensors hold now
    add()
    assert total.item() == WARM_UP_CALLS + 3 + 10
    assert len(calls) == (WARM_UP_CALLS + 1 if is_on else WARM_UP_CALLS + 4)
