"""The dispenser: what an agent has written goes into channels by kind, as records (paper section 4.2)."""

from torch import Tensor

from gmi_drl.comm.channels.records import Record, Send
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.errors import UsageError


class Channel:
    """One kind of a rollout: how many steps were written and sent, and how many are sent at a time.

    Args:
        kind: Its index among the kinds.
        name: Its name.
        steps: Its steps in a rollout.
        transfer: Steps that one record announces.
    """

    def __init__(self, kind: int, name: str, steps: int, transfer: int) -> None:
        self.kind, self.name, self.steps, self.transfer = kind, name, steps, transfer
        self.written = self.sent = self.due = 0
        self.begin()

    def begin(self) -> None:
        """Begin a new rollout."""
        self.written, self.sent = 0, 0
        self.due = min(self.transfer, self.steps)


class Place:
    """Room for one rollout, which an agent has leased. The agent copies tensors into `views` and then calls `wrote`.

    A trainer reads at once what is announced, so the agent first waits for its copies on a GPU (`pinned.await_stream`),
    once for all steps that it announces together.

    Attributes:
        trainer: The trainer that learns from it, by rank.
        number: The number of the place.
        rollout: The agent's own number of the rollout (`AgentEnd.rollouts`).
        views: Memory of each kind, by name: `[T, N, ...]`, on the CPU, or on the agent's GPU if it is direct.
    """

    def __init__(
        self, lease: Lease, rollout: int, views: dict[str, Tensor], channels: dict[str, Channel], send: Send
    ) -> None:
        self.trainer, self.number, self.rollout, self.views = lease.trainer, lease.place, rollout, views
        self._channels, self._send = channels, send
        self.is_committed = False
        for channel in channels.values():
            channel.begin()

    def wrote(self, kind: str, step: int) -> None:
        """Note that a step of a kind is in its view. Its record is sent when enough steps for a transfer are there.

        Raises:
            UsageError: If it is not the kind's next step.
        """
        channel = self._channels[kind]
        if step != channel.written or step >= channel.steps or self.is_committed:
            raise UsageError(f"step {step} of {kind!r} was written when step {channel.written} was expected")
        written = step + 1
        if written == channel.due:
            self._send(self.trainer, Record(self.number, self.rollout, channel.kind, channel.sent, written))
            channel.sent = written
            channel.due = min(written + channel.transfer, channel.steps)
        channel.written = written  # last: a record that could not be sent can be sent again

    def wrote_whole(self, kind: str) -> None:
        """Note that the rest of a kind is in its view; errors as of `wrote`."""
        channel = self._channels[kind]
        for step in range(channel.written, channel.steps):
            self.wrote(kind, step)

    def commit(self) -> None:
        """End the rollout.

        Raises:
            UsageError: If a kind is not whole.
        """
        missing = [f"{c.name} has {c.written} of {c.steps}" for c in self._channels.values() if c.written != c.steps]
        if missing:
            raise UsageError(f"a rollout was committed before it was whole: {', '.join(missing)} steps")
        self.is_committed = True


def channels_of(sizes: ChannelSizes) -> dict[str, Channel]:
    """The channels of one agent, by kind."""
    return {
        kind.name: Channel(number, kind.name, sizes.steps_of(kind), sizes.steps_of_transfer(kind))
        for number, kind in enumerate(sizes.form.kinds)
    }
