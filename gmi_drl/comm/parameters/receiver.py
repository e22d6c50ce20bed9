"""Receives the parameters of trainers on another host, for all policy workers of this one."""

import math
import os
import threading
import time
from select import POLLIN, POLLOUT, poll

import torch

from gmi_drl.comm.channels.remote_sender import error_of
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.links.framing import FAILURE, FramedConnection, naming
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.comm.parameters.host_memory import HostParameters
from gmi_drl.comm.parameters.proxy import INFO, LEAVE, NEWER, NEWEST, NUMBER, SIZES, TRAINERS_LIVE, VERSION
from gmi_drl.comm.parameters.shared_memory import Parameters
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError

_NAP_S = 0.5
_ASK_S = 1.0  # from an answer which version is the newest to the next question, at most
_INTERVALS = 8  # `hang_s` has at least so many of them: a reader needs two answers within it


class ParameterReceiver:
    """The policy worker that receives them: a thread asks for something newer than it has, and passes it on.

    Args:
        connection: To the proxy; this object owns it from now on.
        name: Of the proxy, for errors.
        hang_s: At the end, the most seconds to wait for the thread. Readers wait for a version at least as long.

    Attributes:
        parameters: The newest ones, from `start` on; see `channels.ParameterReader`.
    """

    parameters: Parameters

    def __init__(self, connection: FramedConnection, name: str, hang_s: float) -> None:
        self._connection, self._name, self._hang_s = connection, name, hang_s
        self._version: int | None = None  # whose numbers are on their way
        self._ask_s = min(_ASK_S, hang_s / _INTERVALS)
        self._ask_at = math.inf  # when to ask which version is the newest; not while an answer is due
        self._is_closed = False
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="parameters", daemon=True)

    def info(self, most_s: float) -> str:
        """Wait for the trainers' message with the sizes of the task, at most `most_s` seconds.

        Raises:
            PeerDiedError: If the proxy has ended; or any other error that it has sent.
            PeerSilentError: If the message has not come.
        """
        polling, waiting = poll(), WaitClock()
        polling.register(self._connection, POLLIN)
        while waiting.look() < most_s:
            polling.poll(1000 * _NAP_S)
            for kind, payload in self._connection.read(may_stop=True):
                if kind == INFO:
                    return payload.decode()
                raise error_of(payload) if kind == FAILURE else self._unknown(kind)
            if not self._connection.is_open:
                raise PeerDiedError(f"{self._name} ended: its log says why")
        text = f"{self._name} has not sent the sizes of the task for {most_s:g} s"
        raise PeerSilentError(f"{text}: see the logs of the trainers")

    def start(self, sizes: ChannelSizes, host: HostParameters) -> None:
        """Receive from now on.

        Args:
            sizes: Of the channels on the other host.
            host: Of this GMI; this object owns it from now on.
        """
        self._host, self.parameters = host, host.parameters
        self._raw = torch.empty(sizes.parameter_bytes, dtype=torch.uint8)
        self._connection.send_frame(SIZES, sizes.text.encode())
        self._thread.start()

    def await_version(self, version: int) -> bool:
        """See `HostParameters`."""
        return self._host.await_version(version)

    @property
    def keepalives(self) -> object:
        """See `HostParameters`."""
        return self._host.keepalives

    def finish(self) -> None:
        """See `HostParameters`."""
        self._host.finish()

    def close(self) -> None:
        """Tell the proxy that no more is needed, and end the thread."""
        self._is_closed = True
        os.eventfd_write(self._eventfd, 1)
        if self._thread.ident is not None:
            self._thread.join(self._hang_s)
            self._host.close()
        self._connection.close()
        os.close(self._eventfd)

    def _run(self) -> None:
        try:
            self._receive()
        except GmiError as error:
            self._host.lost = error
        except Exception as error:  # the waiting thread raises it
            self._host.lost = GmiError(f"receiving parameters failed: {type(error).__name__}: {error}")
        if self._host.lost is not None:
            self._host.wake_all()

    def _receive(self) -> None:
        polling = poll()
        polling.register(self._eventfd, POLLIN)
        polling.register(self._connection, POLLIN)
        self._ask(-1)
        self._ask_at = time.perf_counter() + self._ask_s
        while not self._is_closed:
            polling.modify(self._connection, POLLIN | POLLOUT * self._connection.is_sending)
            polling.poll(1000 * self._ask_s)
            self._ask_for_newest()
            self._connection.flush()
            with naming(self._name):
                for kind, payload in self._connection.read():
                    self._publish()
                    self._handle(kind, payload)
            self._publish()
            if not self._connection.is_open:
                raise PeerDiedError(f"{self._name} ended while GMI {self._host.own} needed it: its log says why")
        self._connection.send_frame(LEAVE)

    def _handle(self, kind: int, payload: bytes) -> None:
        if kind == VERSION:
            (self._version,) = NUMBER.unpack(payload)
            self._connection.receive_data(self._raw.numpy().data.cast("B"))
        elif kind == NEWEST:
            self._ask_at = time.perf_counter() + self._ask_s
            self._host.tell_newest(*NUMBER.unpack(payload))
        elif kind == TRAINERS_LIVE:
            self._host.renew()
        elif kind == FAILURE:
            raise error_of(payload)
        else:
            raise self._unknown(kind)

    def _publish(self) -> None:
        """Pass a version on when its numbers have arrived, and ask for a newer one."""
        if self._version is None or self._connection.is_receiving:
            return
        version, self._version = self._version, None
        self.parameters.pass_on(version, [self._raw])
        self._host.wake_all()
        self._ask(version)

    def _ask(self, version: int) -> None:
        self._connection.send_frame(NEWER, NUMBER.pack(version))

    def _ask_for_newest(self) -> None:
        """Ask which version is the newest if somebody waits, by the clock: trainers may never be silent."""
        if time.perf_counter() >= self._ask_at and self._host.wants_answers:
            self._ask_at = math.inf
            self._connection.send_frame(NEWEST)

    def _unknown(self, kind: int) -> GmiError:
        return GmiError(f"{self._name} sent a frame of unknown kind {kind}")
