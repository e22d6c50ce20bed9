"""Who does for an agent of another host what that agent would do on the host of its trainers.

A process for each such agent: to trainers its end is the agent's, and it ends as soon as the connection does.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from select import POLLIN, POLLOUT, poll

import torch

from gmi_drl.comm.channels import agent_end
from gmi_drl.comm.channels.channel_memory import is_made
from gmi_drl.comm.channels.local_agent import ROOM as ROOM_MADE
from gmi_drl.comm.channels.local_agent import LocalAgentEnd
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.channels.remote_protocol import (
    BYE,
    GRANT,
    GRANTED,
    LEASE,
    NO_MORE,
    OPEN,
    PIECE,
    PIECE_OF,
    ROOM,
    STILL,
    TELL,
    TO,
)
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.links.framing import LOST, FramedConnection
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, MailboxMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError
from gmi_drl.layout.waits import Waits

LAST_WORDS_S = 5.0
"""For the agent to hear why its stand-in gives up."""

_LOOK_MS = 100

Piece = tuple[int, Record]
"""What `LocalAgentEnd.send` tells, and whom."""


class AgentProxy:
    """Stands in for one agent.

    It waits for two sides at once: for the agent without a deadline, as trainers have one for that, and for trainers as
    an agent does. What has come is passed on also while a place is waited for, since who has the next place to give may
    wait for just that; the agent is told that trainers are not silent.

    Args:
        wire: To the agent; from now on this object's.
        memory: Of `create_memory`; it stays the caller's.
        mailboxes: Whose notifier; it stays the caller's.
        gmi_id: Of the agent.
        hang_s: Seconds after which a trainer that lives counts as silent.
        tell: Sends a message to a GMI, as from this one.
        waits: As of `agent_end`.
    """

    def __init__(
        self,
        wire: FramedConnection,
        memory: int,
        mailboxes: Mailboxes,
        gmi_id: int,
        hang_s: float,
        tell: Callable[[str, int], object],
        waits: Waits | None = None,
    ) -> None:
        self._wire, self._memory, self._mailboxes, self._gmi_id, self._hang_s = wire, memory, mailboxes, gmi_id, hang_s
        self._tell, self._waits = tell, waits
        self._notifier = Notifier(mailboxes, MailboxMemory(mailboxes.memory), gmi_id, hang_s)
        self._notifier.watch_descriptor(wire.fileno())
        self._sizes: ChannelSizes | None = None
        self._end: LocalAgentEnd | None = None
        self._version: int | None = None  # that the agent has
        self._is_asked = self._is_over = self._has_gone = False
        self._held: dict[tuple[Lease, int], list[int]] = {}  # steps that have come of each kind, by place and rollout
        self._piece: Piece | None = None  # whose numbers come
        self._heard: object = None  # what the trainers have, as the agent was told

    def serve(self) -> None:
        """Until the agent has ended, or says that this was all.

        Raises:
            GmiError: If a trainer is lost, or the agent says what does not follow. It was told so.
        """
        try:
            while self._sizes is None and not self._is_over:
                self._rest()
                self._hear_all()
            if self._sizes is not None and not self._is_over:
                self._open(self._sizes)
            if self._end is not None:
                self._pass_on(self._end)
        except GmiError as error:
            self._give_up(error)
            raise
        except Exception as error:
            self._give_up(GmiError(f"{type(error).__name__}: {error}"))
            raise

    def close(self) -> None:
        """End the connection."""
        if self._end is not None:
            self._end.close()
        self._notifier.close()
        self._wire.close()

    def _open(self, sizes: ChannelSizes) -> None:
        """Join the channels, as soon as they have their memory: worlds of other agents may load for long."""

        def is_there() -> bool:
            self._hear_all()
            return self._is_over or is_made(self._memory)

        self._notifier.wait_for(is_there, sizes.trainers[:1], "made the memory of the channels", math.inf)
        if not self._is_over:
            self._end = agent_end(self._memory, self._mailboxes, self._gmi_id, sizes, self._hang_s, waits=self._waits)
            self._raw = torch.empty(sizes.parameter_bytes, dtype=torch.uint8)
            self._wire.tell(ROOM)

    def _pass_on(self, end: LocalAgentEnd) -> None:
        while not self._is_over:
            self._advance(end)
            if self._is_asked and not self._is_over:
                answered, news = partial(self._is_answered, end), partial(self._news, end)
                self._notifier.wait_for(answered, end.sizes.trainers, ROOM_MADE, end.patience, news)
            elif not self._is_over:
                self._rest()

    def _is_answered(self, end: LocalAgentEnd) -> bool:
        self._advance(end)
        return self._is_over or not self._is_asked

    def _news(self, end: LocalAgentEnd) -> object:
        """That trainers are not silent, which the agent is told, too."""
        heard, self._heard = self._heard, end.heard
        if heard != self._heard and not self._wire.is_sending:
            self._wire.tell(STILL)
        return self._heard

    def _rest(self) -> None:
        """Until the agent says something, or hears what was said to it."""
        looking = poll()
        looking.register(self._wire, POLLIN | POLLOUT * self._wire.is_sending)
        looking.poll()

    def _advance(self, end: LocalAgentEnd) -> None:
        """Do what can be done without waiting."""
        self._hear_all()
        if self._is_asked and not self._is_over:
            self._grant(end)
        if self._wire.is_open:
            self._notifier.watch_descriptor(self._wire.fileno(), is_sending=self._wire.is_sending)

    def _hear_all(self) -> None:
        self._wire.flush()
        for kind, said in self._wire.read():
            self._has_come()
            self._hear(kind, said)
        self._has_come()
        if not self._wire.is_open and not self._has_gone:
            self._is_over = self._has_gone = True
            self._notifier.unwatch_descriptor(self._wire.fileno())

    def _hear(self, kind: int, said: bytes) -> None:
        if kind == PIECE:
            self._await_piece(PIECE_OF.unpack(said))
        elif kind == LEASE:
            self._is_asked = True
        elif kind == BYE:
            self._is_over = True
        elif kind == TELL:
            self._tell(said[TO.size :].decode(), *TO.unpack_from(said))
        elif kind == OPEN:
            self._sizes = ChannelSizes.from_text(said.decode())
        else:
            raise GmiError(f"GMI {self._gmi_id} says what its stand-in does not know, {kind}")

    def _await_piece(self, told: tuple[int, ...]) -> None:
        """Let the numbers come to where they belong, if they follow what has come before."""
        if self._piece is not None:
            raise GmiError(f"GMI {self._gmi_id} has sent {told} before the numbers of {self._piece}")
        trainer, record = told[0], Record(*told[1:])
        kind, held = record.kind, (Lease(trainer, record.place), record.rollout)
        came = self._held.get(held)
        if self._sizes is None or self._end is None or came is None or not 0 <= kind < len(came):
            raise GmiError(f"GMI {self._gmi_id} has sent {told}, for which it has no place")
        steps = [self._sizes.steps_of(one) for one in self._sizes.form.kinds]
        if came[kind] != record.first or not record.first < record.last <= steps[kind]:
            raise GmiError(f"GMI {self._gmi_id} has sent {told} when step {came[kind]} of the kind was to come")
        came[kind] = record.last
        if came == steps:
            del self._held[held]
        self._piece = trainer, record
        self._wire.receive(self._end.bytes_of(trainer, record))

    def _has_come(self) -> None:
        """Tell the trainer of a piece whose numbers have."""
        if self._piece is not None and not self._wire.is_receiving:
            assert self._end is not None
            self._end.send(*self._piece)
            self._piece = None

    def _grant(self, end: LocalAgentEnd) -> None:
        """Give the agent its place, if there is one, and the newest parameters, which are read after it is leased."""
        lease = end.lease_now()
        if lease is None:
            if end.is_closed:
                self._is_asked = False
                self._wire.tell(NO_MORE)
            return
        self._is_asked = False
        self._held[lease, end.rollouts - 1] = [0] * len(end.sizes.form.kinds)
        version = end.parameters.newest_version()
        is_newer = version is None or version != self._version
        if is_newer:
            self._version = end.parameters.read_into([self._raw])
        self._wire.tell(GRANTED, GRANT.pack(*lease, self._version, is_newer))
        if is_newer:
            self._wire.send(self._raw.numpy().data)

    def _give_up(self, error: GmiError) -> None:
        """Tell the agent why, and give it time to hear it."""
        self._wire.tell(LOST, f"{type(error).__name__}\n{error}".encode())
        looking, waiting = poll(), WaitClock()
        looking.register(self._wire, POLLIN)
        while self._wire.is_open and waiting.look() < LAST_WORDS_S:
            looking.modify(self._wire, POLLIN | POLLOUT * self._wire.is_sending)
            looking.poll(_LOOK_MS)
            self._wire.flush()
            with suppress(GmiError):  # what it still says is of no more use
                for _ in self._wire.read():
                    pass
