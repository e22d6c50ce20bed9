"""A client whose server is on another host: `StreamClient` with slots of its own, which go over a connection."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from select import POLLIN, POLLOUT, poll

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.comm.streams.client import StreamClient
from gmi_drl.comm.streams.sizes import StreamSizes
from gmi_drl.comm.streams.slot_link import SlotLink
from gmi_drl.comm.streams.slots import own_slots
from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError, UsageError

Again = Callable[[float], FramedConnection]
"""Connects to the server once more, within so many seconds, with the errors of `host_links.connect`."""

_NAP_S = 0.5


class ServerLink:
    """Stands for the notifier of the client: what it would wake its server for is sent. One thread uses it.

    The system sends a request while the client does other things, if the socket takes the whole of it
    (`links.send_buffer`). If it takes a part, the rest goes on when the client posts, waits for an answer or leaves.

    An ended server may be started again: then what is open is sent to its successor, once this waits for an answer.

    Args:
        link: To the server.
        own: The id of this GMI.
        hang_s: Seconds after which a living server counts as silent, and that a successor is waited for.
        again: Connects to a successor; None: there is none.
    """

    def __init__(self, link: SlotLink, own: int, hang_s: float, again: Again | None = None) -> None:
        self.own, self.hang_s, self._again = own, hang_s, again
        self._take(link)

    @property
    def ready(self) -> str:
        """The sizes that the server has sent; empty before."""
        return self._link.ready

    def notify(self, peer: int) -> None:
        """Send what the client has written, as far as the connection takes it now."""
        self._link.send()

    def wait(self, is_done: Callable[[], bool], peer: int, action: str, most_s: float | None = None) -> None:
        """Receive, and send what is left, until the condition is true.

        Args:
            is_done: The condition.
            peer: The server.
            action: What it does, for errors.
            most_s: Seconds to wait; None: `hang_s`.

        Raises:
            PeerDiedError: If the server has ended, and none succeeds it.
            PeerSilentError: If the condition is still false after that time, in which nothing has moved, or no
                successor has come within `hang_s`.
        """
        waiting, who = WaitClock(), f"GMI {peer} on another host"
        most_s = self.hang_s if most_s is None else most_s
        while not is_done():
            if not self._link.connection.is_open:
                ended = PeerDiedError(f"{who} ended and has not {action} for GMI {self.own}: its log says why")
                self._connect_to_successor(ended)
                waiting = WaitClock()
            connection = self._link.connection
            waiting.restart_on_change((connection.sent, connection.received))
            waiting.warn_if_slow(lambda: f"GMI {self.own} waits until {who} has {action}")
            if waiting.look() > most_s:
                text = f"{who} has not {action} for {most_s:g} s while GMI {self.own} waited"
                raise PeerSilentError(f"{text}: see the logs of both nodes, or raise hang_s")
            self._sleep(min(_NAP_S, most_s - waiting.seconds))
            self._link.receive()

    def wait_at_most(self, is_done: Callable[[], bool], most_s: float) -> bool:
        """See `Notifier.wait_at_most`, of a server that may be succeeded: `wait` has waited for that."""
        return is_done()

    def watch_successor(self, peer: int) -> None:
        """Do nothing: the connection shows its end."""

    def close(self) -> None:
        """Send what is left, `hang_s` at most, and close the connection. No successor is told (`StreamServer`)."""
        self._again = None
        with suppress(GmiError):
            self.wait(lambda: not self._link.connection.is_sending, self._link.other, "received what is left")
        self.drop()

    def drop(self) -> None:
        """Close the connection at once."""
        self._link.connection.close()

    def _connect_to_successor(self, ended: PeerDiedError) -> None:
        """Connect to the next process of the server, and send it what is open.

        Raises:
            PeerDiedError: `ended`, if there is none, or the same process has closed the connection.
            PeerSilentError: If it has not come within `hang_s`.
        """
        before, deadline = self._link.connection, time.monotonic() + self.hang_s
        last: GmiError = ended
        is_late = False  # after the deadline comes one attempt more: this process may have been stopped meanwhile
        while self._again and not is_late:
            left_s = deadline - time.monotonic()
            is_late = left_s <= 0
            try:
                connection = self._again(max(left_s, _NAP_S))
            except (PeerDiedError, PeerSilentError, MachineError) as error:  # it has ended as well, or is out of reach
                last = error
                time.sleep(min(_NAP_S, max(0.0, deadline - time.monotonic())))
                continue
            if connection.predecessors <= before.predecessors:
                connection.close()
                raise ended
            before.close()
            self._take(self._link.over(connection))
            self._link.send()
            return
        if self._again is None:
            raise ended
        raise PeerSilentError(f"{ended}, and no successor has come for {self.hang_s:g} s (hang_s)") from last

    def _take(self, link: SlotLink) -> None:
        self._link, self._poll = link, poll()
        self._poll.register(link.connection, POLLIN)

    def _sleep(self, seconds: float) -> None:
        connection = self._link.connection
        self._poll.modify(connection, POLLIN | POLLOUT * connection.is_sending)
        self._poll.poll(max(0.0, 1000 * seconds))
        connection.flush()


def far_client(
    connection: FramedConnection,
    own: int,
    sizes: StreamSizes,
    hang_s: float,
    loading_s: float,
    again: Again | None = None,
) -> StreamClient:
    """The end of a client whose server is on another host. Returns when the server is ready.

    Args:
        connection: To the server; the result owns it.
        own: The client's id.
        sizes: Of the server's stream.
        hang_s: Seconds after which a living server counts as silent.
        loading_s: Seconds to wait for the server, which may wait for environments of others.
        again: See `ServerLink`.

    Raises:
        UsageError: If the server has other sizes.
        PeerDiedError: If the server has ended, and none succeeds it.
        PeerSilentError: If it is not ready in this time.
    """
    server = sizes.server_of(own)
    memory = own_slots(replace(sizes, servers=(server,), clients=((own,),)))
    link = SlotLink(connection, memory, range(sizes.members), server, is_client=True)
    waker = ServerLink(link, own, hang_s, again)
    try:
        waker.wait(lambda: bool(waker.ready), server, "opened its inference stream", max(hang_s, loading_s))
        if difference := sizes.difference(waker.ready):
            raise UsageError(f"the inference stream of GMI {server} has other sizes than this GMI's: {difference}")
    except BaseException:
        waker.drop()
        raise
    return StreamClient(memory, waker)
