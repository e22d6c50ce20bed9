from types import SimpleNamespace

import pytest
import torch

from gmi_drl import tasks
from gmi_drl.config import RunConfig, default_config
from gmi_drl.errors import UsageError
from gmi_drl.learners import RslRlConfig
from gmi_drl.roles import worlds
from gmi_drl.workload import TASK_SPECS

MGR = SimpleNamespace(layout=SimpleNamespace(task="ant"), device=torch.device("cpu"), gmi=SimpleNamespace(cores=(0,)))


@pytest.fixture
def made(monkeypatch):
    """The tasks that were made, with a camera, and whether each was closed."""
    made = []

    def make(*args, **more):
        task = tasks.make(*args, **more)
        task.groups, task.is_closed = {"camera": torch.zeros(2, 3)}, False
        task.close = lambda: setattr(task, "is_closed", True)
        made.append(task)
        return task

    monkeypatch.setattr(worlds, "make", make)
    return made


def seeing(*groups):
    runner = default_config(TASK_SPECS["ant"], "rsl_rl").learner.runner
    return RunConfig(learner=RslRlConfig(runner=runner | {"obs_groups": {"actor": list(groups)}}))


def test_worlds_offer_their_observations_and_all_groups_of_the_simulator(made):
    for config in (RunConfig(), seeing("policy"), seeing("policy", "camera")):
        task = worlds.make_worlds(MGR, config, 2, seed=0)
        assert task is made[-1] and task.num_env == 2 and not task.is_closed


def test_worlds_that_lack_what_the_learner_needs_are_closed_and_refused(made):
    with pytest.raises(UsageError, match="no group lidar, only camera, policy"):
        worlds.make_worlds(MGR, seeing("policy", "lidar"), 2, seed=0)
    assert [task.is_closed for task in made] == [True]
