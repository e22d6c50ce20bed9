"""A launcher's end of the process that speaks with Ray for it (`driver.py`)."""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.nodes.starters import END_S
from gmi_drl.launch.processes.gmi_handle import how_it_ended
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.layout.layout import Layout
from gmi_drl.process_signals import held_back

READY_S = 180.0
"""Until there must be room for a layout: the cluster is started or joined, nodes and what others use are waited for."""
TAKEN_S = 30.0
"""Until an agent must be on its way; that it has come is awaited elsewhere."""
MORE_S = 2.0
"""For an answer, beside what it is about."""
LEFT_S = 5.0
"""Until the driver must have let the cluster go, which may be one of its own. It cannot while Ray's head is gone."""


class RaySupervisorHandle:
    """An agent on a node of the cluster, see `StartedAgent`."""

    def __init__(self, driver: "RayClient", number: int) -> None:
        self._driver, self._number = driver, number

    def why_gone(self) -> str | None:
        """How it ended, with the last lines that it printed; None while it runs, as far as Ray knows.

        Ray tells late of a node that has died (8 to 22 s).
        """
        return self._driver.gone.get(self._number) or self._driver.why_ended()

    def end(self, wait_s: float = END_S) -> None:
        """Ask it to end, and kill its actor, with which it ends, after `wait_s` at the latest. May be called twice."""
        with suppress(GmiError):  # with the driver its actors end
            self._driver.ask({"say": "end", "agent": self._number, "wait_s": wait_s}, "ended", wait_s + MORE_S)


class RayClient:
    """The process, and the words to and from it. Starts agents, see `AgentStarter`.

    Args:
        layout: Its nodes are found and kept by `ray_agents`.

    Attributes:
        address: The launcher's, as the nodes of the cluster see it.
        gone: How agents have ended, by the number of the word that started them: a node may have one after another.

    Raises:
        MachineError: if there is no Ray, it cannot be reached, or others use what the layout takes.
        LayoutMismatchError: if the cluster's nodes are too few or too small for it.
    """

    def __init__(self, layout: Layout) -> None:
        self.address, self.gone = "", dict[int, str]()
        self._asked, self._answers = 0, queue.SimpleQueue[dict[str, Any] | None]()
        self._guard = Reaper()
        with held_back():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gmi_drl.launch.ray.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            self._guard.watch(self._process.pid)
        threading.Thread(target=self._hear, daemon=True).start()
        try:
            self.address = self.ask({"layout": layout.model_dump_json()}, "ready", READY_S)["address"]
        except BaseException:
            self.close()
            raise

    def start(self, node: str, order: bytes) -> RaySupervisorHandle:
        """See `AgentStarter`."""
        answer = self.ask({"say": "start", "node": node, "order": order.decode()}, "started", TAKEN_S)
        return RaySupervisorHandle(self, answer["number"])

    def why_ended(self) -> str | None:
        """How the driver itself ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else f"the process that speaks with Ray ({self._process.pid}) {how_it_ended(code)}"

    def close(self) -> None:
        """Have it let the cluster go, and end it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LEFT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._guard.close()

    def ask(self, word: dict[str, Any], wanted: str, wait_s: float) -> dict[str, Any]:
        """Say a word and wait for its answer.

        Raises:
            GmiError: as the driver tells, with its exit code.
            MachineError: if it has ended, or does not answer in time.
        """
        assert self._process.stdin is not None
        self._asked += 1
        with suppress(OSError):  # its end is heard, too
            self._process.stdin.write(f"{json.dumps({**word, 'number': self._asked})}\n".encode())
            self._process.stdin.flush()
        answer = self._answer(wanted, wait_s)
        if answer["say"] != wanted:
            error = GmiError(answer["message"])
            error.exit_code = answer["exit_code"]
            raise error
        return answer

    def _answer(self, wanted: str, wait_s: float) -> dict[str, Any]:
        """To what was asked last: one that was not waited for may come late."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise MachineError(f"Ray has not {wanted} within {wait_s:.0f} s: is its head gone?") from None
            if answer is None:
                self._answers.put(None)  # for whoever asks next
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(MORE_S)
                raise MachineError(str(self.why_ended()))
            if answer["number"] == self._asked:
                return answer

    def _hear(self) -> None:
        """Hear all that the driver says. One that says what is no word, as if killed half-way, is ended."""
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                word = json.loads(line)
                if word["say"] == "gone":
                    self.gone[word["agent"]] = word["why"]
                else:
                    self._answers.put(word)
        except (ValueError, KeyError, TypeError):
            self._process.kill()
        finally:
            self._answers.put(None)


@contextmanager
def driven_agents(layout: Layout) -> Iterator[RayClient]:
    """Room for a layout on a cluster, and what starts agents there, for the time of a `with` block."""
    driver = RayClient(layout)
    try:
        yield driver
    finally:
        driver.close()
