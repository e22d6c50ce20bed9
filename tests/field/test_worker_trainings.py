"""Trainings by workers in scripts: their layouts, one short run, and its updates."""

from dataclasses import replace

import every_stream
import pytest
import srl_figure_4
import worker_trainings
from trainings import OURS

from gmi_drl.templates import WORKERS


@pytest.mark.parametrize("side", sorted(every_stream.SIDES))
def test_layouts_of_all_streams_are_valid(side):
    nodes = every_stream.SIDES[side]
    layout = worker_trainings.layout_of(every_stream.NAMES["CartPole-v1"], 8, nodes, every_stream.MAX_LAG)
    assert WORKERS.check(layout) == [] and len(layout.nodes) == len(nodes)
    assert (layout.streams is not None) == side.startswith("remote")


@pytest.mark.parametrize("task", sorted(every_stream.TASKS))
def test_updates_of_all_streams_have_the_samples_of_the_settings(task):
    settings = every_stream.TASKS[task]
    learner = every_stream.config_of(settings, 1).learner
    for side, nodes in every_stream.SIDES.items():
        if (task, side) not in every_stream.TRAININGS.without:
            name = every_stream.NAMES[settings.env_id]
            layout = worker_trainings.layout_of(name, settings.num_env, nodes, every_stream.MAX_LAG)
            assert learner.steps_of(layout) == settings.samples
    assert learner.memory == ("gru" if task == "HiddenCartPole" else "none")


@pytest.mark.parametrize("task", sorted(srl_figure_4.TASKS))
@pytest.mark.parametrize("side", sorted(srl_figure_4.SIDES))
def test_layouts_and_samples_of_figure_4_are_valid(task, side):
    way, lag = srl_figure_4.SIDES[side]
    settings, has_two = srl_figure_4.TASKS[task], task == "simple_tag"
    name, each = f"pettingzoo:{settings.env_id}", settings.num_env // srl_figure_4.ACTORS
    layout = worker_trainings.layout_of(name, each, [srl_figure_4.workers_of(way, has_two)], lag)
    assert WORKERS.check(layout) == [] and layout.channels.max_lag == lag
    config = srl_figure_4.config_of(settings, 1, has_two)
    assert config.learner.steps_of(layout) == settings.samples
    assert list(config.policies or ()) == (["chasers", "runners"] if has_two else [])


def test_what_no_side_can_train_is_left_out(monkeypatch):
    wanted = []
    monkeypatch.setattr("trainings.run_all", lambda script, runs, *others: wanted.extend(runs))
    monkeypatch.setattr(type(srl_figure_4.TRAININGS), "runs", lambda self: [])
    srl_figure_4.TRAININGS.learn(list(srl_figure_4.TASKS), [OURS], 1, None)
    assert wanted == [("simple_spread", OURS, "1")]


@pytest.mark.starts_gmis
def test_updates_of_workers_have_returns_and_cpu_seconds_of_all_processes():
    settings = replace(every_stream.TASKS["CartPole"], steps=3 * 256, epochs=1)
    first, *_, last = every_stream.train(settings, "remote, near", 1)
    assert (first.env_steps, last.env_steps) == (256, 768) and first.cpu_s == 0 < last.cpu_s
    assert first.episodes > 0 and first.return_sum > 0
