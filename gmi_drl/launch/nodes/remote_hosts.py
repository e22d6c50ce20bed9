"""Opens a layout on several hosts, each by its supervisor."""

import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gmi_drl.comm.links.control import Message
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.hosts import OpenedDevices
from gmi_drl.launch.job import Job
from gmi_drl.launch.nodes.accept_supervisors import accept_supervisors
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.launch.nodes.node_host import TOKEN
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI, RemoteInstances, nothing_shared
from gmi_drl.launch.nodes.remote_node import RemoteNode, Tell
from gmi_drl.launch.nodes.supervisor_starters import END_S, SupervisorHandle, SupervisorStarter
from gmi_drl.launch.nodes.versions import differing
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
        nodes: The connected nodes, by name.
        purpose: What other processes on the hosts read about the holder.
        apply_mig: Make the MIG instances that the layout wants.
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
            opened = self._request_all("opened", OPEN_S, lambda name: {"type": "open", **whole, **shares[name]})
        finally:
            seen.unlink()
        without_folder = [node for name, node in self._nodes.items() if not opened[name]["sees_folder"]]
        instances = RemoteInstances(any(answer["drains"] for answer in opened.values()), self._release)

        @contextmanager
        def shared() -> Iterator[Mapping[int, Resources]]:
            for node in without_folder:
                node.receiver = FolderReceiver(folder)
                for file, data in node.receiver.pieces():
                    node.connection.send({"type": "take", "file": file}, data)
            request = {"type": "share", "slot_bytes": job.slot_bytes, "links": job.config.learner.has_shards}
            answers = self._request_all("shared", ANSWER_S, lambda name: request)
            addresses = joined([answer["addresses"] for answer in answers.values()])
            for node in self._nodes.values():
                node.connection.send({"type": "set_addresses", "addresses": addresses})
            try:
                yield nothing_shared([*(gmi.id for gmi in layout.gmis), *map(proxy_of, proxy_processes(layout))])
            finally:
                for node in self._nodes.values():
                    node.connection.send({"type": "settle"})

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

    def _request_all(self, wanted: str, wait_s: float, message: Callable[[str], Message]) -> dict[str, Message]:
        for name, node in self._nodes.items():
            node.request(message(name))
        return {name: node.response(wanted, wait_s) for name, node in self._nodes.items()}

    def _release(self, groups: Sequence[int]) -> None:
        for node in self._nodes.values():
            if gmis := [gmi_id for gmi_id, gmi in node.gmis.items() if gmi.pid in groups]:
                node.connection.send({"type": "release", "gmis": gmis})


def node_of(layout: Layout, number: int) -> str | None:
    """The node of a process: a GMI's own, or for a proxy that of its trainers."""
    return proxied(layout)[gmi_of(number)].node if is_proxy(number) else layout.device_of(number).node


def joined(of_nodes: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """The addresses of all ranks of each group, in rank order, with a new token; from the addresses of each node."""
    where: dict[str, dict[int, Any]] = {}
    for addresses in of_nodes:
        for name, of_ranks in addresses.items():
            where.setdefault(name, {}).update({int(rank): address for rank, address in of_ranks.items()})
    return {
        name: [[of_ranks[rank] for rank in sorted(of_ranks)], secrets.token_hex(16)]
        for name, of_ranks in where.items()
        if of_ranks
    }


def cpus_of(layout: Layout, nodes: Mapping[str, RemoteNode]) -> dict[str, dict[str, Any]]:
    """The CPUs that each supervisor may use, and whether it claims them. Nodes on one machine share its CPUs.

    Each gets CPUs of its own if there are enough. Else all use the same ones, which the first claims. Containers of one
    machine with different CPUs count as machines.
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
        connected: dict[str, RemoteNode] = {}

        def end(name: str) -> None:
            is_lost = name not in connected or connected[name].is_lost
            supervisors[name].end(LOST_END_S if is_lost else END_S)

        for name in names:
            supervisors[name] = starter.start(name, order)
            life.callback(end, name)
        versions: dict[str, dict[str, str]] = {}
        for arrival in accept_supervisors(listener, token, supervisors):
            versions[arrival.node] = arrival.versions
            connected[arrival.node] = RemoteNode(arrival, supervisors[arrival.node], tell)
            life.callback(connected[arrival.node].close)  # all are closed before any end is waited for
        if table := differing({name: versions[name] for name in names}):
            raise MachineError(f"the nodes have different versions: install the same on all\n{table}")
        nodes = {name: connected[name] for name in names}
        yield RemoteHosts(nodes, purpose, apply_mig=apply_mig)
