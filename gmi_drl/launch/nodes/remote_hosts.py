"""Opens a layout on several hosts, each by its supervisor."""

import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gmi_drl.comm.links.control import Message
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.hosts import OpenedDevices
from gmi_drl.launch.job import Job
from gmi_drl.launch.nodes.accept_supervisors import Arrival, SupervisorListener
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.launch.nodes.joining import LateNodes
from gmi_drl.launch.nodes.meeting import Meeting
from gmi_drl.launch.nodes.node_host import TOKEN
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI, RemoteInstances, nothing_shared
from gmi_drl.launch.nodes.remote_node import RemoteNode, Tell
from gmi_drl.launch.nodes.room_on_nodes import rooms_on_nodes
from gmi_drl.launch.nodes.supervisor_starters import END_S, SupervisorHandle, SupervisorStarter
from gmi_drl.launch.nodes.versions import differing
from gmi_drl.launch.rooms import require_room
from gmi_drl.layout.late_nodes import late_nodes, starts_without
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import proxied, proxy_processes
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.process_names import gmi_of, is_proxy, proxy_of

ANSWER_S = 60.0
"""Deadline for the response of a node."""
OPEN_S = 300.0
"""Deadline for opening the devices of a node, which may apply MIG and start daemons."""

LOST_END_S = 1.0
"""The same for a node that is lost or has not connected: its supervisor may hang, which need not delay the others."""


class RemoteHosts:
    """The devices of all nodes of a layout, held by their supervisors. See `DeviceOpener`.

    Args:
        nodes: The connected nodes, by name. Those that come later are added.
        purpose: What other processes on the hosts read about the holder.
        apply_mig: Make the MIG instances that the layout wants.
        arrivals: Returns the nodes that have come later.
        tell: Called with a line about a node that cannot join.
    """

    def __init__(
        self,
        nodes: dict[str, RemoteNode],
        purpose: str,
        *,
        apply_mig: bool,
        arrivals: Callable[[], list[RemoteNode]] = list,
        tell: Tell = lambda line: None,
    ) -> None:
        self._nodes, self._purpose, self._apply_mig = nodes, purpose, apply_mig
        self._arrivals, self._tell = arrivals, tell

    @contextmanager
    def cut(self, job: Job, environment: Mapping[str, str | None]) -> Iterator[OpenedDevices]:
        """See `DeviceOpener`."""
        layout = job.layout
        meeting = Meeting(layout)
        opened = self._open(job, self._nodes)
        instances = RemoteInstances(any(answer["drains"] for answer in opened.values()), self._release)
        absent = late_nodes(layout).difference(self._nodes)
        late = LateNodes(layout, absent, self._arrivals, lambda node: self._admit(job, node, meeting), self._tell)

        @contextmanager
        def shared(restartable: Collection[int]) -> Iterator[Mapping[int, Resources]]:
            self._share(job, self._nodes, meeting)
            try:
                yield nothing_shared([*(gmi.id for gmi in layout.gmis), *map(proxy_of, proxy_processes(layout))])
            finally:
                for node in list(self._nodes.values()):
                    node.connection.send({"type": "settle", "restartable": sorted(restartable)})

        overrides = dict(environment)  # the rest of a GMI's environment is its node's

        def start(
            order: Mapping[str, Any], environment: Mapping[str, str], log: Path, resources: Resources
        ) -> RemoteGMI:
            name = node_of(layout, order["gmi"])
            assert name is not None
            return self._start(self._nodes[name], dict(order), log.resolve(), overrides)

        yield OpenedDevices(instances, start, shared, late)

    def _open(self, job: Job, nodes: Mapping[str, RemoteNode]) -> dict[str, Message]:
        """Have nodes open their parts of the layout. Returns their responses."""
        layout, folder = job.layout, job.folder
        for name, node in nodes.items():
            node.first_gmi = layout.devices_on(name)[0].gmis[0].id
        receivers = {
            name: FolderReceiver(
                folder,
                job.folder_of,
                restored=job.restored_on(name),
                parts=job.parts_on(name),
                frozen=job.frozen_on(name),
            )
            for name in nodes
        }
        secret, seen = secrets.token_hex(16), folder.path / TOKEN
        seen.write_text(secret)
        try:
            whole = {
                "layout": layout.model_dump(mode="json"),
                "run_folder": str(folder.path.resolve()),
                "token": secret,
                "purpose": self._purpose,
                "apply_mig": self._apply_mig,
            }
            shares = cpus_of(layout, {**self._nodes, **nodes})
            opened = request_all(
                nodes,
                "opened",
                OPEN_S,
                lambda name: {"type": "open", **whole, **shares[name], "begins_with": receivers[name].size()},
            )
        finally:
            seen.unlink()
        require_room(rooms_on_nodes(job.rooms, nodes, opened))
        for name, node in nodes.items():
            node.receiver = None if opened[name]["sees_folder"] else receivers[name]
        return opened

    def _share(self, job: Job, nodes: Mapping[str, RemoteNode], meeting: Meeting) -> None:
        """Have nodes make what their GMIs share, with the files of the run folder, and tell them all addresses."""
        for node in nodes.values():
            for file, data in node.receiver.pieces() if node.receiver else ():
                node.connection.send({"type": "take", "file": file}, data)
        request = {"type": "share", "slot_bytes": job.slot_bytes, "links": job.config.learner.has_shards}
        answers = request_all(nodes, "shared", ANSWER_S, lambda name: request)
        addresses = meeting.joined([answer["addresses"] for answer in answers.values()])
        for node in nodes.values():
            node.connection.send({"type": "set_addresses", "addresses": addresses})

    def _admit(self, job: Job, node: RemoteNode, meeting: Meeting) -> None:
        """Have a node that has come later open and share its part."""
        self._open(job, {node.name: node})
        self._share(job, {node.name: node}, meeting)
        self._nodes[node.name] = node

    def _start(
        self, node: RemoteNode, order: dict[str, Any], log: Path, environment: Mapping[str, str | None]
    ) -> RemoteGMI:
        log.touch()
        gmi = RemoteGMI(order["gmi"], node.name, 0, log, node.connection.send)
        node.gmis[order["gmi"]] = gmi  # before its first message can come
        for name in ("layout", "run_folder", "rendezvous_folder"):
            order[name] = str(Path(order[name]).resolve())
        node.request({"type": "start", "order": order, "log": str(log), "environment": dict(environment)})
        try:
            gmi.pid = node.response("started", ANSWER_S)["pid"]
        except GmiError:
            gmi.close()
            raise
        return gmi

    def _release(self, numbers: Collection[int]) -> None:
        for node in list(self._nodes.values()):  # another thread adds one that comes later
            if gmis := [number for number in node.gmis if number in numbers]:
                node.connection.send({"type": "release", "gmis": gmis})


def node_of(layout: Layout, number: int) -> str | None:
    """The node of a process: a GMI's own, or for a proxy that of its trainers."""
    return proxied(layout)[gmi_of(number)].node if is_proxy(number) else layout.device_of(number).node


def request_all(
    nodes: Mapping[str, RemoteNode], wanted: str, wait_s: float, message: Callable[[str], Message]
) -> dict[str, Message]:
    """Send each node a message, and wait for the responses of all, by name. For errors see `RemoteNode.response`."""
    for name, node in nodes.items():
        node.request(message(name))
    return {name: node.response(wanted, wait_s) for name, node in nodes.items()}


def cpus_of(layout: Layout, nodes: Mapping[str, RemoteNode]) -> dict[str, dict[str, Any]]:
    """The CPUs that each supervisor may use, and whether it claims them. Nodes on one machine share its CPUs.

    Each gets CPUs of its own if there are enough. Else all use the same ones, and the one that uses most claims them.
    Containers of one machine with different CPUs count as machines.
    """
    shares: dict[str, dict[str, Any]] = {}
    for place in dict.fromkeys(_place_of(node) for node in nodes.values()):
        alike = [node for node in nodes.values() if _place_of(node) == place]
        needs = {node.name: _cores_of(layout, node.name) for node in alike}
        free = alike[0].cpus
        if len(alike) == 1 or sum(needs.values()) > len(free):
            most = max(needs, key=lambda name: needs[name])
            shares |= {node.name: {"cpus": node.cpus, "claims": node.name == most} for node in alike}
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
    """Start supervisors on all nodes of a layout for the time of a `with` block. However it ends, they are ended.

    Args:
        layout: The layout over these nodes.
        purpose: What other processes on the hosts read about the holder of their devices.
        starter: Starts the supervisors.
        apply_mig: Make the MIG instances that the layout wants.
        tell: Called with a line about a node that has fallen silent.

    Raises:
        MissingNodeError: if a supervisor does not connect.
        MachineError: if the nodes have different versions; the message has a table.
    """
    names = [node for node in layout.nodes if node is not None]
    with ExitStack() as life:
        listener = life.enter_context(socket.create_server((starter.address, 0), backlog=1024))
        token, (host, port) = secrets.token_hex(16), listener.getsockname()[:2]
        order = f'{{"launcher": ["{host}", {port}], "token": "{token}"}}\n'.encode()
        supervisors: dict[str, SupervisorHandle] = {}
        nodes: dict[str, RemoteNode] = {}
        versions: dict[str, dict[str, str]] = {}

        def end(name: str) -> None:
            supervisors[name].end(LOST_END_S if name not in nodes or nodes[name].is_lost else END_S)

        for name in names:
            supervisors[name] = starter.start(name, order)
            life.callback(end, name)
        accepting = life.enter_context(closing(SupervisorListener(listener, token, supervisors)))

        def connect(arrival: Arrival) -> RemoteNode:
            nodes[arrival.node] = node = RemoteNode(arrival, supervisors[arrival.node], tell)
            life.callback(node.close)  # all are closed before any end is waited for
            return node

        def arrivals() -> list[RemoteNode]:
            """Those that have come later; with other versions they stay outside. Tells whose supervisors have ended."""
            for name, why in accepting.give_up().items():
                tell(f"node {name} cannot join: {why}")
            came = [(connect(one), {**versions, one.node: one.versions}) for one in accepting.poll()]
            return [node for node, with_it in came if has_same_versions(node, with_it, tell)]

        for arrival in accepting.await_all(partial(starts_without, layout)):
            connect(arrival)
            versions[arrival.node] = arrival.versions
        if table := differing({name: versions[name] for name in names if name in versions}):
            raise MachineError(f"the nodes have different versions: install the same on all\n{table}")
        if not accepting.missing:
            accepting.close()
        for name in sorted(accepting.missing):
            tell(f"node {name} is not here yet: the run begins without it, and it joins when it comes")
        present = {name: nodes[name] for name in names if name in nodes}
        yield RemoteHosts(present, purpose, apply_mig=apply_mig, arrivals=arrivals, tell=tell)


def has_same_versions(node: RemoteNode, versions: dict[str, dict[str, str]], tell: Tell) -> bool:
    """Whether all have the same versions. If not, this tells so, and closes a node that has come later."""
    if table := differing(versions):
        tell(f"node {node.name} cannot join, it has other versions: install the same on all\n{table}")
        node.close()
    return not table
