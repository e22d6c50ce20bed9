"""Connects to a Ray cluster: an existing one, or a new one on this machine."""

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import psutil

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.launch.ray.local_cluster import own_cluster
from gmi_drl.processes.signals import handlers_kept

ADDRESS = "RAY_ADDRESS"
"""Ray's own variable: `HOST:PORT` of a cluster's head, `auto`, or `local` for a new cluster on this machine."""

AUTH_MODE = "RAY_AUTH_MODE"
"""Ray's own variable: `token` if a cluster requires its token."""

RAYLET, OF_HEAD = "raylet", "--gcs-address="
"""The program that runs on each node of a cluster, and its option with the address of the head."""

CONNECT_S = 5.0
ID_SHOWN = 6


@dataclass(frozen=True)
class RayNode:
    """A machine of a cluster, as Ray knows it.

    `cpus`, `gpus` and `memory_bytes` are the resources that Ray manages there, free or not. `name` is the hostname,
    followed by the beginning of the id if another node has the same one.
    """

    id: str
    name: str
    address: str
    cpus: int
    gpus: int
    gpu_model: str | None = None
    memory_bytes: int = 0
    is_here: bool = False


@contextmanager
def connected() -> Iterator[None]:
    """Join a cluster for the time of a `with` block: that of `RAY_ADDRESS`, else one that runs here, else a new one.

    A new one has this machine's cores and GPUs, no dashboard, sends no usage statistics, and ends with the block.
    Others stay up.

    Raises:
        MachineError: if Ray is not installed, or the cluster cannot be reached, refuses us, or has another version of
            Ray or Python.
        UsageError: if the address is for Ray's client, which is not on the cluster's network.
    """
    if find_spec("ray") is None:
        raise MachineError("Ray is not installed: pip install 'gmi-drl[ray]'")
    import ray
    from ray.exceptions import AuthenticationError

    if ray.is_initialized():
        yield
        return
    with ExitStack() as life:
        life.enter_context(handlers_kept())  # Ray sets a handler for SIGTERM and leaves it
        life.callback(ray.shutdown)
        try:
            _join(os.environ.get(ADDRESS, ""), life)
        except (ConnectionError, AuthenticationError) as error:  # Ray raises either if tokens differ
            raise MachineError(f"Ray: {' '.join(str(error).split())}; {_about_tokens()}") from error
        except (RuntimeError, ValueError) as error:
            raise MachineError(f"Ray: {' '.join(str(error).split())}") from error
        yield


def nodes() -> list[RayNode]:
    """The living nodes of the cluster, this machine's first."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    living = [found for found in ray.nodes() if found["Alive"]]
    hosts = Counter(found["NodeManagerHostname"] for found in living)
    known = [_node(found, hosts, here) for found in living]
    return sorted(known, key=lambda node: (not node.is_here, node.name))


def running_nodes() -> list[RayNode]:
    """The living nodes of a cluster that others have started.

    Raises:
        MachineError: if there is none, besides the reasons of `connected`.
    """
    address = os.environ.get(ADDRESS, "")
    if address == "local":
        raise MachineError(f"{ADDRESS}=local starts another cluster: leave it out, or name one, {ADDRESS}=HOST:PORT")
    if address in ("", "auto") and not _answering_heads():
        raise MachineError(f"no Ray cluster runs here: `ray start --head` starts one, or {ADDRESS}=HOST:PORT names one")
    with connected():
        return nodes()


def _node(found: dict[str, Any], hosts: Counter[str], here: str) -> RayNode:
    host, number, has = found["NodeManagerHostname"], found["NodeID"], found["Resources"]
    models = [name.partition(":")[2] for name in has if name.startswith("accelerator_type:")]
    return RayNode(
        id=number,
        name=host if hosts[host] == 1 else f"{host}-{number[:ID_SHOWN]}",
        address=found["NodeManagerAddress"],
        cpus=int(has.get("CPU", 0)),
        gpus=int(has.get("GPU", 0)),
        gpu_model=models[0] if models else None,
        memory_bytes=int(has.get("memory", 0)),
        is_here=number == here,
    )


def _join(address: str, life: ExitStack) -> None:
    """Join the cluster at the address. Without one join any that runs here, else start one.

    Raises:
        ConnectionError: if the cluster at the address, or the one that runs here, refuses us.
    """
    import ray

    if address.startswith("ray://"):
        raise UsageError(
            f"{ADDRESS}={address}: Ray's client is not on the cluster's network: start the launcher on one of its "
            "nodes, with the address of the head (HOST:6379)"
        )
    if address not in ("", "auto", "local"):
        _require_head(address)
    if address != "local":
        try:
            ray.init(address=address or "auto", log_to_driver=False, logging_level="error")
            return
        except ConnectionError as error:
            if address:
                raise
            if here := ", ".join(sorted(_answering_heads())):
                remedy = f"{ADDRESS}=local starts another one beside it"
                raise ConnectionError(f"the cluster that runs here ({here}): {error}; {remedy}") from error
    life.enter_context(own_cluster())


def _answering_heads() -> set[str]:
    """`HOST:PORT` of the head of each cluster that has a node on this machine, if something listens there."""
    heads = set[str]()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or [""]
        if os.path.basename(command[0]) == RAYLET:
            heads |= {one.removeprefix(OF_HEAD) for one in command if one.startswith(OF_HEAD)}
    return {head for head in heads if _refusal(head) is None}


def _about_tokens() -> str:
    """A remedy for a cluster whose head listens but to which Ray cannot connect: only the head's logs say why."""
    place = "in RAY_AUTH_TOKEN, in the file of RAY_AUTH_TOKEN_PATH or in ~/.ray/auth_token"
    if os.environ.get(AUTH_MODE, "").lower() == "token":
        return f"the cluster's token must be {place}"
    return f"if the cluster has tokens (Ray's log says InvalidAuthToken): {AUTH_MODE}=token, with its token {place}"


def _require_head(address: str) -> None:
    """Ray itself would try for a minute."""
    if error := _refusal(address):
        remedy = "`ray start --head --port 6379` starts one"
        raise MachineError(f"no Ray cluster answers at {ADDRESS}={address} ({error}): {remedy}")


def _refusal(address: str) -> Exception | None:
    """Why nothing can be connected to at `HOST:PORT`; None if something listens there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, ValueError) as error:
        return error
    return None
