"""The end of an agent whose trainers are on another host. Its proxy there uses the local end."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gmi_drl.comm.channels.agent_end import AgentEnd
from gmi_drl.comm.channels.channel_memory import kind_views
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.channels.remote_protocol import BYE, ELSEWHERE, LEASE, OPEN, PIECE_HEAD, TAKES_PARAMETERS, WAITS
from gmi_drl.comm.channels.remote_sender import RemoteSender
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.leases import ROLLOUTS_OF_ONE, Lease
from gmi_drl.comm.parameters.shared_memory import parts_of
from gmi_drl.errors import UsageError
from gmi_drl.layout.waits import FIRST_HAND

_BUFFERS = 2
"""Rollouts with memory here: one is written while the one before is sent."""


class ReceivedParameters:
    """The parameters, or the version alone, that came with the last place. See `Parameters`."""

    def __init__(self, sender: RemoteSender) -> None:
        self._sender = sender
        self.version: int | None = None

    def newest_version(self) -> int | None:
        """The version of those that have arrived; None before the first."""
        return self.version

    def await_first(self) -> None:
        """Do nothing: they come with the first place."""

    def read_into(self, tensors: Sequence[Tensor]) -> int:
        """Copy them. Returns their version. A place must have been leased before.

        Raises:
            UsageError: If the tensors do not fit them exactly, none has arrived, or this agent takes none.
        """
        if self.version is None:
            raise UsageError("parameters come with the first place: lease it first")
        for part, tensor in parts_of(self._sender.parameters, tensors):
            tensor.copy_(part)
        return self.version


class RemoteAgentEnd(AgentEnd):
    """See `AgentEnd`: the agent writes places here, and they are sent. New versions come with a place.

    Args:
        sender: To the proxy; this object owns it from now on.
        sizes: The same for all ends.
        hang_s: Seconds after which a living peer counts as silent.
        patience: How many times `hang_s` this waits for the proxy, which may wait for trainers.
        loading_s: Seconds to wait for the memory of the channels, which the first trainer makes when it knows the
            environments.
        device: From which places are copied here: from a GPU by DMA.
        takes_parameters: Whether this agent acts by them; else only the number of each version comes.
        predecessors: As of `join_as_agent`.

    Raises:
        UsageError: If the memory was made for other sizes.
        PeerDiedError: If the proxy or the first trainer has ended.
        PeerSilentError: If there is no memory within `loading_s`.
    """

    parameters: ReceivedParameters

    def __init__(
        self,
        sender: RemoteSender,
        sizes: ChannelSizes,
        hang_s: float,
        patience: int,
        loading_s: float,
        device: torch.device | str = "cpu",
        *,
        takes_parameters: bool = True,
        predecessors: int = 0,
    ) -> None:
        super().__init__(sizes)
        self.rollouts = predecessors * ROLLOUTS_OF_ONE
        self.parameters = ReceivedParameters(sender)
        self._sender, self._hang_s, self._patience = sender, hang_s, patience
        self._one = one = replace(sizes, rollouts=1)
        sender.parameters = torch.empty(sizes.parameter_bytes if takes_parameters else 0, dtype=torch.uint8)
        is_pinned = torch.device(device).type == "cuda"
        memories = [torch.zeros(one.batch_bytes, dtype=torch.uint8, pin_memory=is_pinned) for _ in range(_BUFFERS)]
        self._views = [{name: view[0] for name, view in kind_views(one, memory).items()} for memory in memories]
        self._bytes = [memory.numpy().data.cast("B") for memory in memories]
        sender.send(OPEN, TAKES_PARAMETERS.pack(takes_parameters) + sizes.text.encode())
        try:
            sender.wait_for(lambda: sender.is_ready, "made room for experience", max(hang_s, loading_s))
        except BaseException:
            sender.close()
            raise

    def note_elsewhere(self, *, waits: bool) -> None:
        """See `AgentEnd`."""
        self._sender.send(ELSEWHERE, WAITS.pack(waits))

    def close(self) -> None:
        """See `AgentEnd`: waits at most `hang_s` in all for what was sent, even after an error."""
        self._sender.finish(BYE, self._hang_s)
        self._sender.close()

    def _next_lease(self) -> Lease | None:
        self._wait(lambda: self._sender.has_sent(self.rollouts - _BUFFERS), "received experience", FIRST_HAND)
        self._sender.send(LEASE)
        self._wait(self._sender.has_reply, "leased a place", self._patience)
        grant = self._sender.take_grant()
        if grant is None:
            return None
        self.parameters.version = grant.version  # the newest after the lease
        self.rollouts += 1
        return grant.lease

    def _views_of(self, lease: Lease) -> dict[str, Tensor]:
        return self._views[(self.rollouts - 1) % _BUFFERS]

    def _send(self, trainer: int, record: Record) -> None:
        numbers = self._bytes[record.rollout % _BUFFERS][self._one.span(record.kind, 0, record.first, record.last)]
        self._sender.send_piece(record.rollout, PIECE_HEAD.pack(trainer, *record), numbers)

    def _wait(self, is_done: Callable[[], bool], action: str, patience: int) -> None:
        with self._waiting():
            self._sender.wait_for(is_done, action, patience * self._hang_s)
