"""Trainings by every legal reduction, on described devices whose GMIs take turns on two cores."""

import pytest
from conftest import tiny_config, two_cores

from gmi_drl.config.learners import PPOConfig
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import list_checkpoints, read_part
from gmi_drl.run.folder import RunFolder
from tests.comm.ranks import legal

UPDATES = 12
LEARNER = PPOConfig(horizon=4, epochs=1, minibatches=1, hidden=(32,))


def layout(reduction):
    """Two devices of two GMIs, one of each device on each core."""
    devices = tuple(
        Device(kind="cpu", index=device, gmis=tuple(GMI(id=2 * device + i, num_env=8, cores=(i,)) for i in range(2)))
        for device in range(2)
    )
    groups = {"trainers": GmiGroup(members=(0, 1, 2, 3), reduction=reduction)}
    return Layout(task="ant", template="TCG_EX", devices=devices, groups=groups, share_cores=True)


@pytest.fixture(scope="module")
def firsts():
    """Parameters after one optimizer step, by reduction."""
    return {}


@two_cores
@pytest.mark.parametrize("reduction", legal([[0, 1], [2, 3]]))
def test_replicas_stay_alike_and_learn_the_same_by_every_reduction(tmp_path, firsts, reduction):
    """That the replicas are alike, bit for bit, is compared before each checkpoint (`roles.checkpointer`)."""
    folder = RunFolder(tmp_path / "run")
    folder.create()
    config = tiny_config(iterations=UPDATES, checkpoint_every=1, checkpoints_kept=UPDATES, learner=LEARNER)
    assert train(resolve(layout(reduction), config, folder)).state == "done"
    first, *_, last = list_checkpoints(folder.checkpoints)
    assert (first.name, last.name) == ("000001", f"{UPDATES:06d}")
    firsts[reduction] = read_part(first, "learner")["parameters"]
    for other, parameters in firsts.items():
        assert (parameters - firsts[reduction]).abs().max() <= 1e-5, (reduction, other)
    assert (read_part(last, "learner")["parameters"] - firsts[reduction]).abs().max() > 1e-5
