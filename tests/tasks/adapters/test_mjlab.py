import sys

import pytest
from fakes import fake_mjlab

from gmi_drl.errors import UsageError
from gmi_drl.tasks import make


@pytest.fixture(autouse=True)
def mjlab(monkeypatch):
    for name, module in fake_mjlab().items():
        monkeypatch.setitem(sys.modules, name, module)


def test_a_task_is_made_of_its_configuration():
    task = make("mjlab:Mjlab-Fake", num_env=3, seed=7)
    assert (task.spec.name, task.spec.num_obs, task.num_env) == ("mjlab:Mjlab-Fake", 3, 3)
    assert (task.env.cfg.seed, task.env.device) == (7, "cpu")


def test_an_unknown_task_is_told_what_is_near():
    with pytest.raises(UsageError, match="mjlab has no 'Mjlab-Fak'; did you mean 'Mjlab-Fake'"):
        make("mjlab:Mjlab-Fak")
