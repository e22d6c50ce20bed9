"""A probe of a trainer from replay does all updates of an iteration each time."""

from types import SimpleNamespace

import pytest
import torch
from roles.replay.line_task import Line

from gmi_drl.config.learners import DQNConfig, SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.probes.replay_trainer_probe import ReplayTrainerProbe


@pytest.mark.parametrize("cls", [DQNConfig, SACConfig])
def test_an_update_is_measured_from_the_first_rollout_on(cls):
    replay, done = ReplaySettings(size=400, min_size=300, next_obs="twice"), []
    probe = object.__new__(ReplayTrainerProbe)
    probe.config = RunConfig(learner=cls(hidden=(8,), horizon=5, batch=8, updates_per_step=0.6, replay=replay))
    probe.mgr, probe.seed = SimpleNamespace(device=torch.device("cpu")), lambda purpose: 1
    update = probe.make_update(Line(1, chooses=cls is DQNConfig).spec, 4)
    (learner,) = [cell.cell_contents for cell in update.__closure__ if hasattr(cell.cell_contents, "published")]
    for _ in range(2):
        update()
        done.append(learner.learner.updater.updates)
    assert done == [3, 6] and learner.ring.written == 10
