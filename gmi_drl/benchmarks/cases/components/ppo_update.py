"""One PPO update by gmi-drl against one by rsl_rl, from the same rollout and weights."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core
from gmi_drl.layout.experience import RolloutForm

if TYPE_CHECKING:
    from torch import Tensor

    from gmi_drl.algo.networks import ActorCritic
    from gmi_drl.algo.rollout import Rollout
    from gmi_drl.config.learners import PPOConfig

HORIZON, NUM_ENV = 16, 256
UPDATES, QUICK_UPDATES = 3, 1


@contextmanager
def open_sides(quick: bool, *, bf16: bool = False) -> Iterator[Sides]:
    """Both libraries with the same experience, after one update each; with `bf16` ours in bfloat16 and in float32."""
    import torch

    from gmi_drl.algo.networks import ActorCritic
    from gmi_drl.algo.ppo import PPO
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.workload import TASK_SPECS

    config, updates = PPOConfig(), QUICK_UPDATES if quick else UPDATES
    with one_core():
        torch.manual_seed(0)
        policy = ActorCritic(TASK_SPECS["ant"], init_std=1.0)
        reference = reference_ppo(config, policy, HORIZON, NUM_ENV)
        rollout, last_value = same_experience(reference, policy, HORIZON, NUM_ENV)
        rollout.advantages(last_value, config)
        rollout.normalise_advantages(rollout.advantage.mean().item(), rollout.advantage.std().item())

        def update(ours: PPO) -> None:
            ours.update(rollout, torch.randperm(HORIZON * NUM_ENV))
            ours.metrics()

        sides: dict[str, Callable[[], object]] = {}
        if bf16:
            faster = deepcopy(policy)
            faster.bf16 = True
            sides["gmi-drl"] = partial(update, PPO(faster, config))
        sides["float32" if bf16 else "gmi-drl"] = partial(update, PPO(policy, config))
        sides["rsl_rl"] = reference.update
        for warm_up in sides.values():
            warm_up()
        # Learning goes on from one update to the next, which does not change what an update costs.
        yield {name: partial(mean_seconds, side, updates) for name, side in sides.items()}


def reference_ppo(config: "PPOConfig", policy: "ActorCritic", horizon: int, num_env: int) -> Any:
    """The PPO of rsl_rl with our hyper-parameters and a copy of the policy's weights."""
    import torch
    from rsl_rl.algorithms import PPO
    from rsl_rl.models import MLPModel
    from rsl_rl.storage import RolloutStorage
    from tensordict import TensorDict

    from gmi_drl.config.learners.rsl_rl import ppo_arguments
    from gmi_drl.workload import TASK_SPECS

    spec = TASK_SPECS["ant"]
    obs = TensorDict({"policy": torch.zeros(num_env, spec.observation.size)}, batch_size=[num_env])
    groups = {"actor": ["policy"], "critic": ["policy"]}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "log"}
    actor = MLPModel(obs, groups, "actor", spec.action.size, spec.hidden, distribution_cfg=gaussian)
    critic = MLPModel(obs, groups, "critic", 1, spec.hidden)
    for ours, theirs in ((policy.actor, actor.mlp), (policy.critic, critic.mlp)):
        for source, target in zip(ours.parameters(), theirs.parameters(), strict=True):
            target.data.copy_(source.data)
    storage = RolloutStorage("rl", num_env, horizon, obs, [spec.action.size])
    return PPO(actor, critic, storage, **ppo_arguments(config))


def same_experience(reference: Any, policy: "ActorCritic", horizon: int, num_env: int) -> tuple["Rollout", "Tensor"]:
    """Let the reference act on random observations, and record the same experience `[T, N]` in our rollout.

    Returns:
        The rollout without advantages, and the values `[N]` of the observations after it.
    """
    import torch
    from tensordict import TensorDict

    from gmi_drl.algo.rollout import Rollout
    from gmi_drl.workload import TASK_SPECS

    spec = TASK_SPECS["ant"]
    rollout = Rollout(RolloutForm(horizon, num_env, spec.observation, spec.action), torch.device("cpu"))
    rollout.valid.fill_(1)
    with torch.no_grad():
        rollout.log_std.copy_(policy.log_std)
        for t in range(horizon):
            obs = torch.randn(num_env, spec.observation.size)
            action = reference.act(TensorDict({"policy": obs}, batch_size=[num_env]))
            reward, time_outs = torch.randn(num_env), torch.rand(num_env) < 0.1
            dones = time_outs | (torch.rand(num_env) < 0.1)
            rollout.obs[t], rollout.action[t] = obs, action
            rollout.params[t] = policy.params(obs)
            rollout.log_prob[t] = policy.log_prob(action, rollout.params[t])
            rollout.value[t] = policy.value(obs)
            rollout.reward[t], rollout.done[t] = reward, dones.float()
            rollout.bootstrap[t] = rollout.value[t] * time_outs  # as rsl_rl does: `bootstrap: last_value`
            empty = TensorDict({}, batch_size=[num_env])
            reference.process_env_step(empty, reward, dones, {"time_outs": time_outs.float()})
        last_obs = torch.randn(num_env, spec.observation.size)
        reference.compute_returns(TensorDict({"policy": last_obs}, batch_size=[num_env]))
        last_value = policy.value(last_obs)
    return rollout, last_value


CLAIM = (
    "One PPO update (4 epochs of 4 mini-batches over 256 environments x 16 steps, Ant's networks) on 1 thread: "
    "ours{} against rsl-rl-lib 5.5's, with the same rollout, weights and hyper-parameters."
)
LIMITS = "On a CPU only. Collecting the rollout is not included."

CASES = (
    Case(
        name="ppo_update",
        claim=CLAIM.format(""),
        unit="s",
        open=open_sides,
        lower_is_better=True,
        obstacle=lambda: requirements.package("rsl_rl", "rsl-rl"),
        limits=LIMITS,
        repeats=15,
        guard=0.7,
        floor=0.003,
    ),
    Case(
        name="ppo_update_bf16",
        claim=CLAIM.format(", with `learner.bf16` (`gmi-drl`) and without,"),
        unit="s",
        open=partial(open_sides, bf16=True),
        lower_is_better=True,
        obstacle=lambda: requirements.bf16_on_cores() or requirements.package("rsl_rl", "rsl-rl"),
        limits=f"{LIMITS} rsl_rl has float32 alone. Cores without instructions for bfloat16 refuse `learner.bf16`.",
        repeats=15,
    ),
)
