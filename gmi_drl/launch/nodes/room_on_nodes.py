"""The memory of nodes, as they report it when they open their parts of a layout, beside what their GMIs need."""

from collections.abc import Mapping
from itertools import chain

from gmi_drl.comm.links.control import Message
from gmi_drl.launch.known_rooms import OnNode
from gmi_drl.launch.nodes.remote_node import RemoteNode
from gmi_drl.launch.rooms import HostRoom, Room, free_now


def rooms_on_nodes(
    needed: list[OnNode], nodes: Mapping[str, RemoteNode], opened: Mapping[str, Message]
) -> list[HostRoom]:
    """The nodes with what they need, and machines of several nodes with what these need together.

    Args:
        needed: Rooms with their nodes, also those of other nodes.
        nodes: The nodes that open, by name.
        opened: Their responses.
    """
    of_nodes: dict[str, list[Room]] = {name: [] for name in nodes}
    for name, room in needed:
        if name in of_nodes:
            of_nodes[name].append(room)
    hosts = {name: free_now(f"node {name}", opened[name]["free"], rooms) for name, rooms in of_nodes.items()}
    found = list(hosts.values())
    for machine in dict.fromkeys(node.machine for node in nodes.values()):
        alike = [name for name, node in nodes.items() if node.machine == machine]
        if len(alike) > 1 and not any(hosts[name].is_short for name in alike):
            free = min(opened[name]["free_of_machine"] for name in alike)
            names = f"the machine of nodes {', '.join(alike)}"
            found.append(free_now(names, free, chain.from_iterable(of_nodes[name] for name in alike)))
    return found
