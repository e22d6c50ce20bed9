"""Where an agent's rollout goes while it is played: into a place that was leased."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.channels import ChannelSizes, Place
from gmi_drl.comm.memory.pinned import await_stream

_JUDGED = ("log_prob", "bootstrap")
"""What the agent itself says of a rollout, at its end, whatever its shape."""


class RolloutWriter(ABC):
    """Rollouts of one agent, one after another, each in the place that was leased for it.

    Args:
        sizes: Of the channels.
        device: Of the agent.

    Attributes:
        rollout: To be filled.
    """

    _place: Place

    def __init__(self, sizes: ChannelSizes, device: torch.device) -> None:
        form = sizes.form
        shape = form.horizon, form.num_env, form.num_obs, form.num_actions
        self.rollout, self._device = Rollout(*shape, device, form.num_terms), device
        self._by_step = [kind.name for kind in form.kinds if kind.is_stepwise and kind.name not in _JUDGED]
        self._at_end = [kind.name for kind in form.kinds if kind.name not in (*self._by_step, "facts")]

    def begin(self, place: Place) -> None:
        """Record into this place from now on."""
        self._place = place

    @abstractmethod
    def after_step(self, t: int) -> None:
        """Step `t` has produced what the worlds tell."""

    @abstractmethod
    def end(self, facts: Tensor) -> None:
        """Send what was not sent yet, with what the agent tells of the rollout, float64 `[len(FACTS)]`."""

    def _tell_whole(self, *names: str) -> None:
        """All of these kinds is there, and so the rollout is."""
        for name in names:
            self._place.wrote_whole(name)
        self._place.commit()


class InPlaceWriter(RolloutWriter):
    """On a CPU the rollout is the place: what the worlds tell is written where the trainer reads it, once."""

    def begin(self, place: Place) -> None:
        """See `RolloutWriter`."""
        super().begin(place)
        for name in (*self._by_step, *self._at_end):
            setattr(self.rollout, name, place.views[name])

    def after_step(self, t: int) -> None:
        """See `RolloutWriter`."""
        for name in self._by_step:
            self._place.wrote(name, t)

    def end(self, facts: Tensor) -> None:
        """See `RolloutWriter`."""
        self._place.views["facts"].copy_(facts)
        self._tell_whole(*self._at_end, "facts")


class WholeWriter(RolloutWriter):
    """Elsewhere a rollout is gathered first: each kind of it is copied once, at its end. Not yet run on a GPU.

    The host waits for all copies together, and then tells of them.
    """

    def after_step(self, t: int) -> None:
        """See `RolloutWriter`: nothing is sent yet."""

    def end(self, facts: Tensor) -> None:
        """See `RolloutWriter`."""
        self._send_whole((*self._by_step, *self._at_end), facts)

    def _send_whole(self, names: tuple[str, ...], facts: Tensor) -> None:
        for name in names:
            self._place.views[name].copy_(getattr(self.rollout, name), non_blocking=True)
        self._place.views["facts"].copy_(facts, non_blocking=True)
        await_stream(self._device)
        self._tell_whole(*names, "facts")


class StepWriter(WholeWriter):
    """Elsewhere under UCC: every tensor is copied as it is produced, those of a step together. Not yet run on a GPU."""

    def after_step(self, t: int) -> None:
        """See `RolloutWriter`."""
        for name in self._by_step:
            self._place.views[name][t].copy_(getattr(self.rollout, name)[t], non_blocking=True)
        await_stream(self._device)
        for name in self._by_step:
            self._place.wrote(name, t)

    def end(self, facts: Tensor) -> None:
        """See `RolloutWriter`."""
        self._send_whole(tuple(self._at_end), facts)


def make_rollout_writer(sizes: ChannelSizes, device: torch.device) -> RolloutWriter:
    """That of an agent on a device."""
    if device.type == "cpu":
        return InPlaceWriter(sizes, device)
    return (StepWriter if sizes.channels.mode == "UCC" else WholeWriter)(sizes, device)
