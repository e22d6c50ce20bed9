import pytest
import torch

from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import UsageError
from gmi_drl.tasks import check_task, make

pytest.importorskip("ale_py", reason="ale-py is not installed: gmi-drl[atari]")
BREAKOUT = "atari:Breakout"


def makers():
    names = [BREAKOUT]
    try:
        import envpool  # noqa: F401
    except ImportError:
        return names
    return [*names, "envpool:Breakout-v5"]


def played(task, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        action = torch.randint(0, 4, (task.num_env, 1), generator=generator).float()
        yield task.step(action)


@pytest.mark.parametrize("name", makers())
def test_a_game_keeps_the_contract_and_has_the_usual_pictures(name):
    check_task(lambda seed: make(name, num_env=2, seed=seed), steps=120)
    task = make(name, num_env=1)
    spec = task.spec
    assert (spec.observation.shape, spec.action.categories, spec.frame_skip) == ((4, 84, 84), (4,), 4)
    assert (spec.episode_steps, spec.step_s) == (27_000, pytest.approx(4 / 60))
    task.close()


@pytest.mark.parametrize("name", makers())
def test_training_sees_lives_as_ends_and_returns_are_of_the_game(name):
    task = make(name, num_env=3)
    lives = games = 0
    for _, _, terminated, truncated, info in played(task, 300):
        ended = terminated | truncated
        assert not (info["own_end"] & ~ended).any()
        lives += int((ended & info["valid"]).sum())
        games += int((info["own_end"] & info["valid"]).sum())
    assert games > 0 and 4 * games < lives
    task.close()


@pytest.mark.parametrize("name", makers())
def test_rewards_are_clipped_for_training_alone(name):
    riverraid = name.replace("Breakout", "Riverraid")
    settings = [TaskSettings(), TaskSettings(clip_rewards=False, lives_end=False)]
    clipped, whole = (make(riverraid, num_env=2, seed=3, settings=one) for one in settings)
    largest = 0.0
    for (_, reward, *_, info), (_, plain, *_, same) in zip(played(clipped, 150), played(whole, 150), strict=True):
        assert torch.equal(info["own_reward"], plain) and torch.equal(same["own_reward"], plain)
        assert torch.equal(reward, plain.sign())
        largest = max(largest, float(plain.max()))
    assert largest > 1
    for task in (clipped, whole):
        task.close()


@pytest.mark.parametrize("name", makers())
def test_settings_change_the_game(name):
    settings = TaskSettings(frame_skip=2, stack=3, image_size=50, noops=1, sticky_actions=0.25)
    task = make(name, num_env=1, settings=settings)
    assert (task.spec.observation.shape, task.spec.frame_skip, task.spec.episode_steps) == ((3, 50, 50), 2, 54_000)
    assert task.step(torch.zeros(1, 1))[0].shape == (1, 3, 50, 50)
    task.close()


@pytest.mark.parametrize("name", makers())
def test_games_are_drawn_in_their_own_colours_while_they_are_played(name):
    task = make(name, num_env=2, films=True)
    before = task.draw().copy()
    assert before.shape == (2, 210, 160, 3) and (before.max(-1) != before.min(-1)).any()
    list(played(task, 20))
    assert (task.draw() != before).any()
    task.close()


@pytest.mark.parametrize(("name", "game"), [("MsPacman", "MsPacman"), ("ms_pacman", "ms_pacman")])
def test_games_have_both_spellings(name, game):
    assert make(f"atari:{name}", num_env=1).spec.name == f"atari:{game}"


def test_a_game_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="ale-py has no game 'Pongg'; did you mean 'Pong'"):
        make("atari:Pongg", num_env=1)


def test_arguments_of_envpool_that_are_settings_are_refused():
    pytest.importorskip("envpool", reason="envpool is not installed: it and its assets are 600 MB")
    with pytest.raises(UsageError, match=r"in place of --env-arg reward_clip: --set task\.clip_rewards"):
        make('envpool:Pong-v5{"reward_clip": true}', num_env=1)
    with pytest.raises(UsageError, match=r"task\.noops is at least 1"):
        make("envpool:Pong-v5", num_env=1, settings=TaskSettings(noops=0))
    with pytest.raises(UsageError, match=r"has no task\.noops \(it takes channels\)"):
        make("envpool:CartPole-v1", num_env=1, settings=TaskSettings(noops=3))
