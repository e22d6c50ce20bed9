"""Value targets and advantages from rollouts of other policies (V-trace) or of the same policy (n-step returns)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Estimates(NamedTuple):
    """Value targets and advantages, each `[B, T, ...]`."""

    target: Tensor
    """Target of the value."""

    advantage: Tensor
    """Advantage of the action; 0 where a transition is not valid. With V-trace the caller multiplies it by rho."""


@dataclass(frozen=True)
class Steps:
    """Transitions in the order of time (dimension 1), each `[B, T, ...]`.

    Attributes:
        reward: Reward of the step, plus the discounted value that follows if a time-out ended the episode.
        discount: Of the next step's value: gamma, or 0 at the end of an episode.
        valid: 0 where the simulator went wrong, else 1.
        value: V(x_t).
        next_value: V(x_(t+1)).
    """

    reward: Tensor
    discount: Tensor
    valid: Tensor
    value: Tensor
    next_value: Tensor


def n_step_returns(steps: Steps) -> Estimates:
    """R_t = r_t + gamma R_(t+1), backwards from the value of the last observation; advantages are R_t - V(x_t).

    A transition that is not valid has advantage 0. The steps before it get the value of the state in which the
    environment went wrong.
    """
    is_valid = steps.valid > 0
    returns, ahead = torch.empty_like(steps.reward), steps.next_value[:, -1]
    for t in reversed(range(steps.reward.shape[1])):
        torch.addcmul(steps.reward[:, t], steps.discount[:, t], ahead, out=returns[:, t])
        ahead = torch.where(is_valid[:, t], returns[:, t], steps.value[:, t], out=returns[:, t])
    return Estimates(returns, returns - steps.value)


def vtrace(steps: Steps, ratio: Tensor, rho_clip: float = 1.0, c_clip: float = 1.0) -> Estimates:
    """V-trace (Espeholt et al., arXiv 1802.01561): targets by equation 1, advantages by section 4.2.

    With rho = min(rho_clip, ratio) and c = min(c_clip, ratio), equation 1 is (their remark 1)

        v_t = V_t + rho (r_t + gamma V_(t+1) - V_t) + gamma c (v_(t+1) - V_(t+1)), or put in another order
        v_t = (1 - rho) V_t + rho r_t + gamma (rho - c) V_(t+1) + gamma c v_(t+1),

    which is r_t + gamma v_(t+1) to the last bit where rho = c = 1. So if all ratios are 1 (with the policy that acted
    they are, but for rounding) this equals `n_step_returns`. A transition that is not valid has ratio 0, so that
    v_t = V_t, as there.

    Args:
        steps: The transitions.
        ratio: Probability of each action under the policy that learns, divided by that under the policy that acted,
            `[B, T, ...]`.
        rho_clip: Limits the weight of one step. The targets are values of a policy between the one that acted (towards
            0) and the one that learns (large).
        c_clip: Limits the influence of later steps: less has less variance.
    """
    rho, c = (ratio.clamp(max=clip) * steps.valid for clip in (rho_clip, c_clip))
    target = (1 - rho).mul_(steps.value).add_(rho * steps.reward)
    target.addcmul_((rho - c).mul_(steps.next_value), steps.discount)
    decay, ahead = c.mul_(steps.discount), steps.next_value[:, -1]
    for t in reversed(range(target.shape[1])):
        ahead = target[:, t].addcmul_(decay[:, t], ahead)
    following = torch.cat((target[:, 1:], steps.next_value[:, -1:]), 1)
    advantage = torch.addcmul(steps.reward, steps.discount, following).sub_(steps.value).mul_(steps.valid)
    return Estimates(target, advantage)
