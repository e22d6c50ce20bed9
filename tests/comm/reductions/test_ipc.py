"""The reduction in a GPU's memory, with files in its place: who has which row, who sums what, who waits for whom."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from conftest import open_descriptors

from gmi_drl.comm.groups.ipc import IpcGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.reductions.ipc import IpcReduction
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.layout.reductions import IPC
from tests.comm.files_as_gpus import Files
from tests.comm.ranks import started
from tests.comm.reductions.test_device_aware import contract


@pytest.fixture
def files(tmp_path, monkeypatch):
    return Files(tmp_path, monkeypatch)


@pytest.mark.parametrize("mapping", [[[0, 1]], [[2, 0, 1]]], ids=str)
def test_the_contract_and_the_bits_of_host_memory(files, mapping):
    with started(mapping, ["IPC", "MPR-shm"], contract) as (answers, _):
        ranks, in_host_memory = answers("IPC"), answers("MPR-shm")
        for key in ("sums", "again"):
            assert len({str(rank[key]) for rank in ranks + in_host_memory}) == 1
        worst = [error for error, _ in (*ranks[0]["sums"], ranks[0]["again"])]
        assert max(worst) < 1e-6
        assert all(rank["zeroed"] and rank["gathered"] and rank["rounds"] and rank["waited"] for rank in ranks)
        ((said, kept),) = {(rank["refused"][0], tuple(rank["refused"][1])) for rank in ranks}
        assert "rank 0 reduces 3 numbers" in said and "rank 1 reduces 7 numbers" in said and kept == (1.0,)


def until_lost(reduction):
    bucket = reduction.bucket(1000)
    try:
        while True:
            reduction.reduce(bucket.fill_(1.0))
    except GmiError as error:
        reduction.group.close()
        return type(error).__name__, str(error)


def test_a_dead_peer_is_named_and_nobody_waits_for_it_at_the_end(files):
    with started([[0, 1, 2]], ["IPC"], until_lost) as (answers, processes):
        time.sleep(1)
        killed = time.monotonic()
        processes[2].kill()
        for error, message in answers("IPC", (0, 1)):
            assert error == "PeerDiedError" and f"rank 2 (process {processes[2].pid})" in message
        assert time.monotonic() - killed < 30
    assert files.unmapped == 4


@pytest.fixture
def pair():
    """What two threads, each a rank, make of a function of their group."""
    with closing(RendezvousPoints(IPC, [[0, 1]], 4000)) as points, ThreadPoolExecutor(2) as pool:

        def both(live):
            def one(rank):
                return live(IpcGroup(Membership(rank, [[0, 1]], hang_s=20), points[rank]))

            return list(pool.map(one, (0, 1)))

        yield both


@pytest.mark.parametrize("what", ["shared", "mapped"])
def test_where_one_cannot_share_all_are_told(files, pair, monkeypatch, what):
    """Nobody waits for one that could not, or maps what is not there."""
    right, failures = getattr(files, what), [MachineError("no such memory")]

    def fails_once(*given):
        if failures:
            raise failures.pop()
        return right(*given)

    monkeypatch.setattr(f"gmi_drl.comm.groups.ipc.{what.capitalize()}DeviceMemory", fails_once)

    def live(group):
        with pytest.raises(MachineError) as caught:
            IpcReduction(group, "cpu")
        group.close()
        return str(caught.value)

    first, second = sorted(pair(live))
    assert first == "no such memory" and "cannot share its GPU memory" in second


def test_who_leaves_first_waits_until_the_others_have_unmapped_its_memory(files, pair):
    def live(group):
        bucket = IpcReduction(group, "cpu").bucket(5).fill_(1.0)
        time.sleep(0.3 * group.rank)
        group.close()
        return files.unmapped, bucket.tolist()

    assert pair(live) == [(2, [1.0] * 5)] * 2


def test_nobody_waits_for_long_for_one_that_does_not_leave(files, pair, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.groups.ipc._FAREWELL_S", 0.2)
    has_left = threading.Event()

    def live(group):
        IpcReduction(group, "cpu")
        if group.rank == 0:
            began = time.monotonic()
            group.close()
            has_left.set()
            return time.monotonic() - began
        is_alone = has_left.wait(60)
        group.close()
        return is_alone

    waited_s, is_alone = pair(live)
    assert waited_s >= 0.2 and is_alone


def test_a_group_has_one_reduction(files, pair):
    def live(group):
        IpcReduction(group, "cpu")
        with pytest.raises(UsageError, match="has a reduction already"):
            IpcReduction(group, "cpu")
        group.close()

    pair(live)


def test_only_memory_of_a_gpu_is_shared(pair):
    def live(group):
        with pytest.raises(UsageError, match="memory of a GPU, not of cpu: use MPR-shm"):
            IpcReduction(group, "cpu")
        group.close()

    pair(live)


def test_nothing_is_left_open(files, pair):
    before = len(open_descriptors())

    def live(group):
        reduction = IpcReduction(group, "cpu")
        reduction.reduce(vector := reduction.bucket(5).fill_(2.0))
        group.close()
        return vector.tolist()

    assert pair(live) == [[4.0] * 5] * 2
    assert len(open_descriptors()) == before
