"""A node as its launcher has it: the connection to its supervisor, and its GMIs."""

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gmi_drl.comm.links.control import ControlConnection, Message
from gmi_drl.errors import GmiDiedError, GmiError
from gmi_drl.launch.nodes.accept_supervisors import Arrival
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI
from gmi_drl.launch.nodes.supervisor_starters import SupervisorHandle
from gmi_drl.launch.processes.gmi_handle import LOST, how_it_ended
from gmi_drl.roles.launcher.connection import decode
from gmi_drl.roles.launcher.protocol import StoreCommand, parse_message_to_launcher

ENDED_S = 1.0
"""Deadline for learning how a supervisor ended, after its connection has."""

Tell = Callable[[str], None]


class RemoteNode:
    """Sends requests to the supervisor of a node, and passes its messages on. Those come in the connection's thread.

    Args:
        arrival: The supervisor's connection and host.
        supervisor: The supervisor as it was started.
        tell: Called with a line when the supervisor falls silent.

    Attributes:
        gmis: The GMIs and proxies on the node, by number.
        first_gmi: The id of the node's first GMI in the open layout.
        receiver: Writes into the run folder for a node that does not see it.
    """

    def __init__(self, arrival: Arrival, supervisor: SupervisorHandle, tell: Tell) -> None:
        self.name, self.machine, self.cpus = arrival.node, arrival.machine, arrival.cpus
        self.gmis: dict[int, RemoteGMI] = {}
        self.first_gmi = 0
        self.receiver: FolderReceiver | None = None
        self._supervisor, self._why_lost = supervisor, ""
        self._sent, self._responses = 0, queue.SimpleQueue[Message | None]()  # None: the node is lost
        self.connection = ControlConnection(
            arrival.connection,
            self._on_message,
            self._on_lost,
            lambda silent_s: tell(f"node {self.name} has been silent for {silent_s:.0f} s"),
        )
        self.connection.start()

    def request(self, message: Message) -> None:
        """Send a message to which `response` waits for the answer."""
        self._sent += 1
        self.connection.send({**message, "number": self._sent})

    def response(self, wanted: str, wait_s: float) -> Message:
        """Wait for the response of this type to the last request.

        Raises:
            GmiDiedError: if the node is lost, for the first of its GMIs.
            GmiError: the error of the node, with its exit code; or that it has not responded within `wait_s`.
        """
        message = self._response(wanted, wait_s)
        if message is None:
            text = f"GMI {self.first_gmi} (node {self.name}: {self._why_lost}) {how_it_ended(LOST)}"
            raise GmiDiedError(text, self.first_gmi, LOST)
        if message["type"] == wanted:
            return message
        error = GmiError(f"node {self.name}: {message['message']}")
        error.exit_code = message["exit_code"]
        raise error

    def _response(self, wanted: str, wait_s: float) -> Message | None:
        """The response to the last request, or why a message before it failed; None if the node is lost.

        Late responses to earlier requests are dropped.
        """
        deadline = time.monotonic() + wait_s
        while not self._why_lost:
            try:
                message = self._responses.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise GmiError(f"node {self.name} has not {wanted} within {wait_s:.0f} s") from None
            if message is None or message.get("number") in (None, self._sent):
                return message
        return None

    @property
    def is_lost(self) -> bool:
        """Whether the node was given up."""
        return bool(self._why_lost)

    def close(self) -> None:
        """Close the connection: the supervisor then ends everything on its host, and itself."""
        self.connection.close()

    def _on_message(self, message: Message, data: bytes) -> None:
        gmi = self.gmis.get(message["gmi"]) if "gmi" in message else None
        match message["type"]:
            case "said" if gmi:
                self._on_gmi_message(gmi, data)
            case "log" if gmi:
                gmi.add_output(data)
            case "file" if gmi:
                self._store(gmi, message, data)
            case "connection_ended" if gmi:
                gmi.add_message(b"")
            case "ended" if gmi:
                gmi.set_ended(message["code"])
            case "gone" if gmi:
                gmi.set_gone()
            case _:
                self._responses.put(message)

    def _on_gmi_message(self, gmi: RemoteGMI, data: bytes) -> None:
        """Pass a message of a GMI on: to its supervision, or as a command to the run folder."""
        with suppress(ValueError):  # the supervision of GMIs reports it
            word = parse_message_to_launcher(decode(data))
            if isinstance(word, StoreCommand) and self.receiver:
                gmi.store(partial(self.receiver.do, gmi.number, word.do, word.given))
                return
        gmi.add_message(data)

    def _store(self, gmi: RemoteGMI, message: Message, data: bytes) -> None:
        """Write a piece of a file into the run folder; after the last one the GMI is notified."""
        assert self.receiver is not None
        take = partial(self.receiver.take, message["file"], message["offset"], data, is_last=message["is_last"])
        gmi.store(take, notifies=message["is_last"])

    def _on_lost(self, why: str) -> None:
        self._why_lost = why
        self._why_lost = why = self._how_it_ended() or why
        for gmi in list(self.gmis.values()):
            gmi.set_lost(why)
        self._responses.put(None)

    def _how_it_ended(self) -> str | None:
        """How the supervisor ended, if known: its end is seen a moment after that of its connection."""
        deadline = time.monotonic() + ENDED_S
        while (why := self._supervisor.why_ended()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return why
