"""Shards beside torch's own data parallelism: the ranks of a process group meet by its store, without a launcher."""

import ipaddress
import json
import os
import secrets
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.links.link import MovingLink
from gmi_drl.comm.links.nccl import NcclLink
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.errors import MachineError, PeerSilentError, UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.shards.opening import device_of, open_shards
from gmi_drl.replay.shards.shards import Shards

_OPENED: Counter[str] = Counter()  # by group: all its ranks open their shards in the same order


def open_shards_of_torch(
    signature: Signature, *, process_group: Any = None, hang_s: float = 300.0, nccl: bool = False, **settings: Any
) -> Shards:
    """Open shards over the ranks of a process group of torch; a call of all its ranks.

    The group itself carries nothing: shards have connections of their own, so that a thread may use them beside DDP.

    Args:
        signature: Of a step.
        process_group: Of `torch.distributed`, of any backend; None for the default one.
        hang_s: Seconds after which a rank that lives counts as silent.
        nccl: Whether what is collected moves between GPUs by NCCL (`NcclLink`), and not by TCP.
            `device` is this rank's GPU then.
        settings: The other arguments of `open_shards`: trajectories, steps, placement, remover, heads, seed,
            sync_every, path, device.

    Raises:
        UsageError: if there is no process group, or as `open_shards`.
        PeerSilentError: if a rank has not come within `hang_s`.
        PeerDiedError: if one has ended meanwhile.
    """
    distributed: Any = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        raise UsageError("there is no process group: call torch.distributed.init_process_group() first")
    group = process_group or distributed.group.WORLD
    name = str(group.group_name)
    store = distributed.PrefixStore(f"gmi-drl-shards/{name}/{_OPENED[name]}", _store_of(group))
    _OPENED[name] += 1
    link: MovingLink = link_by_store(store, group.rank(), group.size(), hang_s)
    try:
        if nccl and group.size() > 1:
            link = _over_nccl(link, store, device_of(settings.get("device", "cpu")), hang_s)
        return open_shards(link, signature, **settings)
    except BaseException:
        link.close()  # the other ranks see that this one does not go on
        raise


def _over_nccl(sockets: MovingLink, store: Any, device: torch.device, hang_s: float) -> MovingLink:
    """NCCL over the GPUs of these ranks, each of which tells the others by the store which one it has."""
    assert isinstance(sockets, SocketLink)
    if device.type != "cuda":
        raise UsageError(f"NCCL moves between GPUs, and device is {device}: give this rank's GPU, or nccl=False")
    network = _own_network()
    store.set(f"gpu {sockets.rank}", json.dumps([network, str(torch.cuda.get_device_properties(device).uuid)]))
    gpus = [tuple(_read(store, f"gpu {rank}", f"rank {rank}", hang_s)) for rank in range(sockets.size)]
    most, on_one_host = max(Counter(gpus).values()), {host for host, _ in gpus} == {network}
    distributed: Any = torch.distributed
    own = distributed.PrefixStore("nccl", store)
    return NcclLink(sockets, own, device, most_per_gpu=most, on_one_host=on_one_host)


def link_by_store(store: Any, rank: int, size: int, hang_s: float = 300.0) -> MovingLink:
    """Connect ranks that share a store of torch: each leaves its address there, in JSON.

    Args:
        store: Of this link alone (`PrefixStore`).
        rank: This process.
        size: All.
        hang_s: Seconds to wait for the others, then and later.

    Raises:
        PeerSilentError: if a rank has not come within `hang_s`.
        MachineError: if the host of rank 0 (`MASTER_ADDR`) cannot be reached.
        UsageError: if the store has something else, or ranks are on several hosts without `MASTER_ADDR`.
    """
    if size == 1:
        return AloneLink()
    with closing(listen(_own_host())) as listener:
        if rank == 0:
            store.set("token", json.dumps(secrets.token_hex(16)))
        store.set(f"rank {rank}", json.dumps([*listener.getsockname()[:2], _own_network()]))
        token = _read(store, "token", "rank 0", hang_s)
        addresses = [_read(store, f"rank {other}", f"rank {other}", hang_s) for other in range(size)]
        try:
            ranks = RankAddresses(tuple((str(host), int(port)) for host, port, _ in addresses), str(token))
            _check_reachable(addresses)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the store has no addresses of ranks: {error}") from None
        member = Membership(rank, [[other] for other in range(size)], hang_s=hang_s)
        return SocketLink(member, ranks, listener.fileno())


def _read(store: Any, key: str, who: str, hang_s: float) -> Any:
    try:
        store.wait([key], timedelta(seconds=hang_s))
        return json.loads(store.get(key))
    except RuntimeError as error:
        text = f"{who} has not come to the store for {hang_s:g} s (hang_s)"
        raise PeerSilentError(f"{text}: see its log, or raise hang_s") from error
    except ValueError as error:
        raise UsageError(f"the store has something else at {key!r}: {error}") from None


def _check_reachable(addresses: Sequence[tuple[str, int, str]]) -> None:
    """Raise unless ranks on other hosts have told more than an address of their own host."""
    for rank, (host, _, network) in enumerate(addresses):
        if network != addresses[0][2] and any(ipaddress.ip_address(one).is_loopback for one in (host, addresses[0][0])):
            told = f"MASTER_ADDR is {os.environ.get('MASTER_ADDR', 'not set')}"
            text = f"ranks 0 and {rank} are on two hosts, and {told}"
            raise UsageError(f"{text}: set it, on all ranks, to the address by which others reach the host of rank 0")


def _own_network() -> str:
    """The network of this process: the same for all that reach each other at 127.0.0.1."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/net')}"
    except OSError:
        return socket.gethostname()


def _store_of(group: Any) -> Any:
    """The store by which a group met. Torch has no public name for it."""
    internals: Any = torch.distributed.distributed_c10d
    return internals._get_process_group_store(group)


def _own_host() -> str:
    """The address of this host by which it reaches that of rank 0 (`MASTER_ADDR`). Nothing is sent."""
    first = os.environ.get("MASTER_ADDR", "127.0.0.1")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((first, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise MachineError(f"the host of rank 0, {first} (MASTER_ADDR), cannot be reached: {error.strerror}") from None
