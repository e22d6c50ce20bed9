"""Asynchronous trainings over two nodes of this machine: agents on both, trainers on one."""

import pytest
from conftest import two_cores
from test_training_on_nodes import processes_of

from gmi_drl.config import RunConfig
from gmi_drl.launch.nodes.starters import SubprocessAgents
from gmi_drl.launch.training import train
from gmi_drl.layout import GMI, Channels, Device, GmiGroup, Layout
from gmi_drl.learners import A3CConfig
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

NUM_ENV, HORIZON = 4, 8
AGENT, TRAINER = ("simulator", "agent"), ("trainer",)


def layout_of(reduction="none", channels=None, **roles):
    """Roles of the GMIs of each node, which take turns on its first core."""
    devices, ids = [], iter(range(100))
    for node, parts in roles.items():
        gmis = [GMI(id=next(ids), roles=role, num_env=NUM_ENV if role == AGENT else 0, cores=(0,)) for role in parts]
        devices.append(Device(node=node, kind="cpu", gmis=tuple(gmis)))
    trainers = tuple(gmi.id for device in devices for gmi in device.gmis if gmi.roles == TRAINER)
    return Layout(
        task="ant",
        template="decoupled",
        share_cores=True,
        devices=tuple(devices),
        groups={"trainers": GmiGroup(members=trainers, reduction=reduction)},
        channels=channels or Channels(max_lag=1),
    )


def config_of(iterations=4, **more):
    small = A3CConfig(hidden=(16,), horizon=HORIZON, minibatches=1, schedule="fixed")
    return RunConfig(iterations=iterations, checkpoint_every=iterations, hang_s=60.0, learner=small, **more)


def start(path, layout, config, **more):
    folder = RunFolder(path)
    folder.create()
    return folder, train(layout, config, folder, agents=SubprocessAgents(), **more)


@two_cores
@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_experience_of_another_node_is_of_the_very_policy_that_learns(tmp_path, mode):
    """So densities on both sides are the same: all has come whole, there and back."""
    layout = layout_of(a=[AGENT], b=[TRAINER], channels=Channels(mode=mode, max_lag=0))
    folder, outcome = start(tmp_path / "run", layout, config_of(5))
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        assert row["lag_mean"] == row["lag_max"] == 0 and row["kl"] < 1e-9 and row["rho"] == pytest.approx(1, abs=1e-5)
    assert len({row["value_loss"] for row in rows}) == 5  # it learns, from other steps each time
    assert processes_of(tmp_path) == []
