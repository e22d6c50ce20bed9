"""Where an agent's rollout goes while it is played: into a place that was leased."""

import torch
from torch import Tensor

from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.channels import Place
from gmi_drl.experience import RolloutForm


class Recording:
    """Rollouts of one agent, one after another, each in the place that was leased for it.

    On a CPU what the worlds tell is written where the trainer reads it, and nobody copies. On a GPU it is gathered
    there: under UCC every tensor is copied as it is produced, else every kind once, when it is whole (not yet run).

    Args:
        form: Of the rollouts.
        device: Of the agent.
        is_uni_channel: Whether every tensor goes by itself.
    """

    def __init__(self, form: RolloutForm, device: torch.device, *, is_uni_channel: bool) -> None:
        sizes = form.horizon, form.num_env, form.num_obs, form.num_actions
        self.rollout = Rollout(*sizes, device, form.num_terms)
        self._is_here = device.type == "cpu"
        self._is_uni_channel = is_uni_channel
        # What the agent says of its rollout at its end is not of a step, whatever its shape.
        self._stepwise = [kind.name for kind in form.kinds if kind.is_stepwise and kind.name != "log_prob"]
        self._at_end = [kind.name for kind in form.kinds if kind.name not in (*self._stepwise, "facts")]
        self._place: Place | None = None

    def begin(self, place: Place) -> None:
        """Record into this place from now on."""
        self._place = place
        if self._is_here:
            for name in (*self._stepwise, *self._at_end):
                setattr(self.rollout, name, place.views[name])

    def after_step(self, t: int) -> None:
        """Send what step `t` has produced, or note that it is there."""
        assert self._place is not None
        if not self._is_here and not self._is_uni_channel:
            return
        for name in self._stepwise:
            if not self._is_here:
                self._place.views[name][t].copy_(getattr(self.rollout, name)[t])
            self._place.wrote(name, t)

    def end(self, facts: Tensor) -> None:
        """Send what a rollout has at its end, with what its agent tells of it, float64 `[len(FACTS)]`."""
        place = self._place
        assert place is not None
        for name in self._at_end if self._is_here or self._is_uni_channel else (*self._stepwise, *self._at_end):
            if not self._is_here:
                place.views[name].copy_(getattr(self.rollout, name))
            place.wrote_whole(name)
        place.views["facts"].copy_(facts)
        place.wrote_whole("facts")
        place.commit()
        self._place = None
