import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.tasks import make

pytest.importorskip("envpool", reason="envpool is not installed: it and its assets are 600 MB")


def test_a_task_of_envpool_resets_in_the_next_step():
    task = make("envpool:Pendulum-v1", num_env=4, seed=2**32 - 1, threads=2)
    assert (task.spec.name, task.spec.observation.size, task.spec.episode_steps) == ("envpool:Pendulum-v1", 3, 200)
    valid, truncated = [], []
    for _ in range(202):
        obs, reward, terminated, ended, info = task.step(torch.zeros(4, 1))
        valid.append(info["valid"].tolist())
        truncated.append(ended.tolist())
        assert obs.dtype == reward.dtype == torch.float32 and not terminated.any() and not info["bad"].any()
    assert valid == [[True] * 4] * 200 + [[False] * 4, [True] * 4]
    assert truncated == [[False] * 4] * 199 + [[True] * 4] * 2 + [[False] * 4]


def test_robots_and_their_seeds():
    first, second, third = (make("envpool:HalfCheetah-v5", num_env=2, seed=seed) for seed in (1, 1, 2))
    assert (first.spec.observation.size, first.spec.action.size, first.spec.episode_steps) == (17, 6, 1000)
    assert torch.equal(first.obs, second.obs) and not torch.equal(first.obs, third.obs)
    first.reset()
    assert not torch.equal(first.obs, second.obs)


@pytest.mark.parametrize(("name", "message"), [("Pendul", "did you mean 'Pendulum-v1'")])
def test_what_cannot_be_trained_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        make(f"envpool:{name}", num_env=1)
