"""The sizes of the channels of a pool. Pure data."""

import json
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import Any, Self

from gmi_drl.errors import UsageError
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import Kind, RolloutForm
from gmi_drl.workload.spaces import action_of, observation_of, to_json

_NUMBERS = ("rollouts", "agents", "trainers", "parameter_bytes", "direct", "readers")


@dataclass(frozen=True)
class ChannelSizes:
    """What all ends of the channels must agree on.

    Args:
        form: Of a rollout.
        rollouts: R, rollouts of each trainer in an update.
        agents: The ids of the GMIs that act.
        trainers: The ids of the GMIs that learn from them, by rank. The first makes the memory and publishes the
            parameters.
        channels: Of the layout.
        parameter_bytes: Of the parameters that go back (`parameters.packed_bytes`).
        direct: For each trainer the agents that write into its memory on their GPU (`gpu_direct.py`); empty if all
            write into the host's.
        readers: The ids of GMIs that only read the parameters: policy workers.

    Raises:
        UsageError: If a number is too small, a GMI is there twice, or `direct` is not of these agents and trainers.
    """

    form: RolloutForm
    rollouts: int
    agents: tuple[int, ...]
    trainers: tuple[int, ...]
    channels: Channels
    parameter_bytes: int
    direct: tuple[tuple[int, ...], ...] = ()
    readers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or not self.agents or not self.trainers or self.parameter_bytes < 1:
            numbers = f"not {self.rollouts}, {self.agents}, {self.trainers} and {self.parameter_bytes}"
            raise UsageError(f"channels need rollouts, agents, trainers and parameter_bytes, one at least, {numbers}")
        ends = self.agents + self.trainers + self.readers
        if len(set(ends)) != len(ends):
            raise UsageError(f"channels join GMIs, each once: agents {self.agents} and trainers {self.trainers}")
        if len(self.direct) not in (0, len(self.trainers)) or not {*chain(*self.direct)} <= {*self.agents}:
            raise UsageError(f"{self.direct} are not agents of {self.agents} for each trainer of {self.trainers}")

    @property
    def batches(self) -> int:
        """Batches of a trainer."""
        return self.channels.batches

    @property
    def places(self) -> int:
        """Slots of a trainer, each for one rollout."""
        return self.batches * self.rollouts

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the kinds of a batch begin in its memory, `[R, *kind.shape]` each, and its end."""
        return self.form.offsets(self.rollouts)

    @property
    def batch_bytes(self) -> int:
        """Bytes of R rollouts."""
        return self.offsets[-1]

    def direct_to(self, trainer: int) -> tuple[int, ...]:
        """The agents that write into the memory of a trainer's GPU, by its rank."""
        return self.direct[trainer] if self.direct else ()

    def span(self, kind: int, row: int, first: int, last: int) -> slice:
        """The bytes of steps `first` to `last` - 1 of a kind in rollout `row` of a batch."""
        nbytes = self.form.kinds[kind].nbytes
        of_step = nbytes // self.steps_of(self.form.kinds[kind])
        start = self.offsets[kind] + row * nbytes
        return slice(start + first * of_step, start + last * of_step)

    def steps_of_transfer(self, kind: Kind) -> int:
        """Steps of a kind that one record announces: as many as make a transfer (MCC), or one (UCC)."""
        return self.channels.steps_of_transfer(kind, self.steps_of(kind))

    def steps_of(self, kind: Kind) -> int:
        """The number of steps of a kind: T if it grows with every step, else 1."""
        return self.form.steps_of(kind)

    @cached_property
    def ring_records(self) -> int:
        """Records that may be in the ring from an agent to a trainer; see `Channels.ring_records`."""
        return self.channels.ring_records(self.form, self.rollouts, len(self.agents))

    @cached_property
    def rollout_records(self) -> int:
        """Records of one rollout."""
        return self.channels.records_of(self.form)

    @cached_property
    def text(self) -> str:
        """The sizes as JSON; equal sizes have equal texts."""
        parts = {name: getattr(self, name) for name in _NUMBERS}
        return json.dumps({**_form_json(self.form), **parts, **self.channels.model_dump()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The sizes with this `text`.

        Raises:
            UsageError: If it is none.
        """
        try:
            data = json.loads(text)
            form = _form_of({field.name: data.pop(field.name) for field in fields(RolloutForm)})
            channels = Channels(**{name: data.pop(name) for name in Channels.model_fields})
            agents, trainers, readers = (tuple(data.pop(name)) for name in ("agents", "trainers", "readers"))
            direct = tuple(map(tuple, data.pop("direct")))
            return cls(
                form, agents=agents, trainers=trainers, channels=channels, direct=direct, readers=readers, **data
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"this text has no channel sizes: {error!r}") from None

    def difference(self, text: str) -> str | None:
        """How another process's `text` differs from this one's, its numbers first; None if it does not."""
        theirs, ours = json.loads(text), json.loads(self.text)
        names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
        return ", ".join(f"{name} {theirs.get(name)} and {ours.get(name)}" for name in names) or None


def _form_json(form: RolloutForm) -> dict[str, Any]:
    sizes = {field.name: getattr(form, field.name) for field in fields(form)}
    return {**sizes, "observation": to_json(form.observation), "action": to_json(form.action)}


def _form_of(data: dict[str, Any]) -> RolloutForm:
    spaces = {"observation": observation_of(data["observation"]), "action": action_of(data["action"])}
    return RolloutForm(**{**data, **spaces})
