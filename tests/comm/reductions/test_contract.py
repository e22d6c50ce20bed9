"""The contract of a reduction, on real processes that live through all of it and then lose their peers."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.groups.single import SingleRankGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.comm.rendezvous import Rendezvous, RendezvousPoints
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.layout.reductions import HAR, HOROVOD, MPR_GLOO, MPR_SHM, NONE
from tests.comm.ranks import METHODS, legal
from tests.fork_server import SERVER

WORKER = Path(__file__).parent / "contract_worker.py"
FROZEN_WORKER = WORKER.with_name("frozen_worker.py")
SLOT_BYTES = 80_000
HANG_S = 3
MAPPINGS = {3: [[0], [1], [2]], 2: [[0], [1]]}
GROUPS = {f"{name}-{size}": (METHODS[name], size) for size in (3, 2) for name in legal(MAPPINGS[size])}
GROUPS.pop(f"{HOROVOD.name}-2", None)  # Horovod knows one group in a process


def described(rank, points):
    """The groups as a worker is told of them; those of three are opened first and wait for slow starters."""
    return {
        name: {
            "method": method.name,
            "mapping": MAPPINGS[size],
            "rendezvous": points[name][rank].to_order(),
            "hang_s": 60 if size == 3 else HANG_S,
        }
        for name, (method, size) in GROUPS.items()
        if rank < size
    }


def started(rank, points):
    """A worker, which inherits its own points alone."""
    fds = {fd for name, (_, size) in GROUPS.items() if rank < size for fd in points[name][rank].descriptors.values()}
    command = [sys.executable, WORKER, str(rank), json.dumps(described(rank, points))]
    return SERVER.popen(command, pass_fds=fds, stdout=subprocess.PIPE, text=True)


def live_through():
    """What three processes say of their groups: the contract, then rank 2 is killed, then rank 1 is stopped."""
    points = {name: RendezvousPoints(method, MAPPINGS[size], SLOT_BYTES) for name, (method, size) in GROUPS.items()}
    ranks = [started(rank, points) for rank in range(3)]
    for made in points.values():
        made.close()

    def answers(of):
        return [json.loads(rank.stdout.readline()) for rank in of]

    try:
        contract = answers(ranks)
        time.sleep(0.2)  # they reduce now, over and over
        ranks[2].kill()
        killed = answers(ranks[:2])
        time.sleep(0.2)
        ranks[1].send_signal(signal.SIGSTOP)
        stopped = answers(ranks[:1])
        last = answers(ranks[:1])[0]
        return {"contract": contract, "lost": {3: killed, 2: stopped}, "last": last, "code": ranks[0].wait(120)}
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
            rank.stdout.close()


@pytest.fixture(scope="module")
def life():
    shm_before = set(os.listdir("/dev/shm"))
    life = live_through()
    life["left"] = set(os.listdir("/dev/shm")) - shm_before
    return life


@pytest.fixture(params=GROUPS)
def group(request):
    return request.param


@pytest.fixture
def contract(life, group):
    """The answers of the group's ranks, in rank order."""
    return [answer[group] for answer in life["contract"] if group in answer]


def test_every_rank_answers(contract, group):
    assert len(contract) == GROUPS[group][1]


def test_sums_are_right(contract):
    right = {"1": True, "7": True, "100003": True, "300007": True}
    assert all(rank["before"] == rank["sums"] == right for rank in contract)


def test_bucket_starts_zeroed_and_foreign_tensors_leave_it_alone(contract):
    assert all(rank["zeroed"] and rank["agree"] and rank["kept"] for rank in contract)


def test_ranks_end_bit_identical(contract):
    assert len({rank["digest"] for rank in contract}) == 1


def test_gather_is_in_rank_order(contract):
    assert all(rank["gathers"] == {"0": True, "3": True, "70000": True} for rank in contract)


def test_nobody_leaves_a_barrier_before_all_are_there(contract):
    marks = [rank["barrier"] for rank in contract]
    assert min(mark["left"] for mark in marks) >= max(mark["arrived"] for mark in marks)
    assert marks[1]["left"] - marks[1]["arrived"] >= marks[1]["wait_s"] > 0


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("dtype", ["torch.float32", "torch.float64"]),
        ("shape", ["[n]", "[2, 2]"]),
        ("strides", ["contiguous", "strides [2]"]),
        ("values", ["torch.float64", "torch.float32"]),
        ("bucket", ["10007", "4 more"]),
    ],
)
def test_wrong_tensors_are_refused(contract, case, words):
    for rank in contract:
        assert all(word in rank["refusals"][case] for word in words)


@pytest.mark.parametrize(
    ("case", "first", "second"),
    [
        ("lengths", "7 numbers", "300007 numbers"),
        ("no numbers", "0 numbers", "1 numbers"),
        ("gathers", "rank 0 gathers 3 numbers", "rank 1 gathers 4 numbers"),
        ("kinds", "rank 0 reduces", "rank 1 gathers 7 numbers"),
        ("barrier", "rank 0 waits at a barrier", "rank 1 reduces"),
    ],
)
def test_different_calls_are_refused_on_every_rank(contract, case, first, second):
    (said,) = {rank["mixes"]["said"][case] for rank in contract}
    assert said.index(first) < said.index(second) and "the same calls in the same order" in said


def test_a_bucket_and_a_foreign_tensor_are_summed_or_refused_but_never_wrong(contract, group):
    method, size = GROUPS[group]
    (said,) = {rank["mixes"]["said"]["bucket"] for rank in contract}
    if method.rendezvous_by != "store":  # to gloo, all vectors are alike
        assert "rank 0 reduces 10007 numbers in its slot, rank 1 reduces 10007 numbers beside its bucket" in said
    assert all(rank["mixes"]["own"] == [size if said is None else 1] for rank in contract)


def test_a_rank_that_has_its_bucket_makes_another_call_where_that_matters(contract, group):
    (said,) = {rank["half way"] for rank in contract}
    if GROUPS[group][0].rendezvous_by != "store":
        assert "rank 0 reduces 7 numbers beside its bucket, rank 1 reduces 7 numbers in its slot" in said
    else:
        assert said is None


def test_ranks_go_on_together_after_a_refusal(contract):
    assert all(all(rank["mixes"]["sums"].values()) for rank in contract)


def test_a_lost_rank_is_named(life, group):
    """A killed one by its death, long before `hang_s`; a stopped one not before that."""
    size = GROUPS[group][1]
    for losses in life["lost"][size]:
        loss = losses[group]
        assert f"rank {size - 1} (process " in loss["message"]
        if size == 3:
            assert loss["error"] == "PeerDiedError" and loss["waited_s"] < 60, loss
        else:
            assert loss["error"] == "PeerSilentError" and loss["waited_s"] > HANG_S, loss


def test_a_whole_group_may_stand_still_for_longer_than_hang_s():
    """All ranks are stopped, and those that wait go on a moment before those that are waited for."""
    hang_s, mapping = 8, [[0], [1]]
    points = {name: RendezvousPoints(METHODS[name], mapping, 8) for name in legal(mapping)}
    ranks = []
    for name, rank in product(points, range(2)):
        rendezvous = points[name][rank]
        order = {
            "method": name,
            "rank": rank,
            "mapping": mapping,
            "rendezvous": rendezvous.to_order(),
            "hang_s": hang_s,
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "pass_fds": rendezvous.descriptors.values()}
        ranks.append(SERVER.popen([sys.executable, FROZEN_WORKER, json.dumps(order)], text=True, bufsize=1, **pipes))
    try:
        assert [rank.stdout.readline() for rank in ranks] == ["imported\n"] * len(ranks)
        for rank in ranks:
            rank.stdin.write("\n")
        assert [rank.stdout.readline() for rank in ranks] == ["open\n"] * len(ranks)
        time.sleep(0.5)  # the first of each group wait now
        for rank in ranks:
            rank.send_signal(signal.SIGSTOP)
        time.sleep(hang_s + 1)
        for rank in ranks[::2]:
            rank.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        for rank in ranks[1::2]:
            rank.send_signal(signal.SIGCONT)
            rank.stdin.write("\n")
        assert [rank.stdout.readline() for rank in ranks] == ["done\n"] * len(ranks)
    finally:
        for made in points.values():
            made.close()
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_nothing_is_left_behind(life):
    assert (life["code"], life["last"], life["left"]) == (0, {"pidfds": 0}, set())


def test_alone():
    solo = open_reduction(NONE, open_group(NONE, Membership(0, [[0]]), Rendezvous()))
    assert isinstance(solo, NoReduction) and isinstance(solo.group, SingleRankGroup)
    assert (solo.group.rank, solo.group.size, solo.group.wait_s) == (0, 1, 0.0)
    bucket = solo.bucket(3)
    assert bucket.tolist() == [0, 0, 0]
    solo.reduce(bucket.fill_(2.0))
    assert bucket.tolist() == [2, 2, 2]
    values = torch.tensor([1.5, 2.5], dtype=torch.float64)
    gathered = solo.group.gather(values)
    values.zero_()
    assert gathered.tolist() == [[1.5, 2.5]]
    solo.group.barrier()
    solo.group.close()
    with pytest.raises(UsageError, match="already has a bucket of 3"):
        solo.bucket(4)
    with pytest.raises(UsageError, match=r"float32.*float64"):
        solo.reduce(values)
    with pytest.raises(UsageError, match=r"float64.*float32"):
        solo.group.gather(bucket)


def test_what_is_missing_to_open_a_group_is_said():
    member = Membership(0, [range(2)])
    with pytest.raises(UsageError, match="reduction 'none' is for a GMI alone, not for 2: use MPR-shm"):
        open_group(NONE, member, Rendezvous())
    with pytest.raises(MachineError, match=r"needs no-such-package, which is not installed: pip install 'gmi-drl\[no-"):
        open_group(replace(MPR_SHM, package="no-such-package"), member, Rendezvous())
    with pytest.raises(UsageError, match="MPR-shm needs a rendezvous with segment"):
        open_group(MPR_SHM, member, Rendezvous())
    with pytest.raises(UsageError, match="MPR-gloo needs a rendezvous with segment and store"):
        open_group(MPR_GLOO, member, Rendezvous())
    with pytest.raises(UsageError, match="HAR needs a rendezvous with listener and addresses"):
        open_group(HAR, member, Rendezvous(segment=0))
