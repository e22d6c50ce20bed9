"""Experience that nobody had, for updates whose time alone is measured."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.algo.rollout import Rollout
    from gmi_drl.workload import TaskSpec


def random_rollout(spec: "TaskSpec", horizon: int, num_env: int) -> "Rollout":
    """A rollout `[T, N]` on cores, all of whose steps are valid, of normal random numbers."""
    import torch

    from gmi_drl.algo.rollout import Rollout
    from gmi_drl.layout.experience import RolloutForm

    rollout = Rollout(RolloutForm(horizon, num_env, spec.observation, spec.action), torch.device("cpu"))
    for name in ("obs", "action", "params", "value", "returns", "advantage"):
        getattr(rollout, name).normal_()
    rollout.valid.fill_(1)
    return rollout
