import mmap
import subprocess
import sys
import time
from array import array

import pytest

from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.rank_table import RankTable
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.errors import PeerDiedError


def test_a_late_rank_that_has_died_is_noticed_and_one_that_arrived_first_is_not():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    memory = mmap.mmap(-1, 2 * LINE_BYTES)
    words = memoryview(memory).cast("q")
    words[16:19] = memoryview(array("q", [2 << 48, 1 << 48, child.pid]))  # rank 1 was at the opening and at one barrier
    peers = RankTable(memory, 0, Membership(0, [range(2)], hang_s=600))
    child.kill()
    child.wait()
    peers.sync()
    started = time.perf_counter()
    with pytest.raises(PeerDiedError, match=rf"rank 1 \(process {child.pid}\) ended"):
        peers.sync()
    assert time.perf_counter() - started < 60, "by its death, not by its silence"
    child.stdin.close()
    peers.close()
