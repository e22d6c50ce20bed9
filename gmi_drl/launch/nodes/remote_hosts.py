"""The launcher's end of its agents: who is there, what they have opened, and the GMIs that they have started."""

import queue
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from gmi_drl.comm.links.control import ControlConnection, Message
from gmi_drl.errors import GmiDiedError, GmiError, MachineError
from gmi_drl.launch.hosts import OpenedDevices
from gmi_drl.launch.job import Job
from gmi_drl.launch.nodes.accept import Arrival, arrivals
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.launch.nodes.node_host import TOKEN
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI, RemoteInstances, nothing_shared
from gmi_drl.launch.nodes.starters import END_S, StartedAgent, SupervisorStarter
from gmi_drl.launch.nodes.versions import differing
from gmi_drl.launch.processes.gmi_handle import LOST, how_it_ended
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import far_agents
from gmi_drl.roles.launcher.connection import decode
from gmi_drl.roles.launcher.protocol import StoreCommand, parse_message_to_launcher
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.process_names import gmi_of, is_proxy, proxy_of

ANSWER_S = 60.0
"""Until a node answers; opening may apply MIG and start daemons."""
OPEN_S = 300.0

LOST_END_S = 1.0
"""For the agent of a node that is lost or has not come: it may be stopped, and nobody waits for that."""

ENDED_S = 1.0
"""Until it is known how an agent ended whose connection did."""

Tell = Callable[[str], None]


class RemoteNode:
    """A node as its launcher has it. What it says is heard in the thread of its wire."""

    def __init__(self, arrival: Arrival, agent: StartedAgent, tell: Tell) -> None:
        self.name, self.machine, self.cpus = arrival.node, arrival.machine, arrival.cpus
        self.gmis: dict[int, RemoteGMI] = {}
        self.first_gmi = 0  # of the layout that is opened
        self.keeper: FolderReceiver | None = None
        self._agent, self._why_lost = agent, ""
        self._answers = queue.SimpleQueue[Message | None]()  # None: it is lost
        self.wire = ControlConnection(
            arrival.connection,
            self._hear,
            self._is_lost,
            lambda silent_s: tell(f"node {self.name} has been silent for {silent_s:.0f} s"),
        )
        self.wire.start()

    def ask(self, message: Message) -> None:
        """Say what is to be answered."""
        self.wire.send(message)

    def answer(self, wanted: str, wait_s: float) -> Message:
        """The answer to what was asked.

        Raises:
            GmiDiedError: of the first GMI that it has or was to have, if it is lost.
            GmiError: which the node tells, with its exit code; or that it does not answer.
        """
        try:
            message = None if self._why_lost else self._answers.get(timeout=wait_s)
        except queue.Empty:
            raise GmiError(f"node {self.name} has not {wanted} within {wait_s:.0f} s") from None
        if message is None:
            text = f"GMI {self.first_gmi} (node {self.name}: {self._why_lost}) {how_it_ended(LOST)}"
            raise GmiDiedError(text, self.first_gmi, LOST)
        if message["say"] == wanted:
            return message
        error = GmiError(f"node {self.name}: {message['message']}")
        error.exit_code = message["exit_code"]
        raise error

    @property
    def is_lost(self) -> bool:
        """Whether it was given up."""
        return bool(self._why_lost)

    def close(self) -> None:
        """Let it go: its agent ends all that is left there, and itself."""
        self.wire.close()

    def _hear(self, message: Message, data: bytes) -> None:
        gmi = self.gmis.get(message["gmi"]) if "gmi" in message else None
        match message["say"]:
            case "said" if gmi:
                self._hear_word(gmi, data)
            case "log" if gmi:
                gmi.printed(data)
            case "file" if gmi:
                self._take(gmi, message, data)
            case "line_ended" if gmi:
                gmi.said(b"")
            case "ended" if gmi:
                gmi.has_ended(message["code"])
            case "gone" if gmi:
                gmi.is_gone()
            case _:
                self._answers.put(message)

    def _hear_word(self, gmi: RemoteGMI, data: bytes) -> None:
        """A word for those who supervise GMIs, or for the keeper of the run folder."""
        with suppress(ValueError):  # the supervisor knows what to say of that
            word = parse_message_to_launcher(decode(data))
            if isinstance(word, StoreCommand) and self.keeper:
                gmi.kept(partial(self.keeper.do, word.do, word.given))
                return
        gmi.said(data)

    def _take(self, gmi: RemoteGMI, message: Message, data: bytes) -> None:
        """A piece of a file; of the last one the GMI is told."""
        assert self.keeper is not None
        take = partial(self.keeper.take, message["file"], message["offset"], data, is_last=message["is_last"])
        gmi.kept(take, tells=message["is_last"])

    def _is_lost(self, why: str) -> None:
        self._why_lost = why
        self._why_lost = why = self._how_it_ended() or why
        for gmi in list(self.gmis.values()):
            gmi.was_lost(why)
        self._answers.put(None)

    def _how_it_ended(self) -> str | None:
        """What is known of the agent's end, which is seen a moment after that of its connection."""
        deadline = time.monotonic() + ENDED_S
        while (why := self._agent.why_gone()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return why


class RemoteHosts:
    """Agents that are there, one for each node of a layout; a layout is opened on them as on this machine.

    Args:
        nodes: By name.
        purpose: Tells others on the hosts who holds their devices.
        apply_mig: Whether they make the MIG instances that the layout wants.
    """

    def __init__(self, nodes: Mapping[str, RemoteNode], purpose: str, *, apply_mig: bool) -> None:
        self._nodes, self._purpose, self._apply_mig = nodes, purpose, apply_mig

    @contextmanager
    def cut(self, job: Job, environment: Mapping[str, str | None]) -> Iterator[OpenedDevices]:
        """See `DeviceOpener`."""
        layout, folder = job.layout, job.folder
        for name, node in self._nodes.items():
            node.first_gmi = layout.devices_on(name)[0].gmis[0].id
        secret, seen = secrets.token_hex(16), folder.path / TOKEN
        seen.write_text(secret)
        try:
            opens = {
                "layout": layout.model_dump(mode="json"),
                "run_folder": str(folder.path.resolve()),
                "token": secret,
                "begins_with": FolderReceiver(folder).size(),
            }
            whole = {**opens, "purpose": self._purpose, "apply_mig": self._apply_mig}
            shares = cpus_of(layout, self._nodes)
            opened = self._ask_all("opened", OPEN_S, lambda name: {"say": "open", **whole, **shares[name]})
        finally:
            seen.unlink()
        mirrored = [node for name, node in self._nodes.items() if not opened[name]["sees_folder"]]
        instances = RemoteInstances(any(answer["drains"] for answer in opened.values()), self._release)

        @contextmanager
        def shared() -> Iterator[Mapping[int, Resources]]:
            for node in mirrored:
                node.keeper = FolderReceiver(folder)
                for file, data in node.keeper.pieces():
                    node.wire.send({"say": "take", "file": file}, data)
            asked = {"say": "share", "slot_bytes": job.slot_bytes}
            answers = self._ask_all("shared", ANSWER_S, lambda name: asked)
            meetings = joined([answer["addresses"] for answer in answers.values()])
            for node in self._nodes.values():
                node.wire.send({"say": "meet", "meetings": meetings})
            try:
                yield nothing_shared([*(gmi.id for gmi in layout.gmis), *map(proxy_of, far_agents(layout))])
            finally:
                for node in self._nodes.values():
                    node.wire.send({"say": "settle"})

        overrides = dict(environment)  # the rest of a GMI's environment is its node's

        def start(
            order: Mapping[str, Any], environment: Mapping[str, str], log: Path, resources: Resources
        ) -> RemoteGMI:
            name = node_of(layout, order["gmi"])
            assert name is not None
            return self._start(self._nodes[name], dict(order), log.resolve(), overrides)

        yield OpenedDevices(instances, start, shared)

    def _start(
        self, node: RemoteNode, order: dict[str, Any], log: Path, environment: Mapping[str, str | None]
    ) -> RemoteGMI:
        log.touch()
        gmi = RemoteGMI(order["gmi"], node.name, 0, log, node.wire.send)
        node.gmis[order["gmi"]] = gmi  # before its first word can come
        for name in ("layout", "run_folder", "meeting"):
            order[name] = str(Path(order[name]).resolve())
        node.ask({"say": "start", "order": order, "log": str(log), "environment": dict(environment)})
        try:
            gmi.pid = node.answer("started", ANSWER_S)["pid"]
        except GmiError:
            gmi.close()
            raise
        return gmi

    def _ask_all(self, wanted: str, wait_s: float, message: Callable[[str], Message]) -> dict[str, Message]:
        for name, node in self._nodes.items():
            node.ask(message(name))
        return {name: node.answer(wanted, wait_s) for name, node in self._nodes.items()}

    def _release(self, groups: Sequence[int]) -> None:
        for node in self._nodes.values():
            if gmis := [gmi_id for gmi_id, gmi in node.gmis.items() if gmi.pid in groups]:
                node.wire.send({"say": "release", "gmis": gmis})


def node_of(layout: Layout, number: int) -> str | None:
    """Where a process runs: a GMI on its own, who stands in for one on that of its trainers."""
    return far_agents(layout)[gmi_of(number)].node if is_proxy(number) else layout.device_of(number).node


def joined(told: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """What all ranks of each group or crossing are told: where each listens, in rank order, and a token."""
    where: dict[str, dict[int, Any]] = {}
    for addresses in told:
        for name, of_ranks in addresses.items():
            where.setdefault(name, {}).update({int(rank): address for rank, address in of_ranks.items()})
    return {
        name: [[of_ranks[rank] for rank in sorted(of_ranks)], secrets.token_hex(16)]
        for name, of_ranks in where.items()
        if of_ranks
    }


def cpus_of(layout: Layout, nodes: Mapping[str, RemoteNode]) -> dict[str, dict[str, Any]]:
    """The CPUs that each agent may use, and whether it claims them: agents of one machine share its CPUs.

    Each gets a part of its own where there are enough, else all take turns on the same, which the first one claims.
    Containers of one machine that have unlike CPUs are taken for machines.
    """
    shares: dict[str, dict[str, Any]] = {}
    for place in dict.fromkeys(_place_of(node) for node in nodes.values()):
        alike = [node for node in nodes.values() if _place_of(node) == place]
        needs = {node.name: _cores_of(layout, node.name) for node in alike}
        free = alike[0].cpus
        if len(alike) == 1 or sum(needs.values()) > len(free):
            shares |= {node.name: {"cpus": node.cpus, "claims": node is alike[0]} for node in alike}
            continue
        for node in alike:
            shares[node.name] = {"cpus": free[: needs[node.name]], "claims": True}
            free = free[needs[node.name] :]
    return shares


def _place_of(node: RemoteNode) -> tuple[str, tuple[int, ...]]:
    return node.machine, tuple(node.cpus)


def _cores_of(layout: Layout, node: str) -> int:
    return 1 + max(core for device in layout.devices_on(node) for gmi in device.gmis for core in gmi.cores)


@contextmanager
def on_nodes(
    layout: Layout, purpose: str, starter: SupervisorStarter, *, apply_mig: bool = False, tell: Tell = lambda line: None
) -> Iterator[RemoteHosts]:
    """Agents on all nodes of a layout, for the time of a `with` block; however it ends, they are ended.

    Args:
        layout: Whose nodes.
        purpose: Tells others on the hosts who holds their devices.
        starter: Starts the agents.
        apply_mig: Whether they make the MIG instances that the layout wants.
        tell: Told of a node that has fallen silent, in a line.

    Raises:
        MachineError: if an agent does not come, or the nodes have unlike versions, with a table.
    """
    names = [node for node in layout.nodes if node is not None]
    with ExitStack() as life:
        listener = life.enter_context(socket.create_server((starter.address, 0), backlog=1024))
        token, (host, port) = secrets.token_hex(16), listener.getsockname()[:2]
        order = f'{{"launcher": ["{host}", {port}], "token": "{token}"}}\n'.encode()
        agents: dict[str, StartedAgent] = {}
        come: dict[str, RemoteNode] = {}

        def end(name: str) -> None:
            agents[name].end(LOST_END_S if name not in come or come[name].is_lost else END_S)

        for name in names:
            agents[name] = starter.start(name, order)
            life.callback(end, name)
        versions: dict[str, dict[str, str]] = {}
        for arrival in arrivals(listener, token, agents):
            versions[arrival.node] = arrival.versions
            come[arrival.node] = RemoteNode(arrival, agents[arrival.node], tell)  # which beats from now on
            life.callback(come[arrival.node].close)  # before any end is waited for: agents end at the same time
        if table := differing({name: versions[name] for name in names}):
            raise MachineError(f"the nodes have unlike versions: install the same on all\n{table}")
        nodes = {name: come[name] for name in names}
        yield RemoteHosts(nodes, purpose, apply_mig=apply_mig)
