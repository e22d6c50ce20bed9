"""Supervises the processes of a layout: starts them, reads their messages, restarts and ends them."""

import math
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiDiedError, GmiError
from gmi_drl.gmi import Instances
from gmi_drl.launch.close_environments import Closing
from gmi_drl.launch.hosts import LateGMIs
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes.children import Children
from gmi_drl.launch.processes.departures import Departures
from gmi_drl.launch.processes.events import Event, GMIMessage, Tick
from gmi_drl.launch.processes.gmi_errors import GRACE_S, GMIErrors
from gmi_drl.launch.processes.gmi_handle import Starter
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, Losses
from gmi_drl.launch.processes.stopped import Stopped
from gmi_drl.layout.pools import proxy_processes
from gmi_drl.roles.launcher.connection import decode, encode
from gmi_drl.roles.launcher.protocol import (
    Acts,
    Attached,
    Closed,
    Done,
    Failed,
    Holds,
    MessageToGMI,
    MessageToLauncher,
    OnDevice,
    Proved,
    Ready,
    Report,
    Warned,
    Wrote,
    parse_message_to_launcher,
)
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.process_names import is_proxy, proxy_of

TICK_S = 0.2  # the longest wait until signals and deadlines are checked
START_S = 120.0  # deadline for a process to import torch and send its first message
FIRST_MESSAGE_S = 1200.0  # deadline for a first role to be ready or report: loading a simulator may take minutes
DRAIN_S = 10.0  # the same if killing one may harm others, see `Instances.drains`
BLAME_S = 2.0  # how long to wait for the error of a peer that a GMI blames
SHOWN = 200  # bytes of a malformed message in an error


class GMIProcesses:
    """One process per GMI, and one of proxies per pair of hosts with agents and their trainers.

    Proxies are supervised as GMIs are. The number of a process is the id of a GMI, or one of proxies (`process_names`).

    The processes run for the time of a `with` block. However it ends, none of them is left, nor of their children.

    Args:
        job: What the GMIs run. Their processes read the layout from its file in the run folder.
        params: Keyword arguments of `GMI_run` (JSON).
        instances: What the devices of this layout are cut into.
        start: Starts a GMI.
        resources: What the processes inherit, by their numbers. The descriptors must stay open until all GMIs have
            started; those of GMIs that may be started again, until the run ends.
        environment: Variables that differ from those of the backend; None removes one.
        restarts: The GMIs that are started again when they die, once a role has reported; None: no GMI is.
        losses: The actors that the run goes on without when they die, then too, if they are not started again.
        late: The GMIs that are started later; None: all are started at once.
    """

    def __init__(
        self,
        job: Job,
        params: Mapping[str, Any],
        instances: Instances,
        start: Starter,
        resources: Mapping[int, Resources],
        environment: Mapping[str, str | None],
        restarts: GMIRestarts | None = None,
        losses: Losses | None = None,
        late: LateGMIs | None = None,
    ) -> None:
        self.layout, self.folder, self.instances = job.layout, job.folder, instances
        self._results, self._joined = dict[int, Any](), set[int]()  # joined later: the run goes on if one cannot start
        order = {
            "params": dict(params),
            "rendezvous_folder": str(job.folder.rendezvous_folder),
            "hang_s": job.config.hang_s,
            "drains": instances.drains,
            "agents_are_restarted": restarts is not None,
        }
        self._losses, self._late = losses or Losses(self.layout, lambda line: None), late
        self._children = Children(order, job, instances, start, resources, environment)
        self._errors = GMIErrors(job.layout, job.folder, self._children)
        self._closing = Closing(job.layout.task)
        self._departures = Departures(self.layout, self._children, self._closing, restarts, self._losses)
        self._stopped, self._has_reported = Stopped(), False  # whether any role has reported

    def __enter__(self) -> Self:
        self._children.open()
        try:
            absent = self._late.absent if self._late else ()
            self._losses.lost.update(absent)
            here = [gmi.id for gmi in self.layout.gmis if gmi.id not in absent]
            for number in (*here, *map(proxy_of, proxy_processes(self.layout))):
                self._children.add(number)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def results(self) -> dict[int, Any]:
        """The results of the roles, by the ids of the GMIs that are done."""
        return {number: result for number, result in self._results.items() if not is_proxy(number)}

    def send(self, number: int, word: MessageToGMI) -> None:
        """Send a message to a process. Does nothing if the process has ended."""
        self._children[number].send(encode(word))

    def events(self, silence_s: float = math.inf) -> Iterator[Event]:
        """Yield the messages of roles as they come, until all GMIs are done, and a tick at least every `TICK_S`.

        Args:
            silence_s: The longest time without any message; at least `START_S`, and `FIRST_MESSAGE_S` before a first
                role is ready or reports.

        Raises:
            GmiDiedError: if a GMI dies.
            GmiError: if a GMI fails, sends a malformed message, or is stopped for so long, or none sends one in time.
                The message names the GMI and its log.
        """
        silence = WaitClock()  # counts only time in which this process ran: all may have been suspended
        while self._is_running():
            words, error = self._receive(TICK_S)
            for number, word in words:
                silence = WaitClock()
                if isinstance(word, Ready | Report | Holds | Wrote):
                    self._has_reported = True
                    yield GMIMessage(number, word)
                    silence = WaitClock()  # without the caller's time
            if error is not None:
                raise error
            self._check_silence(silence.look(), silence_s)
            self._check_stopped(silence_s)
            self._start_late()
            yield Tick()

    def _is_running(self) -> bool:
        """Whether a GMI is not done, apart from restarted ones: they are of no use when all others are done."""
        first = [gmi.id for gmi in self.layout.gmis if not self._children.predecessors[gmi.id]]
        return any(gmi_id in self._children and gmi_id not in self._results for gmi_id in first)

    def _start_late(self) -> None:
        """Start the GMIs of a node that has joined the run, which goes on without one that cannot be started."""
        for gmi_id in self._late.come() if self._late else ():
            self._joined.add(gmi_id)
            try:
                self._children.add(gmi_id)
            except (GmiError, OSError) as error:
                told = error if isinstance(error, GmiError) else GmiError(f"GMI {gmi_id} cannot be started: {error}")
                if not self._losses.take(gmi_id, told):
                    raise told from None

    def _check_silence(self, silent_s: float, silence_s: float) -> None:
        late = [number for number, waiting in self._children.starting.items() if waiting.look() > START_S]
        for number in late:
            error = self._errors.late(number, START_S)
            came_later = number in self._joined or self._children.predecessors[number]
            if not came_later or not self._losses.take(number, error):
                raise self._with_stacks(error)
        self._departures.drop(late)
        if silent_s > max(silence_s, START_S if self._has_reported else FIRST_MESSAGE_S):
            where = f": see the logs in {self.folder.log_file(0).parent}" if self.folder.stays else ""
            raise self._with_stacks(GmiError(f"no GMI has sent a message for {silent_s:.0f} s{where}"))

    def _check_stopped(self, silence_s: float) -> None:
        """Raise if a GMI is stopped for so long: those that need nothing of it would go on without it."""
        here = {number: child for number, child in self._children.items() if not child.where}  # /proc is this host's
        pids = {number: child.pid for number, child in here.items() if number not in self._results}
        if (number := self._stopped.longer_than(silence_s, pids)) is not None:
            raise self._errors.of(number, f"was stopped (SIGSTOP) and did not go on within {silence_s:.0f} s")

    def end(self) -> None:
        """End every process group. GMIs that are done or have failed close their environments before."""
        try:
            closing = (self._results.keys() | self._departures.failed) & self._children.keys()
            for number, child in self._children.items():
                if number not in closing:
                    child.ask_to_end()
            self._closing.wait({number: self._children[number] for number in sorted(closing)})
            deadline = time.monotonic() + (DRAIN_S if self.instances.drains else GRACE_S)
            for child in self._children.values():
                child.exit_code(deadline - time.monotonic())
        finally:  # also if a signal interrupts the waiting
            self._children.kill()

    def _receive(self, wait_s: float) -> tuple[list[tuple[int, MessageToLauncher]], GmiError | None]:
        """Read messages for at most `wait_s`. Returns them, and the error of a GMI if there is one.

        After an error all messages that have come are read. A GMI that blames a peer is reported only if the peer has
        no error of its own. The run goes on without an actor that fails, as without one that dies.
        """
        received, deadline = list[tuple[int, MessageToLauncher]](), time.monotonic() + wait_s
        error, complaints = None, dict[int, GmiError]()
        deaths = dict[int, GmiError]()
        while True:
            ready = self._children.wait(0.0 if error else max(0.0, deadline - time.monotonic()))
            for number, has_ended in ready:
                try:
                    word = self._read(number, has_ended)
                except GmiDiedError as failure:
                    deaths.setdefault(number, failure)  # reported by the connection and by the process
                    continue
                except GmiError as failure:
                    error = error or failure
                    continue
                match word:
                    case Failed(blames_peer=True):
                        complaints[number] = self._errors.failure(number, word)
                        deadline = time.monotonic() + BLAME_S
                    case Failed() if self._losses.allow(number):
                        deaths[number] = self._errors.failure(number, word)
                    case Failed():
                        error = error or self._errors.failure(number, word)
                    case None:
                        pass
                    case _:
                        received.append((number, word))
            if deaths:  # after all ready descriptors: a restarted process may get the same ones
                is_blamed = not all(map(self._losses.allow, complaints))
                may_go_on = self._has_reported and not is_blamed
                error = error or (
                    self._departures.after_deaths(deaths, self.results) if may_go_on else next(iter(deaths.values()))
                )
                deaths.clear()
            is_late = time.monotonic() >= deadline
            if error and (is_late or not ready):
                return received, error
            if not error and (is_late or (received and not complaints)):
                error = self._departures.after_complaints(complaints, has_reported=self._has_reported)
                return received, error and self._with_stacks(error)

    def _read(self, number: int, has_ended: bool) -> MessageToLauncher | None:
        """Read a message of a process and handle it, if it is not for the caller.

        Raises `GmiDiedError` after the last message if the process or its connection has ended before the role is done.
        Both are watched, since children of a role may keep the connection open.
        """
        child = self._children[number]
        if number in self._departures.failed:
            return None
        data = child.receive()
        if not data:
            if data is None and not has_ended:
                return None
            self._children.ignore(child.exit_fd if has_ended else child.connection_fd)
            if number not in self._results:
                raise self._errors.death(number)
            if has_ended:
                self.instances.release({number: child.pid})
                child.end()
            return None
        word = self._parsed(number, data)
        match word:
            case Attached():
                self.instances.prove_attached(number, child.pid)
                self._children.note_start(number)
            case OnDevice():
                self.instances.prove_on_device(number, child.pid)
                self.send(number, Proved())
            case Done(result):
                self._results[number] = result
            case Acts():
                self._losses.join(number)
            case Warned(message):
                self._closing.warn(number, message)
            case Closed():
                self._closing.add_closed(number, word)
            case Failed():  # its connection may end now
                self._children.ignore(child.connection_fd)
                self._children.ignore(child.exit_fd)
                self._departures.failed.add(number)
        return word

    def _parsed(self, number: int, data: bytes) -> MessageToLauncher:
        try:
            return parse_message_to_launcher(decode(data))
        except ValueError as error:
            raise self._errors.of(number, f"has sent a malformed message, {error}: {data[:SHOWN]!r}") from None

    def _with_stacks(self, error: GmiError) -> GmiError:
        return self._errors.with_stacks(error, self._results.keys() | self._departures.failed)
