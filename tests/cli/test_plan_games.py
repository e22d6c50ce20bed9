import pytest

from gmi_drl.cli.layouts import make_layout
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import UsageError
from gmi_drl.files import load_yaml
from gmi_drl.layout.layout import Layout
from gmi_drl.templates import TCG_EX


def test_a_task_of_categories_is_measured_too(command_line, tmp_path):
    which = ("--task", "gymnasium:CartPole-v1", "--num-env", 8, "--gmis-per-gpu", 1)
    code, out, err = command_line("plan", *which, "--budget", 10)
    assert code == 0, err
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert layout.projection.measured and layout.projection.steps_per_second > 0, err
    assert "Measuring gymnasium:CartPole-v1 by ppo" in err and "8 256" in " ".join(out.split())


def test_games_of_images_and_of_several_agents_are_planned_in_whole_worlds(command_line, tmp_path):
    pytest.importorskip("ale_py", reason="ale-py is not installed: gmi-drl[atari]")
    pytest.importorskip("mpe2", reason="mpe2 is not installed")
    for task, each in (("atari:Pong", 8), ("pettingzoo:mpe2.simple_spread_v3", 258)):
        code, _, err = command_line("plan", "--task", task, "--budget", 0, "--gmis-per-gpu", 1)
        assert code == 0 and [gmi.num_env for gmi in load_yaml(Layout, tmp_path / "layout.yaml").gmis] == [each], err


@pytest.mark.parametrize("command", ["plan", "plan --budget 0", "profile", "profile --template workers"])
def test_a_number_of_environments_that_is_not_of_whole_worlds_is_refused(command_line, tmp_path, command):
    pytest.importorskip("mpe2", reason="mpe2 is not installed")
    which = ("--task", "pettingzoo:mpe2.simple_spread_v3", "--num-env", 5)
    code, _, err = command_line(*command.split(), *which)
    assert code == 2 and "3 agents in each world, and each is an environment: give --num-env 3 or 6" in err
    assert "Measuring" not in err and not any(tmp_path.iterdir())


def test_this_machine_is_cut_for_a_task_as_it_will_be_played():
    pytest.importorskip("mpe2", reason="mpe2 is not installed")
    task, played = "pettingzoo:mpe2.simple_tag_v3", TaskSettings(pad=True)
    assert make_layout(task, 4, 1, TCG_EX, played=played).num_env == 4
    with pytest.raises(UsageError, match="its agents differ"):
        make_layout(task, 4, 1, TCG_EX)


def test_a_plan_measures_a_task_as_it_will_be_played(command_line, tmp_path):
    pytest.importorskip("mpe2", reason="mpe2 is not installed")
    which = ("--task", "pettingzoo:mpe2.simple_tag_v3", "--budget", 0, "--gmis-per-gpu", 1)
    code, out, err = command_line("plan", *which, "--set", "task.pad=true", "--set", "task.state=false")
    assert code == 0, err
    assert "--set task.state=false --set task.pad=true" in " ".join(out.split())
    code, _, err = command_line("plan", *which)
    assert code == 2 and "--set task.pad=true" in err
