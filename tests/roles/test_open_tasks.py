import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gmi_drl import tasks
from gmi_drl.config.learners import RslRlConfig
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.errors import UsageError
from gmi_drl.roles import open_tasks
from gmi_drl.workload import TASK_SPECS

LAYOUT, GMI = SimpleNamespace(task="ant"), SimpleNamespace(cores=(0,))


def manager():
    return SimpleNamespace(layout=LAYOUT, device=torch.device("cpu"), gmi=GMI, tasks=[])


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

    monkeypatch.setattr(open_tasks, "make", make)
    return made


def seeing(*groups):
    runner = default_config(TASK_SPECS["ant"], "rsl_rl").learner.runner
    return RunConfig(learner=RslRlConfig(runner=runner | {"obs_groups": {"actor": list(groups)}}))


def test_a_task_has_its_observations_and_all_groups_of_the_simulator(made):
    mgr = manager()
    for config in (RunConfig(), seeing("policy"), seeing("policy", "camera")):
        task = open_tasks.open_task(mgr, config, 2, seed=0)
        assert task is made[-1] and task.num_env == 2 and not task.is_closed
    assert mgr.tasks == made, "the process closes them"


def test_a_task_without_the_learners_observations_is_refused_and_closed(made):
    mgr = manager()
    with pytest.raises(UsageError, match="no group lidar, only camera, policy"):
        open_tasks.open_task(mgr, seeing("policy", "lidar"), 2, seed=0)
    assert open_tasks.close_tasks(mgr.tasks) == "" and [task.is_closed for task in made] == [True]


def test_all_tasks_are_closed_once_even_if_one_fails():
    closed = []

    def broken():
        closed.append("broken")
        raise OSError("the recorder is gone")

    made = [
        SimpleNamespace(spec=SimpleNamespace(name="zoo:Lion"), close=close)
        for close in (lambda: closed.append("well"), broken)
    ]
    assert open_tasks.close_tasks(made) == "zoo:Lion failed to close: OSError: the recorder is gone"
    assert sorted(closed) == ["broken", "well"] and made == []


def test_only_open_tasks_makes_tasks():
    roles = Path(open_tasks.__file__).parent
    makers = [
        path.name for path in roles.rglob("*.py") if re.search(r"\bmake\(|import make\b|tasks\.make", path.read_text())
    ]
    assert makers == ["open_tasks.py"]
