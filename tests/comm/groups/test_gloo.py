import gc
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from conftest import open_descriptors

from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError
from gmi_drl.layout.reductions import MPR_GLOO
from tests.fork_server import SERVER


@pytest.fixture
def rendezvous():
    """The same for all ranks: two, of one device."""
    with closing(RendezvousPoints(MPR_GLOO, [[0, 1]], 1)) as points:
        yield points[0]


def test_a_peer_that_never_comes_is_silent(rendezvous):
    with pytest.raises(PeerSilentError, match="rank 1"):
        GlooGroup(Membership(0, [range(2)], hang_s=0.1), rendezvous)


def test_a_table_for_others_is_refused(rendezvous):
    with pytest.raises(UsageError, match="made for 2 ranks, this group has 3"):
        GlooGroup(Membership(0, [range(3)], hang_s=60), rendezvous)


def test_nothing_is_left_open_or_in_a_folder(rendezvous, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = open_descriptors()

    def live(rank):
        with closing(GlooGroup(Membership(rank, [range(2)], hang_s=60), rendezvous)) as group:
            group.barrier()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(live, (0, 1)))
    gc.collect()
    assert open_descriptors() == before and not list(tmp_path.iterdir())


def started(script, rank, rendezvous, *rest):
    """A process that runs a script as a rank."""
    line = [sys.executable, "-c", script, str(rank), json.dumps(rendezvous.to_order()), *rest]
    return SERVER.popen(line, stdout=subprocess.PIPE, text=True, pass_fds=rendezvous.descriptors.values())


WITHOUT_LOOPBACK = """
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError
from gmi_drl.comm.membership import Membership

try:
    GlooGroup(Membership(0, [range(2)], hang_s=3), Rendezvous(segment=0, store=0))
except MachineError as error:
    print(error)
"""


def test_a_machine_whose_loopback_is_down_is_told_and_no_peer_is_blamed():
    if subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a network namespace needs root and util-linux")
    line = ["unshare", "-n", sys.executable, "-c", WITHOUT_LOOPBACK]
    said = subprocess.run(line, check=True, capture_output=True, text=True, timeout=120).stdout
    assert re.search(r"does not reach itself at 127\.0\.0\.1: .*: bring the loopback interface up", said)


HALF_WAY = """
import json, os, signal, sys
import torch
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.comm.membership import Membership
from gmi_drl.errors import GmiError
from gmi_drl.comm.memory.collective_calls import REDUCE, call_code

rank, rendezvous, fates = int(sys.argv[1]), Rendezvous.from_order(json.loads(sys.argv[2])), json.loads(sys.argv[3])
member = Membership(rank, [range(len(fates))], hang_s=60)
group = GlooGroup(member, rendezvous)
object.__setattr__(member, "hang_s", 2)
group.barrier()
if fates[rank] != "reduces":
    group._peers.sync(call_code(REDUCE, 50_000))  # comes, and gives nothing
if fates[rank] == "dies":
    os._exit(0)
if fates[rank] == "stands still":
    signal.pause()
if fates[rank] == "is stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    group.sum(torch.ones(50_000))
except GmiError as error:
    print(error, flush=True)
group.close()
os._exit(0)  # as a GMI ends that has lost a peer (roles.main)
"""


@pytest.mark.parametrize(
    ("fates", "said"),
    [
        (["reduces", "stands still"], r"one of rank 1 \(process \d+\) lives but has not gone on for 2 s"),
        (["reduces", "reduces", "is stopped"], r"^rank 2 \(process \d+\) has been stopped half-way for 2 s"),
        (["reduces", "stands still", "dies"], "rank 2 .*ended while rank 0 reduced with it"),
        (["reduces", "dies", "stands still"], "rank 1 .*ended while rank 0 reduced with it"),
    ],
)
def test_a_group_can_end_although_a_peer_stands_still_half_way(fates, said):
    with closing(RendezvousPoints(MPR_GLOO, [range(len(fates))], 1)) as points:
        ranks = [started(HALF_WAY, rank, points[rank], json.dumps(fates)) for rank in range(len(fates))]
    try:
        out, _ = ranks[0].communicate(timeout=60)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
            rank.stdout.close()
    assert re.search(said, out) and ranks[0].returncode == 0, out


class Unfinished:
    """An operation of gloo whose data has stopped."""

    def wait(self, timeout):
        time.sleep(timeout.total_seconds())
        raise RuntimeError("wait timeout")

    def is_completed(self):
        return False


def gloo_breaks():
    raise RuntimeError("Connection closed by peer")


@pytest.mark.parametrize(
    ("start", "reason"), [(Unfinished, "its data stopped half-way"), (gloo_breaks, "Connection closed by peer")]
)
def test_a_peer_that_ends_after_it_has_come_is_named(rendezvous, start, reason):
    child = os.fork()
    group = GlooGroup(Membership(int(child == 0), [range(2)], hang_s=60), rendezvous)
    if child == 0:
        group._peers.sync(BARRIER)
        os._exit(0)
    with pytest.raises(PeerDiedError, match=f"^rank 1 .*ended while rank 0 reduced with it: {reason}"):
        group._finish(BARRIER, start)
    os.waitpid(child, 0)


LONGER_THAN_GLOO_WAITS = """
import json, sys, time
import torch
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER

rank = int(sys.argv[1])
member = Membership(rank, [range(2)], hang_s=5)
group = GlooGroup(member, Rendezvous.from_order(json.loads(sys.argv[2])))
object.__setattr__(member, "hang_s", 60)
group.barrier()
group._finish(BARRIER, lambda: time.sleep(8 * rank) or group._group.barrier())
"""


def test_gloo_does_not_give_up_by_its_own_clock(rendezvous):
    """Which goes on while a process is stopped: only we say when a peer is silent."""
    runs = [started(LONGER_THAN_GLOO_WAITS, rank, rendezvous) for rank in range(2)]
    assert [run.wait(120) for run in runs] == [0, 0]
    for run in runs:
        run.stdout.close()
