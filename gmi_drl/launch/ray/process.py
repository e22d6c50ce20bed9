"""The process that uses Ray for a launcher: `python -P -m gmi_drl.launch.ray.process`, started by `client.py`.

Ray blocks its driver while the head of its cluster is gone, and ends it after a minute; it prints to the driver's
output, and sets a handler for SIGTERM. A launcher must not suffer this, so Ray's driver is a process of its own.

It reads JSON messages from its standard input, one per line, and writes responses to its standard output. The first
message has the layout. When its input ends, it ends its supervisors, and the cluster if it has started that.
"""

import json
import os
import queue
import sys
import threading
from contextlib import ExitStack
from typing import Any

from gmi_drl.errors import GmiError
from gmi_drl.launch.ray.late_supervisor import LateRaySupervisor
from gmi_drl.launch.ray.supervisors import RaySupervisor, RaySupervisors, ray_supervisors
from gmi_drl.layout.layout import Layout
from gmi_drl.processes.signals import leave_to_launcher

Message = dict[str, Any]


def main() -> None:
    """Execute the messages of one launcher until the end."""
    leave_to_launcher()
    sender = Sender(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Ray's output must not mix with our messages
    with ExitStack() as life:
        first = json.loads(sys.stdin.buffer.readline())
        try:
            supervisors = life.enter_context(ray_supervisors(Layout.model_validate_json(first["layout"])))
        except Exception as error:
            sender.refuse(first, error)
            return
        leave_to_launcher()  # again: Ray has set a handler for SIGTERM
        sender.respond(first, {"type": "ready", "address": supervisors.address})
        execute(read_messages(), supervisors, sender)


def read_messages() -> "queue.SimpleQueue[Message | None]":
    """A queue of the launcher's messages; None when it has gone. A thread reads them, since Ray may block this one."""
    messages = queue.SimpleQueue[Message | None]()

    def read() -> None:
        try:
            for line in sys.stdin.buffer:
                messages.put(json.loads(line))
        finally:  # also after a malformed message
            messages.put(None)

    threading.Thread(target=read, daemon=True).start()
    return messages


class Sender:
    """Sends messages to the launcher, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._output, self._one_at_a_time = os.fdopen(descriptor, "wb", buffering=0), threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message."""
        with self._one_at_a_time:
            self._output.write(f"{json.dumps(message)}\n".encode())

    def respond(self, request: Message, response: Message) -> None:
        """Send the response to a request."""
        self.send({**response, "number": request["number"]})

    def refuse(self, request: Message, error: Exception) -> None:
        """Send an error as the response to a request."""
        if isinstance(error, GmiError):
            self.respond(request, {"type": "refused", "message": str(error), "exit_code": error.exit_code})
        else:
            self.respond(request, {"type": "refused", "message": f"{type(error).__name__}: {error}", "exit_code": 1})


def execute(messages: "queue.SimpleQueue[Message | None]", supervisors: RaySupervisors, sender: Sender) -> None:
    """Start and end supervisors as requested. Reports each that ends, by the number of the request that started it."""
    started: dict[int, RaySupervisor | LateRaySupervisor] = {}
    while (request := messages.get()) is not None:
        try:
            if request["type"] == "start":
                number = request["number"]
                started[number] = supervisors.start(request["node"], request["order"].encode())
                threading.Thread(target=watch, args=(number, started[number], sender), daemon=True).start()
            else:
                started[request["supervisor"]].end(request["wait_s"])
            sender.respond(request, {"type": f"{request['type']}ed"})
        except Exception as error:
            sender.refuse(request, error)


def watch(number: int, supervisor: RaySupervisor | LateRaySupervisor, sender: Sender) -> None:
    """Wait for the end of a supervisor, and report how it ended, or why that is unknown."""
    try:
        why = supervisor.how_it_ended()
    except Exception as error:  # Ray raises others than its own
        why = f"Ray cannot say how the supervisor on {supervisor.name} is: {type(error).__name__}: {error}"
    sender.send({"type": "ended_by_itself", "supervisor": number, "why": why})


if __name__ == "__main__":
    main()
