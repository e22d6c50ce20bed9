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
    assert (task.spec.name, task.spec.observation.size, task.num_env) == ("mjlab:Mjlab-Fake", 3, 3)
    assert (task.env.cfg.seed, task.env.device) == (7, "cpu")


def test_the_error_of_an_unknown_task_suggests_the_nearest_name():
    with pytest.raises(UsageError, match="mjlab has no 'Mjlab-Fak'; did you mean 'Mjlab-Fake'"):
        make("mjlab:Mjlab-Fak")


def test_a_task_that_follows_a_motion_is_named_with_its_file(tmp_path):
    motion = tmp_path / "walk.npz"
    motion.touch()
    task = make(f"mjlab:Mjlab-Follower:{motion}", num_env=2)
    assert task.spec.name == f"mjlab:Mjlab-Follower:{motion}"
    assert task.env.cfg.commands["motion"].motion_file == str(motion)


@pytest.mark.parametrize(
    ("name", "lack"), [("Mjlab-Follower", "mjlab ships none"), ("Mjlab-Follower:gone.npz", "gone.npz is no file")]
)
def test_a_missing_motion_is_reported_with_the_remedy(name, lack):
    with pytest.raises(UsageError, match=f"mjlab:Mjlab-Follower needs .* {lack}: .* mjlab:Mjlab-Follower:/path/to/"):
        make(f"mjlab:{name}")


def test_a_motion_for_a_task_that_follows_none_is_refused():
    with pytest.raises(UsageError, match=r"mjlab:Mjlab-Fake follows no motion: leave 'walk\.npz' out"):
        make("mjlab:Mjlab-Fake:walk.npz")
