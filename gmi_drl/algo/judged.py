"""Experience of other GMIs as PPO learns from it: judged by the policy that an update begins with.

Who acted may have had older versions of the policy, another one for each step. Values, and the densities and params
from which ratios and the KL divergence count, are of the version that the update begins with: it is one for all steps,
so PPO clips around it. The importance of an action is its density under that version, divided by that under who acted.
PPO multiplies the normalised advantage by it (the decoupled objective of Hilton et al., arXiv 2110.00641).
"""

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import OurConfig

_STEPWISE = ("obs", "action", "log_prob", "reward", "done", "valid", "bootstrap")


@torch.no_grad()
def fill(rollout: Rollout, batch: ExperienceBatch) -> None:
    """Copy R rollouts of N environments, `[R, T, N, ...]`, into one of R * N, `[T, R * N, ...]`."""
    for name in _STEPWISE:
        _fill_columns(getattr(rollout, name), getattr(batch, name))
    rollout.last_obs.view_as(batch.last_obs).copy_(batch.last_obs)
    if rollout.state is not None and batch.state is not None:
        _fill_columns(rollout.state, batch.state)


def _fill_columns(into: Tensor, rollouts: Tensor) -> None:
    """Write `rollouts [R, T, N, ...]` into `[T, R * N, ...]`."""
    side_by_side = rollouts.transpose(0, 1)
    into.view(side_by_side.shape).copy_(side_by_side)


@torch.no_grad()
def judge(rollout: Rollout, agent: Agent, config: OurConfig, is_older: Tensor) -> None:
    """Complete a rollout of raw observations: scale it, then values, advantages, densities and importance.

    Args:
        rollout: Of `fill`.
        agent: As the update begins with it.
        config: gamma, lam and reward_scale.
        is_older: Whether an older version acted in an environment, `[N]`. The others keep the densities that came with
            the actions, to the last bit.
    """
    rollout.obs.copy_(agent.normaliser(rollout.obs))
    params, value = _params_and_value(rollout, agent)
    rollout.params.copy_(params)
    rollout.value.copy_(value)
    rollout.log_std.copy_(agent.policy.log_std)
    change = torch.where(is_older, agent.policy.log_prob(rollout.action, params) - rollout.log_prob, 0.0)
    rollout.log_prob.add_(change)
    rollout.importance = change.exp()
    rollout.advantages(agent.value(rollout.last_obs, rollout.last_past), config)


def _params_and_value(rollout: Rollout, agent: Agent) -> tuple[Tensor, Tensor]:
    """Params `[T, N, P]` and values `[T, N]`; with memories one sequence of all environments after the other."""
    if rollout.state is None:
        return agent.policy.params_and_value(rollout.obs)
    steps, parts = rollout.sequence, []
    for number, state in enumerate(rollout.state[:-1]):
        span = slice(number * steps, (number + 1) * steps)
        past = Past(state, rollout.done[span].flatten())
        parts.append(agent.policy.params_and_value(rollout.obs[span].flatten(0, 1), past))
    params, value = (torch.cat(numbers) for numbers in zip(*parts, strict=True))
    return params.view_as(rollout.params), value.view_as(rollout.value)
