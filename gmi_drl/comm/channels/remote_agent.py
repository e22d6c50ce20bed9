"""The end of an agent whose trainers are on another host. Its stand-in there has the end that is joined to them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gmi_drl.comm.channels.agent_end import AgentEnd
from gmi_drl.comm.channels.channel_memory import kind_views
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.channels.remote_protocol import BYE, LEASE, OPEN, PIECE_OF
from gmi_drl.comm.channels.remote_sender import RemoteSender
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.comm.parameters.shared_memory import parts_of
from gmi_drl.errors import UsageError
from gmi_drl.layout.waits import FIRST_HAND

_BUFFERS = 2
"""Rollouts that have room here: one is written while the one before is sent."""


class ReceivedParameters:
    """Those that came with the last place. See `Parameters`."""

    def __init__(self, carrier: RemoteSender) -> None:
        self._carrier = carrier
        self.version: int | None = None

    def newest_version(self) -> int | None:
        """Of those that have come; None before the first."""
        return self.version

    def read_into(self, tensors: Sequence[Tensor]) -> int:
        """Copy them; their version. A place must have been leased before.

        Raises:
            UsageError: If the tensors take other room, or none was.
        """
        if self.version is None:
            raise UsageError("parameters come with the first place: lease it first")
        for part, tensor in parts_of(self._carrier.parameters, tensors):
            tensor.copy_(part)
        return self.version


class RemoteAgentEnd(AgentEnd):
    """See `AgentEnd`: places are written here, and carried. The parameters come with them, unless they are here.

    Args:
        carrier: To the stand-in; from now on this object's.
        sizes: The same for all ends.
        hang_s: Seconds after which a peer that lives counts as silent.
        patience: How many times `hang_s` the stand-in is waited for, which may wait for trainers.
        loading_s: For the memory of the channels, which the first trainer makes when it knows of the worlds.
        device: From which places are copied here: from a GPU by DMA (not yet run on one).

    Raises:
        UsageError: If the memory was made for other sizes.
        PeerDiedError: If the stand-in or the first trainer has ended.
        PeerSilentError: If there is no memory within `loading_s`.
    """

    parameters: ReceivedParameters

    def __init__(
        self,
        carrier: RemoteSender,
        sizes: ChannelSizes,
        hang_s: float,
        patience: int,
        loading_s: float,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(sizes)
        self.parameters = ReceivedParameters(carrier)
        self._carrier, self._hang_s, self._patience = carrier, hang_s, patience
        self._one = one = replace(sizes, rollouts=1)
        carrier.parameters = torch.empty(sizes.parameter_bytes, dtype=torch.uint8)
        is_pinned = torch.device(device).type == "cuda"
        memories = [torch.zeros(one.batch_bytes, dtype=torch.uint8, pin_memory=is_pinned) for _ in range(_BUFFERS)]
        self._views = [{name: view[0] for name, view in kind_views(one, memory).items()} for memory in memories]
        self._bytes = [memory.numpy().data.cast("B") for memory in memories]
        carrier.say(OPEN, sizes.text.encode())
        try:
            carrier.wait_for(lambda: carrier.has_room, "told of room for experience", max(hang_s, loading_s))
        except BaseException:
            carrier.close()
            raise

    def close(self) -> None:
        """See `AgentEnd`: what was sent is waited for, `hang_s` in all; who has failed says so after it."""
        self._carrier.finish(BYE, self._hang_s)
        self._carrier.close()

    def _next_lease(self) -> Lease | None:
        self._wait(lambda: self._carrier.has_sent(self.rollouts - _BUFFERS), "taken experience", FIRST_HAND)
        self._carrier.say(LEASE)
        self._wait(self._carrier.has_answered, "leased a place", self._patience)
        grant = self._carrier.take_grant()
        if grant is None:
            return None
        self.parameters.version = grant.version  # the newest after the lease
        self.rollouts += 1
        return grant.lease

    def _views_of(self, lease: Lease) -> dict[str, Tensor]:
        return self._views[(self.rollouts - 1) % _BUFFERS]

    def _send(self, trainer: int, record: Record) -> None:
        numbers = self._bytes[record.rollout % _BUFFERS][self._one.span(record.kind, 0, record.first, record.last)]
        self._carrier.put(record.rollout, PIECE_OF.pack(trainer, *record), numbers)

    def _wait(self, is_done: Callable[[], bool], action: str, patience: int) -> None:
        with self._waiting():
            self._carrier.wait_for(is_done, action, patience * self._hang_s)
