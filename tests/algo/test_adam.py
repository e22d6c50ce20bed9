import subprocess
import sys

import torch

from gmi_drl.algo.adam import Adam

WITHOUT_COMPILER = """
import sys
from gmi_drl.algo.ppo import PPO
from gmi_drl.config.learners import PPOConfig
from gmi_drl.workload import TaskSpec
from gmi_drl.algo.networks import make_policy
from gmi_drl.workload.spaces import continuous, vector
spec = TaskSpec("toy", "TY", vector(3), continuous(2), (4,), episode_steps=9, step_s=1.0)
PPO(make_policy(spec, PPOConfig()), PPOConfig()).adam.step()
print("torch._dynamo" in sys.modules)
"""


def test_steps_are_those_of_torchs_own_with_any_learning_rate():
    parameters, gradient = torch.randn(1000), torch.empty(1000)
    rate, found_inf = torch.tensor(1e-3), torch.zeros(())
    ours = Adam(parameters, gradient, rate, found_inf)
    theirs = torch.nn.Parameter(parameters.clone())
    optimizer = torch.optim.Adam([theirs], lr=rate, fused=True)
    for number in range(20):
        theirs.grad = gradient.normal_().clone()
        rate.fill_(1e-3 / (1 + number))
        ours.step()
        optimizer.step()
    state = optimizer.state[theirs]
    assert torch.equal(parameters, theirs.data) and ours.steps == state["step"] == 20
    assert torch.equal(ours.mean, state["exp_avg"]) and torch.equal(ours.square, state["exp_avg_sq"])


def test_a_gradient_that_is_not_finite_changes_nothing():
    parameters, gradient, found_inf = torch.ones(3), torch.tensor([1.0, torch.nan, 1.0]), torch.ones(())
    adam = Adam(parameters, gradient, torch.tensor(0.1), found_inf)
    adam.step()
    assert parameters.tolist() == [1, 1, 1] and not adam.mean.any() and not adam.square.any() and adam.steps == 0
    gradient.fill_(1.0)
    found_inf.zero_()
    adam.step()
    assert adam.steps == 1 and torch.allclose(parameters, torch.full((3,), 0.9))


def test_a_gmi_starts_without_torchs_compiler():
    run = subprocess.run([sys.executable, "-c", WITHOUT_COMPILER], capture_output=True, text=True, timeout=120)
    assert run.stdout == "False\n", run.stderr
