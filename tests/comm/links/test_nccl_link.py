"""The link over NCCL, with gloo in NCCL's place: what goes by it, and what becomes of a move that never ends."""

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
import torch

from gmi_drl.comm import nccl_communicator as communicator
from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.links.nccl import NcclLink
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.errors import MachineError, PeerDiedError, UsageError
from tests.comm.gloo_as_nccl import GlooAsNccl

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def serve(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(communicator, "version", lambda: (2, 30, 7))
    monkeypatch.setattr(communicator, "prepare", lambda device, most, instead, on_one_host: None)
    monkeypatch.setattr(communicator, "process_group", GlooAsNccl)


def on_ranks(size, job, device=CPU):
    """What `job(link)` gives on each rank, a thread; nobody leaves before all are done."""
    listeners = [listen() for _ in range(size)]
    addresses = RankAddresses(tuple(one.getsockname() for one in listeners), secrets.token_hex(16))
    store, all_are_done = torch.distributed.HashStore(), threading.Barrier(size)

    def live(rank):
        member = Membership(rank, [[other] for other in range(size)], hang_s=60)
        sockets = SocketLink(member, addresses, listeners[rank].fileno())
        with closing(sockets):
            given = job(NcclLink(sockets, store, device))
            with suppress(threading.BrokenBarrierError):
                all_are_done.wait(60)
            return given

    try:
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(live, range(size)))
    finally:
        for listener in listeners:
            listener.close()


def test_several_vectors_go_to_several_ranks_in_order_and_the_communicator_ends_with_the_link():
    def job(link):
        others = [rank for rank in range(3) if rank != link.rank]
        sends = {
            to: [torch.tensor([10 * link.rank + to]), torch.empty(0), torch.full((5,), link.rank)] for to in others
        }
        into = {source: [torch.empty(1), torch.empty(0), torch.empty(5)] for source in others}
        into = {source: [vector.to(sends[source][0].dtype) for vector in vectors] for source, vectors in into.items()}
        link.move_several(sends, into)
        made = link._nccl
        link.close()
        came = {source: [vector.tolist() for vector in vectors] for source, vectors in into.items()}
        return came, made.groups, made.is_aborted, link.wait_s > 0

    for rank, (came, groups, is_aborted, has_waited) in enumerate(on_ranks(3, job)):
        others = [other for other in range(3) if other != rank]
        assert came == {source: [[10 * source + rank], [], [source] * 5] for source in others}
        assert (groups, is_aborted, has_waited) == (1, True, True)


def test_what_is_not_on_the_gpu_goes_by_the_sockets(monkeypatch):
    class Recording(GlooAsNccl):
        moved: tuple = ()

        def eager_connect_single_device(self, device):
            pass

        def send(self, vectors, to, tag):
            self.moved += (("to", to, vectors[0].device.type, len(vectors[0])),)

        def recv(self, vectors, source, tag):
            self.moved += (("from", source, vectors[0].device.type, len(vectors[0])),)

    monkeypatch.setattr(communicator, "process_group", Recording)

    def job(link):
        other = 1 - link.rank
        here, there = torch.tensor([link.rank]), torch.empty(7, device="meta")
        into = torch.empty_like(here)
        link.move_several({other: [here, there]}, {other: [into, torch.empty(3, device="meta")]})
        link.move_several({other: [here]}, {other: [into]})
        return int(into), link._nccl.moved, link._nccl.groups

    for rank, given in enumerate(on_ranks(2, job, torch.device("meta"))):
        other = 1 - rank
        assert given == (other, (("to", other, "meta", 7), ("from", other, "meta", 3)), 1)


def test_a_rank_that_leaves_is_named_although_neither_the_move_nor_the_abort_ever_returns(monkeypatch):
    monkeypatch.setattr(GlooAsNccl, "_end_coalescing", lambda self: time.sleep(1000))
    monkeypatch.setattr(GlooAsNccl, "abort", lambda self: time.sleep(1000))
    monkeypatch.setattr(communicator, "_ABORT_S", 0.2)

    def job(link):
        if link.rank == 1:
            link._sockets.close()
            return None
        with pytest.raises(PeerDiedError, match=r"rank 1 .* ended, or left the group, while .*rank 0 waited"):
            link.move_several({1: [torch.ones(2)]}, {})
        return link._nccl

    assert on_ranks(2, job) == [None, None]


def test_what_nccl_says_is_told(monkeypatch):
    def fails(self):
        raise RuntimeError("ncclUnhandledCudaError")

    monkeypatch.setattr(GlooAsNccl, "_end_coalescing", fails)

    def job(link):
        with pytest.raises(MachineError, match="NCCL cannot move between GPUs: ncclUnhandledCudaError"):
            link.move_several({1 - link.rank: [torch.ones(2)]}, {1 - link.rank: [torch.ones(2)]})

    on_ranks(2, job)


def test_a_device_that_is_no_gpu_is_refused(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(communicator, "check", lambda most, instead: None)

    class Sockets:
        rank, size = 0, 2

    with pytest.raises(UsageError, match=r"NCCL .* GPUs, not on cpu"):
        NcclLink(Sockets(), None, CPU)


def test_an_nccl_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(MachineError, match="torch has no NCCL"):
        NcclLink(None, None, CPU)
