"""A client whose server is on another host: `StreamClient` with slots of its own, which go over a connection."""

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
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError

_NAP_S = 0.5


class ServerLink:
    """Stands for the notifier of the client: what it would wake its server for is sent. One thread uses it.

    The system sends a request while the client does other things, if the socket takes the whole of it
    (`links.send_buffer`). If it takes a part, the rest goes on when the client posts, waits for an answer or leaves.

    Args:
        link: To the server.
        own: The id of this GMI.
        hang_s: Seconds after which a living server counts as silent.
    """

    def __init__(self, link: SlotLink, own: int, hang_s: float) -> None:
        self.own, self.hang_s, self._link = own, hang_s, link
        self._poll = poll()
        self._poll.register(link.connection, POLLIN)

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
            PeerDiedError: If the server has ended.
            PeerSilentError: If the condition is still false after that time, in which nothing has moved.
        """
        connection, waiting = self._link.connection, WaitClock()
        most_s = self.hang_s if most_s is None else most_s
        while not is_done():
            who = f"GMI {peer} on another host"
            if not connection.is_open:
                raise PeerDiedError(f"{who} ended and has not {action} for GMI {self.own}: its log says why")
            waiting.restart_on_change((connection.sent, connection.received))
            waiting.warn_if_slow(lambda: f"GMI {self.own} waits until {who} has {action}")  # noqa: B023
            if waiting.look() > most_s:
                text = f"{who} has not {action} for {most_s:g} s while GMI {self.own} waited"
                raise PeerSilentError(f"{text}: see the logs of both nodes, or raise hang_s")
            self._sleep(min(_NAP_S, most_s - waiting.seconds))
            self._link.receive()

    def wait_at_most(self, is_done: Callable[[], bool], most_s: float) -> bool:
        """See `Notifier.wait_at_most`, of a server that may be succeeded: on another host none is."""
        return is_done()

    def watch_successor(self, peer: int) -> None:
        """Do nothing: it is the first process of the server that the client has heard of."""

    def close(self) -> None:
        """Send what is left, `hang_s` at most, and close the connection."""
        with suppress(GmiError):
            self.wait(lambda: not self._link.connection.is_sending, self._link.other, "received what is left")
        self._link.connection.close()

    def _sleep(self, seconds: float) -> None:
        connection = self._link.connection
        self._poll.modify(connection, POLLIN | POLLOUT * connection.is_sending)
        self._poll.poll(max(0.0, 1000 * seconds))
        connection.flush()


def far_client(
    connection: FramedConnection, own: int, sizes: StreamSizes, hang_s: float, loading_s: float
) -> StreamClient:
    """The end of a client whose server is on another host. Returns when the server is ready.

    Args:
        connection: To the server; the result owns it.
        own: The client's id.
        sizes: Of the server's stream.
        hang_s: Seconds after which a living server counts as silent.
        loading_s: Seconds to wait for the server, which may wait for environments of others.

    Raises:
        UsageError: If the server has other sizes.
        PeerDiedError: If the server has ended.
        PeerSilentError: If it is not ready in this time.
    """
    server = sizes.server_of(own)
    memory = own_slots(replace(sizes, servers=(server,), clients=((own,),)))
    link = SlotLink(connection, memory, range(sizes.members), server, is_client=True)
    waker = ServerLink(link, own, hang_s)
    try:
        waker.wait(lambda: bool(link.ready), server, "opened its inference stream", max(hang_s, loading_s))
        if difference := sizes.difference(link.ready):
            raise UsageError(f"the inference stream of GMI {server} has other sizes than this GMI's: {difference}")
    except BaseException:
        connection.close()
        raise
    return StreamClient(memory, waker)
