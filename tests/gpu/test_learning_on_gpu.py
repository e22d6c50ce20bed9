import pytest
import torch
from rollouts import N, T, make_policy, make_rollout, normalise

from gmi_drl.algo.ppo import PPO
from gmi_drl.config.learners import PPOConfig
from gmi_drl.cuda_graph import WARM_UP_CALLS, Captured

pytestmark = pytest.mark.gpu


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


def test_an_update_by_graphs_is_the_update_without():
    device, results = torch.device("cuda"), []
    for capture in (True, False):
        policy = make_policy().to(device)
        ppo, rollout = PPO(policy, PPOConfig(), cuda_graphs=capture), make_rollout(make_policy())
        for name, tensor in vars(rollout).items():
            if isinstance(tensor, torch.Tensor):
                setattr(rollout, name, tensor.to(device))
        normalise(rollout)
        for seed in range(4):
            ppo.update(rollout, torch.randperm(T * N, generator=torch.Generator().manual_seed(seed)).to(device))
        results.append(ppo.flat.vector.clone())
    torch.testing.assert_close(*results, atol=1e-6, rtol=0)
