"""Sends a policy worker of another host what trainers publish here, each time it asks for something newer (SRL, 2.1).

Frames: INFO, from the trainers, has the sizes of the task. SIZES has those of the channels. NEWER asks for parameters
newer than a version. VERSION has one, and the parameters follow. NEWEST asks which version is the newest, and has the
answer. TRAINERS_LIVE: a trainer has sent a keepalive. LEAVE: no more is needed.
"""

import math
import struct
from collections.abc import Callable

from gmi_drl.comm.channels import ParameterReader
from gmi_drl.comm.channels.proxy import give_up, sleep_until_ready
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FramedConnection, naming
from gmi_drl.errors import GmiError, PeerDiedError

INFO, SIZES, NEWER, VERSION, NEWEST, TRAINERS_LIVE, LEAVE = range(FIRST_OTHER_KIND, FIRST_OTHER_KIND + 7)

NUMBER = struct.Struct("<q")
"""A version; -1 before the first."""


class ParameterProxy:
    """The proxy of a policy worker on the host of trainers.

    Args:
        connection: To the policy worker; this object owns it from now on.
        host: Of the trainers.
        gmi_id: Of the policy worker.
        info: Waits for the trainers' message with the sizes of the task.
    """

    def __init__(self, connection: FramedConnection, host: ProxyHost, gmi_id: int, info: Callable[[], str]) -> None:
        self._connection, self._host, self._gmi_id, self._info = connection, host, gmi_id, info
        self._sizes: ChannelSizes | None = None
        self._reader: ParameterReader | None = None
        self._asked: int | None = None
        self._keepalives: object = None
        self._is_over = False

    def serve(self) -> None:
        """Serve until the policy worker leaves or ends.

        Raises:
            GmiError: If a trainer is lost, or the policy worker sends something out of order. It gets the same error.
        """
        try:
            self._connection.send_frame(INFO, self._info().encode())
            while self._sizes is None and not self._is_over:
                sleep_until_ready(self._connection)
                self._read()
            if self._sizes is not None:
                self._reader = self._host.join_as_reader(self._gmi_id, self._sizes)
                self._send_versions(self._reader, self._sizes)
        except GmiError as error:
            give_up(self._connection, error)
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            self._reader.close()
        self._connection.close()

    def _send_versions(self, reader: ParameterReader, sizes: ChannelSizes) -> None:
        def is_over() -> bool:
            self._read()
            self._answer(reader, sizes.parameter_bytes)
            if self._connection.is_open:
                reader.notifier.watch_descriptor(self._connection.fileno(), is_sending=self._connection.is_sending)
            return self._is_over

        try:
            reader.notifier.wait_for(
                is_over, sizes.trainers[:1], "published parameters", math.inf, lambda: self._progress(reader)
            )
        except PeerDiedError:
            if not reader.is_closed:
                raise
        while not is_over():  # the trainers are done: the policy worker still answers what is open
            sleep_until_ready(self._connection)

    def _answer(self, reader: ParameterReader, nbytes: int) -> None:
        """Send the newest parameters if something older was asked about. One version is under way at a time."""
        newest = reader.parameters.newest_version()
        if self._asked is None or newest is None or newest <= self._asked or self._connection.is_sending:
            return
        self._asked = None
        version, copy = self._host.newest(reader.parameters, nbytes)
        self._connection.send_frame(VERSION, NUMBER.pack(version))
        self._connection.send_data(copy.numpy().data)

    def _progress(self, reader: ParameterReader) -> object:
        """The trainers' keepalives. The policy worker gets one, too, when they have changed."""
        before, self._keepalives = self._keepalives, reader.keepalives
        if before != self._keepalives and not self._connection.is_sending:
            self._connection.send_frame(TRAINERS_LIVE)
        return self._keepalives

    def _read(self) -> None:
        self._connection.flush()
        with naming(f"GMI {self._gmi_id}"):
            for kind, payload in self._connection.read():
                self._handle(kind, payload)
        self._is_over |= not self._connection.is_open

    def _handle(self, kind: int, payload: bytes) -> None:
        if kind == SIZES:
            self._sizes = ChannelSizes.from_text(payload.decode())
        elif kind == NEWER:
            (self._asked,) = NUMBER.unpack(payload)
        elif kind == NEWEST:
            newest = self._reader.parameters.newest_version() if self._reader is not None else None
            self._connection.send_frame(NEWEST, NUMBER.pack(-1 if newest is None else newest))
        elif kind == LEAVE:
            self._is_over = True
        else:
            raise GmiError(f"GMI {self._gmi_id} sent a frame of unknown kind {kind}")
