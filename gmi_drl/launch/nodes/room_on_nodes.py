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
    """What each node needs, and what nodes need together that share a limit of memory, or a machine.

    Args:
        needed: Rooms with their nodes, also those of other nodes.
        nodes: The nodes that open, by name.
        opened: Their responses.
    """
    of_nodes: dict[str, list[Room]] = {name: [] for name in nodes}
    for name, room in needed:
        if name in of_nodes:
            of_nodes[name].append(room)
    alone = {name: free_now(f"node {name}", opened[name]["free"], rooms) for name, rooms in of_nodes.items()}
    found, short = list(alone.values()), {name for name, host in alone.items() if host.is_short}
    for free, shared in (("free", ("machine", "memory_group")), ("free_of_machine", ("machine",))):
        for names in _alike({name: {"machine": nodes[name].machine, **opened[name]} for name in nodes}, shared):
            least = min(opened[name][free] for name in names)
            rooms = chain.from_iterable(of_nodes[name] for name in names)
            together = free_now(f"the machine of nodes {', '.join(names)}", least, rooms)
            if len(names) > 1 and together.is_short and short.isdisjoint(names):
                found.append(together)
                short.update(names)
    return found


def _alike(of_nodes: Mapping[str, Message], shared: tuple[str, ...]) -> list[list[str]]:
    """The names of nodes in groups with the same values."""
    groups = dict[tuple[str, ...], list[str]]()
    for name, one in of_nodes.items():
        groups.setdefault(tuple(one[key] for key in shared), []).append(name)
    return list(groups.values())
