"""What GMIs read of a run's configuration: all that is set, by each launcher, at the start and after a death."""

import shutil

import pytest
from input_files import _write_run
from learners_here import recorded
from other_settings import OF_LEARNER, RUN
from settings_read import STARTS, arrived, read_by_gmis

from gmi_drl.config.run_config import apply_settings
from gmi_drl.config.settings import leaves
from gmi_drl.launch.launchers import LOCAL
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.run.folder import RunFolder
from gmi_drl.workload import TASK_SPECS


def run_of(kind, path):
    """A run with a checkpoint."""
    if kind == "rsl_rl":
        pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    _write_run(path / kind, kind)
    return RunFolder(path / kind)


OF_OTHER_TASKS = {
    "policies",
    "learner.conv",
    "learner.features",
    "learner.replay.stacks",
    *(place for place in RUN if place.startswith("task.")),
}
"""Refused for tasks without images or names of agents, for those of ours, such as this one."""


OTHERS = {"dqn", "sequence"}
"""Learners of tasks with categories, which none of ours is, and of recorded episodes."""


@pytest.mark.parametrize("kind", sorted(OF_LEARNER.keys() - OTHERS))
def test_all_gmis_have_each_setting_as_it_was_set(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("gmi_drl.roles.manager.require_bf16", lambda device: None)  # which the cores may lack
    run = run_of(kind, tmp_path)
    refused = {place for place, leaf in leaves(run.read_setup()[1]) if leaf.setting and leaf.setting.idle}
    values = {**RUN, **OF_LEARNER[kind]}
    if folders := [place for place in values if place.endswith(".data")]:
        shutil.copytree(recorded(TASK_SPECS["ball_balance"]), tmp_path / "other.replay")
        values |= dict.fromkeys(folders, str(tmp_path / "other.replay"))
    told = arrived(run, values, tmp_path / "scratch")
    assert told.keys() == values.keys() - refused - OF_OTHER_TASKS
    for place, counts in told.items():
        assert len(counts) == len(STARTS)
        for start, count in zip(STARTS, counts, strict=True):
            have, _, of = count.partition(" of ")
            assert have == of and int(of) > 0, f"{place}, {start}: {count}"


def test_a_setting_that_is_lost_on_the_way_is_told(tmp_path, monkeypatch):
    run = run_of("ppo", tmp_path)
    pieces = FolderReceiver.pieces

    def without_gamma(receiver):
        for file, data in pieces(receiver):
            yield file, data.replace(b"gamma: 0.5\n", b"gamma: 0.7\n")

    monkeypatch.setattr(FolderReceiver, "pieces", without_gamma)
    values = {"learner.gamma": "0.5", "learner.lam": "0.2"}
    told = arrived(run, values, tmp_path / "scratch")
    assert told["learner.gamma"] == ["1 of 1"] * 2 + ["2 of 2"] * 2 + ["0 of 2"] * 2
    assert told["learner.lam"] == ["1 of 1"] * 2 + ["2 of 2"] * 4


def test_the_deadline_of_gmis_is_that_of_their_configuration(tmp_path):
    run = run_of("a3c", tmp_path)
    config = apply_settings(run.read_setup()[1], ["hang_s=77.0", "iterations=9"])
    first, again = read_by_gmis(LOCAL, config, run)
    assert [(one.gmi_id, one.config, one.hang_s) for one in first + again] == [(0, config, 77.0), (1, config, 77.0)] * 2
