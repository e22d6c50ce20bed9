"""Where an agent's rollout goes while it is played: into a place that was leased."""

import torch
from torch import Tensor

from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.channels import ChannelSizes, Place


class Recording:
    """Rollouts of one agent, one after another, each in the place that was leased for it.

    On a CPU what the worlds tell is written where the trainer reads it, and nobody copies. On a GPU it is gathered
    there: under UCC every tensor is copied as it is produced, else every kind once, when it is whole (not yet run).

    Args:
        sizes: Of the channels.
        device: Of the agent.
    """

    def __init__(self, sizes: ChannelSizes, device: torch.device) -> None:
        form = sizes.form
        shape = form.horizon, form.num_env, form.num_obs, form.num_actions
        self.rollout = Rollout(*shape, device, form.num_terms)
        self._is_here = device.type == "cpu"
        self._is_uni_channel = sizes.channels.mode == "UCC"
        # What the agent itself says of a rollout it says at its end, whatever its shape.
        judged = ("log_prob", "bootstrap")
        self._stepwise = [kind.name for kind in form.kinds if kind.is_stepwise and kind.name not in judged]
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
