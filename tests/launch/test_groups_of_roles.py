"""What a user's role can do with others: sums in every group of its layout, messages, and how it ends without them."""

import os
import signal
import time

import pytest
from conftest import open_descriptors, two_cores

from gmi_drl import run_role
from gmi_drl.errors import GmiError
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from tests.comm.ranks import legal

ROLES = """
import os, signal, time
import torch
import gmi_drl as GMI_DRL

class Talker(GMI_DRL.DRL_role):
    def GMI_run(self, numel):
        sums = {}
        for name in self.mgr.layout.groups:
            data = torch.full((numel,), 1.0 + self.GMI_id)
            self.mgr.allreduce(data, self.mgr.named_group(name))
            sums[name] = data.unique().tolist()
        size = len(self.mgr.layout.gmis)
        letter = {"from": self.GMI_id, "data": (torch.full((3,), self.GMI_id), [], None)}
        sent = self.GMI_send(letter, (self.GMI_id + 1) % size)
        heard = self.GMI_recv((self.GMI_id - 1) % size)
        sent.wait()
        return {"sums": sums, "heard": [heard["from"], heard["data"][0].tolist()], "done": sent.done()}

class Loser(GMI_DRL.DRL_role):
    def GMI_run(self, number, waits):
        self.GMI_collective(torch.zeros(2))
        if self.GMI_id == 1:
            os.kill(os.getpid(), number)
            time.sleep(600)
        if waits == "for a message":
            self.GMI_recv(1)
        self.GMI_collective(torch.zeros(2))
"""


def layout(mapping, reductions):
    """GMIs of described devices, which take turns on two cores."""
    devices = tuple(
        Device(kind="cpu", index=index, gmis=tuple(GMI(id=i, roles=("trainer",), cores=(i % 2,)) for i in gmis))
        for index, gmis in enumerate(mapping)
    )
    members = tuple(i for gmis in mapping for i in gmis)
    groups = {name: GmiGroup(members=members, reduction=name) for name in reductions}
    return Layout(devices=devices, groups=groups, share_cores=True)


@pytest.fixture
def roles(tmp_path):
    path = tmp_path / "roles.py"
    path.write_text(ROLES)
    return path


@two_cores
@pytest.mark.parametrize("mapping", [[[0, 1], [2, 3, 4]], [[0, 1], [2, 3]]], ids=str)
def test_a_role_sums_by_every_legal_reduction_and_sends_around(roles, tmp_path, mapping):
    before, names = open_descriptors(), legal(mapping)
    told = run_role(f"{roles}:Talker", layout(mapping, names), {"numel": 1000}, run_dir=tmp_path / "run")
    size = sum(map(len, mapping))
    for gmi_id, said in told.items():
        assert said["sums"] == {name: [size * (size + 1) / 2] for name in names}
        assert said["heard"] == [(gmi_id - 1) % size, [(gmi_id - 1) % size] * 3] and said["done"]
    assert open_descriptors() == before


@two_cores
@pytest.mark.parametrize("reduction", legal([[0], [1]]))
@pytest.mark.parametrize("waits", ["for a message", "for a sum"])
def test_a_killed_gmi_is_named(roles, tmp_path, reduction, waits):
    started, how = time.monotonic(), {"number": signal.SIGKILL, "waits": waits}
    with pytest.raises(GmiError, match=r"GMI 1 \(process \d+\) was killed by SIGKILL"):
        run_role(f"{roles}:Loser", layout([[0], [1]], [reduction]), how, run_dir=tmp_path / "run")
    assert time.monotonic() - started < 60, "by its death, not by its silence (hang_s)"


@two_cores
@pytest.mark.parametrize("waits", ["for a message", "for a sum"])
def test_a_stopped_gmi_is_named_after_hang_s(roles, tmp_path, waits):
    how = {"number": signal.SIGSTOP, "waits": waits}
    run = {"run_dir": tmp_path / "run", "hang_s": 4.0}
    with pytest.raises(GmiError, match=r"GMI 1 \(process \d+\) lives but has not .* for 4 s \(hang_s\)"):
        run_role(f"{roles}:Loser", layout([[0], [1]], ["HAR"]), how, **run)
    assert not {name for name in os.listdir("/dev/shm") if name.startswith("gmi")}
