"""What values should be and how good actions were, by rollouts of other policies (V-trace) or of the same (n steps)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Judgement(NamedTuple):
    """What a policy and its values are taught, each `[B, T, ...]`."""

    target: Tensor
    """Of the values."""

    advantage: Tensor
    """Of the actions; 0 where a transition is not valid. By V-trace each counts by its rho, which is left to do."""


@dataclass(frozen=True)
class Steps:
    """Transitions in the order of time, which is dimension 1: each `[B, T, ...]`.

    Attributes:
        reward: What a step gave, and the discounted value of what follows where its episode was cut short by time.
        discount: Of what follows within the trajectory: gamma, or 0 at its end.
        valid: 0 where the simulator went wrong, else 1.
        value: V(x_t).
        next_value: V(x_(t+1)).
    """

    reward: Tensor
    discount: Tensor
    valid: Tensor
    value: Tensor
    next_value: Tensor


def n_step_returns(steps: Steps) -> Judgement:
    """R_t = r_t + gamma R_(t+1), from the value of the last observation back; advantages are R_t - V(x_t).

    A transition that is not valid teaches nothing, and what came before it is judged by the value of the state in
    which its world went wrong.
    """
    is_valid = steps.valid > 0
    returns, ahead = torch.empty_like(steps.reward), steps.next_value[:, -1]
    for t in reversed(range(steps.reward.shape[1])):
        torch.addcmul(steps.reward[:, t], steps.discount[:, t], ahead, out=returns[:, t])
        ahead = torch.where(is_valid[:, t], returns[:, t], steps.value[:, t], out=returns[:, t])
    return Judgement(returns, returns - steps.value)


def vtrace(steps: Steps, ratio: Tensor, rho_clip: float = 1.0, c_clip: float = 1.0) -> Judgement:
    """V-trace (Espeholt et al., arXiv 1802.01561): targets by equation 1, advantages by section 4.2.

    With rho = min(rho_clip, ratio) and c = min(c_clip, ratio), equation 1 is (their remark 1)

        v_t = V_t + rho (r_t + gamma V_(t+1) - V_t) + gamma c (v_(t+1) - V_(t+1)), or put in another order
        v_t = (1 - rho) V_t + rho r_t + gamma (rho - c) V_(t+1) + gamma c v_(t+1),

    which is r_t + gamma v_(t+1) to the last bit where rho = c = 1: where all ratios are 1, as with the policy that
    acted but for rounding, this is `n_step_returns`. A transition that is not valid has ratio 0, so that v_t = V_t,
    as there.

    Args:
        steps: What happened.
        ratio: Probability of each action by the policy that learns over that by the one that acted, `[B, T, ...]`.
        rho_clip: Limits what one step counts: it says whose values are found, from those of the policy that acted
            (towards 0) to those of the one that learns (large).
        c_clip: Limits how far later steps count: less has less variance.
    """
    rho, c = (ratio.clamp(max=clip) * steps.valid for clip in (rho_clip, c_clip))
    target = (1 - rho).mul_(steps.value).add_(rho * steps.reward)
    target.addcmul_((rho - c).mul_(steps.next_value), steps.discount)
    decay, ahead = c.mul_(steps.discount), steps.next_value[:, -1]
    for t in reversed(range(target.shape[1])):
        ahead = target[:, t].addcmul_(decay[:, t], ahead)
    following = torch.cat((target[:, 1:], steps.next_value[:, -1:]), 1)
    advantage = torch.addcmul(steps.reward, steps.discount, following).sub_(steps.value).mul_(steps.valid)
    return Judgement(target, advantage)
