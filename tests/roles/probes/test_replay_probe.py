"""What is measured of learners from replay, for plans: iterations with updates, whatever the burn-in."""

from types import SimpleNamespace

import torch
from roles.replay.line_task import Line

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import DQNConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.probes.replay_probe import ReplayProbe

REPLAY = ReplaySettings(size=400, min_size=400, n_step=3)


class Probe(ReplayProbe):
    """Alone, without a launcher."""

    def __init__(self, **settings):
        learner = DQNConfig(hidden=(8,), stream=8, batch=16, replay=REPLAY, **settings)
        self.config, self.GMI_id, self.group = RunConfig(learner=learner), 0, None
        self.mgr = SimpleNamespace(tasks=[], device=torch.device("cpu"), reduction=lambda group, made=[]: once(made))

    def make_task(self, num_env, seed):
        return Line(num_env)


def once(made):
    """One reduction for all: it has one bucket."""
    made or made.append(NoReduction())
    return made[0]


def test_iterations_have_updates_from_the_first_measurement_on_and_one_learner_serves_all():
    probe = Probe(horizon=2)
    for num_env, share in ((4, 0.5), (8, 1.0)):
        probe.sample_share = share
        measured = probe._measure(num_env, 0.0)
        replica = probe.replica
        assert measured["num_env"] == num_env and measured["iterations"] == 1
        assert replica.learner.updater.done == 2 and replica.ring.num_env == num_env
        assert replica.learner.batch == 16 * share and replica.group_num_env == 8


def test_a_ring_of_any_number_of_environments_is_measured():
    probe = Probe(horizon=4)
    assert probe._measure(300, 0.0)["iteration_s"] > 0 and probe.replica.ring.steps == 8
