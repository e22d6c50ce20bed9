"""The proxy of an agent: it does on the host of the trainers what the agent would do there.

One process has the proxies of all agents of another host, each with a thread of its own (`proxy_host.py`). To trainers
the end of a proxy is the agent's, and it ends as soon as the connection does; the others go on. An agent that is
started again connects again, and gets another proxy.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from select import POLLIN, POLLOUT, poll

from gmi_drl.comm.channels.channel_memory import is_made
from gmi_drl.comm.channels.local_agent import MADE_ROOM, LocalAgentEnd
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.channels.remote_protocol import (
    BYE,
    ELSEWHERE,
    FORWARD,
    GRANT,
    GRANTED,
    LEASE,
    NO_MORE,
    OPEN,
    PIECE,
    PIECE_HEAD,
    READY,
    RECIPIENT,
    TAKES_PARAMETERS,
    TRAINERS_ALIVE,
    WAITS,
)
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.links.framing import FAILURE, FramedConnection, naming
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError

FINAL_READ_S = 5.0
"""Seconds for the agent to read why its proxy gives up."""

_LOOK_MS = 100

Piece = tuple[int, Record]
"""The arguments of `LocalAgentEnd.send`."""


class AgentProxy:
    """The proxy of one agent.

    It waits for two sides at once: for the agent without a deadline, because trainers have one for that, and for
    trainers as an agent does. It passes pieces on even while it waits for a place, because the trainer that has the
    next place to give may wait for just these; it tells the agent when trainers send keepalives.

    Args:
        connection: To the agent; this object owns it from now on.
        host: Of the trainers.
        gmi_id: Of the agent.
        forward: Sends a message to a GMI, as from this agent.
    """

    def __init__(
        self,
        connection: FramedConnection,
        host: ProxyHost,
        gmi_id: int,
        forward: Callable[[str, int], object],
    ) -> None:
        self._connection, self._host, self._gmi_id, self._forward = connection, host, gmi_id, forward
        self._notifier: Notifier | None = None  # from OPEN on: until then trainers must not take it for a living agent
        self._sizes: ChannelSizes | None = None
        self._end: LocalAgentEnd | None = None
        self._takes_parameters = False
        self._version: int | None = None  # the version that the agent has
        self._is_lease_requested = self._is_ended = self._is_disconnected = False
        self._unfinished: dict[tuple[Lease, int], list[int]] = {}  # arrived steps of each kind, by place and rollout
        self._piece: Piece | None = None  # whose data is arriving
        self._keepalives: object = None  # of the trainers, as the agent knows them

    def serve(self) -> None:
        """Serve until the agent has ended, or has sent everything.

        Raises:
            GmiError: If a trainer is lost, or the agent sends something out of order. The agent gets the same error.
        """
        try:
            while self._sizes is None and not self._is_ended:
                sleep_until_ready(self._connection)
                self._read_all()
            if self._sizes is not None and not self._is_ended:
                self._notifier = self._host.notifier(self._gmi_id)
                self._notifier.watch_descriptor(self._connection.fileno())
                self._open(self._sizes, self._notifier)
                if self._end is not None:
                    self._serve_leases(self._end, self._notifier)
        except GmiError as error:
            give_up(self._connection, error)
            raise
        except Exception as error:
            give_up(self._connection, GmiError(f"{type(error).__name__}: {error}"))
            raise

    def close(self) -> None:
        """Close the connection, and end as this agent."""
        if self._end is not None:
            self._end.close()
        notifier = self._notifier or self._host.notifier(self._gmi_id)
        notifier.leave()
        notifier.close()
        self._connection.close()

    def _open(self, sizes: ChannelSizes, notifier: Notifier) -> None:
        """Join the channels as soon as they have their memory: environments of other agents may load for long."""

        def is_there() -> bool:
            self._read_all()
            return self._is_ended or is_made(self._host.memory)

        notifier.wait_for(is_there, sizes.trainers[:1], "made the memory of the channels", math.inf)
        if not self._is_ended:
            self._end = self._host.join_as_agent(self._gmi_id, sizes, self._connection.predecessors)
            self._connection.send_frame(READY)

    def _serve_leases(self, end: LocalAgentEnd, notifier: Notifier) -> None:
        while not self._is_ended:
            self._advance(end)
            if self._is_lease_requested and not self._is_ended:
                is_answered, progress = partial(self._is_answered, end), partial(self._progress, end)
                notifier.wait_for(is_answered, end.sizes.trainers, MADE_ROOM, end.patience, progress)
            elif not self._is_ended:
                sleep_until_ready(self._connection)

    def _is_answered(self, end: LocalAgentEnd) -> bool:
        self._advance(end)
        return self._is_ended or not self._is_lease_requested

    def _progress(self, end: LocalAgentEnd) -> object:
        """The trainers' keepalives. The agent gets one, too, when they have changed."""
        before, self._keepalives = self._keepalives, end.keepalives
        if before != self._keepalives and not self._connection.is_sending:
            self._connection.send_frame(TRAINERS_ALIVE)
        return self._keepalives

    def _advance(self, end: LocalAgentEnd) -> None:
        """Do what can be done without waiting."""
        self._read_all()
        if self._is_lease_requested and not self._is_ended:
            self._grant(end)
        if self._notifier is not None and self._connection.is_open:
            self._notifier.watch_descriptor(self._connection.fileno(), is_sending=self._connection.is_sending)

    def _read_all(self) -> None:
        self._connection.flush()
        with naming(f"GMI {self._gmi_id}"):
            for kind, payload in self._connection.read():
                self._finish_piece()
                self._handle(kind, payload)
        self._finish_piece()
        if not self._connection.is_open and not self._is_disconnected:
            self._is_ended = self._is_disconnected = True
            if self._notifier is not None:
                self._notifier.unwatch_descriptor(self._connection.fileno())

    def _handle(self, kind: int, payload: bytes) -> None:
        if kind == PIECE:
            self._start_piece(PIECE_HEAD.unpack(payload))
        elif kind == LEASE:
            self._is_lease_requested = True
        elif kind == BYE:
            self._is_ended = True
        elif kind == FORWARD:
            self._forward(payload[RECIPIENT.size :].decode(), *RECIPIENT.unpack_from(payload))
        elif kind == ELSEWHERE and self._end is not None:
            self._end.note_elsewhere(waits=WAITS.unpack(payload)[0])
        elif kind == OPEN and self._sizes is None:
            (self._takes_parameters,) = TAKES_PARAMETERS.unpack_from(payload)
            self._sizes = ChannelSizes.from_text(payload[TAKES_PARAMETERS.size :].decode())
        else:
            raise GmiError(f"GMI {self._gmi_id} sent a frame of unknown kind {kind}, or twice")

    def _start_piece(self, numbers: tuple[int, ...]) -> None:
        """Receive a piece's data where it belongs, if it follows what has arrived before."""
        if self._piece is not None:
            raise GmiError(f"GMI {self._gmi_id} has sent the piece {numbers} before the data of {self._piece}")
        trainer, record = numbers[0], Record(*numbers[1:])
        kind, key = record.kind, (Lease(trainer, record.place), record.rollout)
        came = self._unfinished.get(key)
        if self._sizes is None or self._end is None or came is None or not 0 <= kind < len(came):
            raise GmiError(f"GMI {self._gmi_id} has sent the piece {numbers}, but holds no place for it")
        steps = [self._sizes.steps_of(one) for one in self._sizes.form.kinds]
        if came[kind] != record.first or not record.first < record.last <= steps[kind]:
            raise GmiError(
                f"GMI {self._gmi_id} has sent the piece {numbers} when step {came[kind]} of the kind was expected"
            )
        came[kind] = record.last
        if came == steps:
            del self._unfinished[key]
        self._piece = trainer, record
        self._connection.receive_data(self._end.bytes_of(trainer, record))

    def _finish_piece(self) -> None:
        """Send the record of a piece to the trainer, once its data has arrived."""
        if self._piece is not None and not self._connection.is_receiving:
            assert self._end is not None
            self._end.send(*self._piece)
            self._piece = None

    def _grant(self, end: LocalAgentEnd) -> None:
        """Lease a place for the agent, if one is free, and send it with the newest version: its parameters if taken.

        That is read after the lease, which bounds the lag.
        """
        lease = end.lease_now()
        if lease is None:
            if end.is_closed:
                self._is_lease_requested = False
                self._connection.send_frame(NO_MORE)
            return
        self._is_lease_requested = False
        self._unfinished[lease, end.rollouts - 1] = [0] * len(end.sizes.form.kinds)
        end.parameters.await_first()
        version = end.parameters.newest_version()
        if not self._takes_parameters or version == self._version:
            self._connection.send_frame(GRANTED, GRANT.pack(*lease, version, False))
            return
        self._version, copy = self._host.newest(end.parameters, end.sizes.parameter_bytes)
        self._connection.send_frame(GRANTED, GRANT.pack(*lease, self._version, True))
        self._connection.send_data(copy.numpy().data)


def give_up(connection: FramedConnection, error: GmiError) -> None:
    """Send an error to the GMI that a proxy acts for, and give it time to read it."""
    connection.send_frame(FAILURE, f"{type(error).__name__}\n{error}".encode())
    polling, waiting = poll(), WaitClock()
    polling.register(connection, POLLIN)
    while connection.is_open and waiting.look() < FINAL_READ_S:
        polling.modify(connection, POLLIN | POLLOUT * connection.is_sending)
        polling.poll(_LOOK_MS)
        connection.flush()
        with suppress(GmiError):  # what the GMI still sends is of no use
            for _ in connection.read():
                pass


def sleep_until_ready(connection: FramedConnection) -> None:
    """Sleep until the GMI that a proxy acts for has sent something, or takes more of what is sent to it."""
    polling = poll()
    polling.register(connection, POLLIN | POLLOUT * connection.is_sending)
    polling.poll()
