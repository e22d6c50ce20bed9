"""Real games of MinAtar: `pytest examples/gmi_drl_minatar` where this package is installed."""

import pytest
from gmi_drl_minatar import make_task

from gmi_drl.errors import UsageError
from gmi_drl.tasks import check_task, make

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_made_by_its_name(game):
    task = make(f"minatar:{game}", num_env=2)
    assert task.spec.name == f"minatar:{game}" and task.spec.observation.shape[1:] == (10, 10)
    assert task.spec.action.categories[0] >= 3


def test_breakout_keeps_the_contract():
    check_task(lambda seed: make_task("Breakout", num_env=2, device="cpu", seed=seed, threads=1), steps=200)


def test_a_game_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="did you mean 'MinAtar/Breakout-v1'"):
        make_task("Breakot", num_env=1, device="cpu", seed=0, threads=1)
