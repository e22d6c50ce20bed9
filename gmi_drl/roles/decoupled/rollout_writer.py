"""Writes an agent's rollout into a leased slot of the channels, while it is played or at its end."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.channels import ChannelSizes, Place
from gmi_drl.comm.memory.pinned import await_stream

_EVALUATED = ("log_prob", "bootstrap")
"""Kinds with an entry for each step that are complete only when the rollout has been evaluated."""


class RolloutWriter(ABC):
    """Writes the rollouts of one agent, one after another, each into the slot that was leased for it.

    Args:
        sizes: Of the channels.
        device: Of the agent.

    Attributes:
        rollout: For the actor to fill.
    """

    _place: Place

    def __init__(self, sizes: ChannelSizes, device: torch.device) -> None:
        form = sizes.form
        self.rollout, self._device = Rollout(form, device), device
        self._by_step = [kind.name for kind in form.kinds if kind.is_stepwise and kind.name not in _EVALUATED]
        self._at_end = [kind.name for kind in form.kinds if kind.name not in (*self._by_step, "facts")]

    def begin(self, place: Place) -> None:
        """Write into this slot from now on."""
        self._place = place

    @abstractmethod
    def after_step(self, t: int) -> None:
        """Called when the task's results of step `t` are in the rollout."""

    @abstractmethod
    def end(self, facts: Tensor) -> None:
        """Send the rest of the rollout, with the agent's `facts` about it, float64 `[len(FACTS)]`."""

    def _commit(self, *names: str) -> None:
        """Mark these kinds as whole, and the rollout as complete."""
        for name in names:
            self._place.wrote_whole(name)
        self._place.commit()


class InPlaceWriter(RolloutWriter):
    """On a CPU: the rollout's tensors are views of the slot, so that results are written once, where trainers read."""

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
        self._commit(*self._at_end, "facts")


class WholeWriter(RolloutWriter):
    """On a GPU: each kind is copied once, at the end of the rollout.

    The host waits for all copies together before it commits the rollout.
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
        self._commit(*names, "facts")


class StepWriter(WholeWriter):
    """On a GPU in mode UCC: the tensors of each step are copied after it."""

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
    """The writer for an agent on this device."""
    if device.type == "cpu":
        return InPlaceWriter(sizes, device)
    return (StepWriter if sizes.channels.mode == "UCC" else WholeWriter)(sizes, device)
