import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.layout.reductions import REDUCTIONS

pytestmark = pytest.mark.gpu

WORKER = Path(__file__).with_name("reduces_on_gpu.py")
MAPPING = [[0, 1]]


def started(rank, name, rendezvous):
    command = [sys.executable, WORKER, str(rank), name, json.dumps(rendezvous.to_order())]
    return subprocess.Popen(command, pass_fds=rendezvous.descriptors.values(), stdout=subprocess.PIPE, text=True)


def answers(ranks):
    return [json.loads(rank.stdout.readline()) for rank in ranks]


@pytest.mark.parametrize("name", ["IPC", "MPR-shm", "NCCL-flat"])
def test_two_processes_on_a_gpu_sum_right_and_name_the_one_that_dies(name):
    with closing(RendezvousPoints(REDUCTIONS.find(name), MAPPING, 1 << 20)) as points:
        ranks = [started(rank, name, points[rank]) for rank in (0, 1)]
    try:
        said = answers(ranks)
        if "cannot" in said[0]:
            pytest.skip(said[0]["cannot"])
        for right, _ in said[0]["sums"]:
            assert all(right), said[0]
        assert said[0] == said[1], "bits, too"
        assert said[0]["zeroed"] and said[0]["wrong"] == 0
        time.sleep(0.5)
        ranks[1].kill()
        killed = time.monotonic()
        (lost,) = answers(ranks[:1])
        assert lost["error"] == "PeerDiedError" and f"rank 1 (process {ranks[1].pid})" in lost["message"]
        assert lost["at"] - killed < 10
        assert answers(ranks[:1]) == [{"readable": True}]
        assert ranks[0].wait(30) == 0
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
