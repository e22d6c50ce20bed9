import pytest

from gmi_drl.config.task_section import ATARI_SETTINGS, TAKEN, TaskSettings, refused_settings


def test_every_setting_belongs_to_some_task():
    assert set().union(*TAKEN.values()) == set(TaskSettings.model_fields)


@pytest.mark.parametrize("name", ["atari:Pong", "envpool:Pong-v5"])
def test_games_take_their_settings(name):
    assert not refused_settings(name, TaskSettings(noops=0, lives_end=False))


@pytest.mark.parametrize(
    ("name", "taken", "words"),
    [
        ("ant", None, "ant has no task.noops, task.pad (it takes none of the section `task`): leave it out"),
        ("gymnasium:A-v0", None, "gymnasium:A-v0 has no task.noops, task.pad (it takes channels): leave it out"),
        ("envpool:A-v0", ATARI_SETTINGS | {"noops"}, "has no task.pad"),
    ],
)
def test_other_settings_are_refused(name, taken, words):
    assert words in refused_settings(name, TaskSettings(noops=0, pad=False), taken)


def test_only_what_is_given_is_told():
    assert TaskSettings(stack=2, pad=False).given() == {"stack": 2, "pad": False}
