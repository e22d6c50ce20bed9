import errno
import json
import os
import re
import subprocess
import sys
import time

import pytest

from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.spots import Spot
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.membership import Membership
from gmi_drl.memory.calls import BARRIER


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(MachineError, match=r"nowhere.*choose a folder"):
        GlooGroup(Membership(0, [range(2)], hang_s=3), Spot(tmp_path / "nowhere" / "store"))


def test_a_peer_that_never_comes_is_silent(tmp_path):
    with pytest.raises(PeerSilentError, match="rank 1"):
        GlooGroup(Membership(0, [range(2)], hang_s=0.1), Spot(tmp_path / "store"))


def test_files_that_are_there_stay_as_they_are(tmp_path):
    """Whichever of the two files the ranks would make is there, and whichever rank comes."""
    for number, ending in enumerate(["", ".peers"]):
        store = tmp_path / str(number)
        victim = tmp_path / f"{number}{ending}"
        victim.write_text("mine")
        with pytest.raises(UsageError, match=rf"{victim.name} already: the ranks meet at a new path"):
            GlooGroup(Membership(0, [range(2)], hang_s=3), Spot(store))
        with pytest.raises(PeerSilentError, match=rf"rank 0 has not made .*/{number}\.peers for 0.1 s"):
            GlooGroup(Membership(1, [range(2)], hang_s=0.1), Spot(store))
        assert victim.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1.peers"]


@pytest.mark.parametrize(("rank", "error"), [(0, UsageError), (1, MachineError)])
def test_links_are_not_followed(tmp_path, rank, error):
    (tmp_path / "store.peers").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("gmi-drl 2 ranks\n" + "mine" * 1000)
    before = (tmp_path / "victim").read_text()
    with pytest.raises(error, match=r"store\.peers"):
        GlooGroup(Membership(rank, [range(2)], hang_s=3), Spot(tmp_path / "store"))
    assert (tmp_path / "victim").read_text() == before and not (tmp_path / "store").exists()


def test_nothing_is_left_where_nobody_came(tmp_path):
    with pytest.raises(PeerSilentError):
        GlooGroup(Membership(0, [range(2)], hang_s=0.1), Spot(tmp_path / "store"))
    assert not list(tmp_path.iterdir())


WITHOUT_LOOPBACK = """
import sys
from pathlib import Path

from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.spots import Spot
from gmi_drl.errors import MachineError
from gmi_drl.membership import Membership

try:
    GlooGroup(Membership(0, [range(2)], hang_s=3), Spot(Path(sys.argv[1]) / "store"))
except MachineError as error:
    print(error)
"""


def test_a_machine_whose_loopback_is_down_is_told_and_no_peer_is_blamed(tmp_path):
    if subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a network namespace needs root and util-linux")
    line = ["unshare", "-n", sys.executable, "-c", WITHOUT_LOOPBACK, str(tmp_path)]
    said = subprocess.run(line, check=True, capture_output=True, text=True, timeout=120).stdout
    assert re.search(r"does not reach itself at 127\.0\.0\.1: .*: bring the loopback interface up", said)
    assert not list(tmp_path.iterdir())


HALF_WAY = """
import json, os, signal, sys
from pathlib import Path
import torch
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.spots import Spot
from gmi_drl.membership import Membership
from gmi_drl.errors import GmiError
from gmi_drl.memory.calls import REDUCE, call_word

rank, store, fates = int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
member = Membership(rank, [range(len(fates))], hang_s=60)
group = GlooGroup(member, Spot(store))
object.__setattr__(member, "hang_s", 2)
group.barrier()
if fates[rank] != "reduces":
    group._peers.meet(call_word(REDUCE, 50_000))  # comes, and gives nothing
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
os._exit(0)  # as a GMI ends that has lost a peer (roles.child)
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
def test_a_group_can_end_although_a_peer_stands_still_half_way(tmp_path, fates, said):
    order = [str(tmp_path / "store"), json.dumps(fates)]
    ranks = [
        subprocess.Popen([sys.executable, "-c", HALF_WAY, str(rank), *order], stdout=subprocess.PIPE, text=True)
        for rank in range(len(fates))
    ]
    try:
        out, _ = ranks[0].communicate(timeout=60)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
            rank.stdout.close()
    assert re.search(said, out) and ranks[0].returncode == 0, out


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MachineError, match=r"store\.peers: No space left on device; choose a folder"):
        GlooGroup(Membership(0, [range(2)], hang_s=3), Spot(tmp_path / "store"))
    assert not list(tmp_path.iterdir())


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
def test_a_peer_that_ends_after_it_has_come_is_named(tmp_path, start, reason):
    child = os.fork()
    group = GlooGroup(Membership(int(child == 0), [range(2)], hang_s=60), Spot(tmp_path / "store"))
    if child == 0:
        group._peers.meet(BARRIER)
        os._exit(0)
    with pytest.raises(PeerDiedError, match=f"^rank 1 .*ended while rank 0 reduced with it: {reason}"):
        group._finish(BARRIER, start)
    os.waitpid(child, 0)


LONGER_THAN_GLOO_WAITS = """
import sys, time
from pathlib import Path
import torch
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.spots import Spot
from gmi_drl.membership import Membership
from gmi_drl.memory.calls import BARRIER

rank = int(sys.argv[1])
member = Membership(rank, [range(2)], hang_s=5)
group = GlooGroup(member, Spot(Path(sys.argv[2])))
object.__setattr__(member, "hang_s", 60)
group.barrier()
group._finish(BARRIER, lambda: time.sleep(8 * rank) or group._group.barrier())
"""


def test_gloo_does_not_give_up_by_its_own_clock(tmp_path):
    """Which goes on while a process is stopped: only we say when a peer is silent."""
    lines = [[sys.executable, "-c", LONGER_THAN_GLOO_WAITS, str(rank), str(tmp_path / "store")] for rank in range(2)]
    runs = [subprocess.Popen(line) for line in lines]
    assert [run.wait(120) for run in runs] == [0, 0]
