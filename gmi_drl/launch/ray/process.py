"""The process that speaks with Ray for a launcher: `python -P -m gmi_drl.launch.ray.process`, see `driven.py`.

Ray blocks its driver while the head of its cluster is gone, and ends it after a minute; it prints what it likes, and
takes SIGTERM for itself. None of this may happen to a launcher, so Ray's driver is a process of its own.

It hears JSON, a word per line, on its standard input, and answers on its standard output. The first word is the layout.
With the end of its input it ends its agents, and the cluster if that is its own.
"""

import json
import os
import queue
import sys
import threading
from contextlib import ExitStack
from typing import Any

from gmi_drl.errors import GmiError
from gmi_drl.launch.ray.supervisors import RayAgent, RaySupervisors, ray_agents
from gmi_drl.layout.layout import Layout
from gmi_drl.process_signals import leave_to_launcher

Word = dict[str, Any]


def main() -> None:
    """Obey one launcher until the end."""
    leave_to_launcher()
    teller = Teller(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Ray prints is no word of ours
    with ExitStack() as life:
        first = json.loads(sys.stdin.buffer.readline())
        try:
            agents = life.enter_context(ray_agents(Layout.model_validate_json(first["layout"])))
        except Exception as error:
            teller.refuse(first, error)
            return
        leave_to_launcher()  # once more, since Ray has taken SIGTERM meanwhile
        teller.answer(first, {"say": "ready", "address": agents.address})
        obey(words(), agents, teller)


def words() -> "queue.SimpleQueue[Word | None]":
    """What the launcher says, as it comes; None when it has gone. A thread reads, since Ray may block this one."""
    heard = queue.SimpleQueue[Word | None]()

    def read() -> None:
        try:
            for line in sys.stdin.buffer:
                heard.put(json.loads(line))
        finally:  # who has said what is no word is done with, too
            heard.put(None)

    threading.Thread(target=read, daemon=True).start()
    return heard


class Teller:
    """Says words to the launcher, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._output, self._one_at_a_time = os.fdopen(descriptor, "wb", buffering=0), threading.Lock()

    def tell(self, word: Word) -> None:
        """Say one."""
        with self._one_at_a_time:
            self._output.write(f"{json.dumps(word)}\n".encode())

    def answer(self, asked: Word, answer: Word) -> None:
        """Say what came of a word of the launcher."""
        self.tell({**answer, "number": asked["number"]})

    def refuse(self, asked: Word, error: Exception) -> None:
        """Say what went wrong instead."""
        if isinstance(error, GmiError):
            self.answer(asked, {"say": "refused", "message": str(error), "exit_code": error.exit_code})
        else:
            self.answer(asked, {"say": "refused", "message": f"{type(error).__name__}: {error}", "exit_code": 1})


def obey(heard: "queue.SimpleQueue[Word | None]", agents: RaySupervisors, teller: Teller) -> None:
    """Start and end agents as the launcher says, and tell it of each that ends, by the number of its first word."""
    started: dict[int, RayAgent] = {}
    while (word := heard.get()) is not None:
        try:
            if word["say"] == "start":
                number = word["number"]
                started[number] = agents.start(word["node"], word["order"].encode())
                threading.Thread(target=watch, args=(number, started[number], teller), daemon=True).start()
            else:
                started[word["agent"]].end(word["wait_s"])
            teller.answer(word, {"say": f"{word['say']}ed"})
        except Exception as error:
            teller.refuse(word, error)


def watch(number: int, agent: RayAgent, teller: Teller) -> None:
    """Wait for the end of an agent, and tell how it came, or why that cannot be known."""
    try:
        why = agent.how_it_ended()
    except Exception as error:  # of Ray, beside its own
        why = f"Ray cannot tell how the agent on {agent.node.name} does: {type(error).__name__}: {error}"
    teller.tell({"say": "gone", "agent": number, "why": why})


if __name__ == "__main__":
    main()
