"""Serving with real processes: what GMIs play is what `play` plays, and a signal ends them in order."""

import os
import signal
import tempfile

import pytest
import torch
from conftest import children_of, tiny_config, tiny_layout, two_cores

from gmi_drl.config.run_config import WarpRoom
from gmi_drl.errors import GmiError, LayoutMismatchError, UsageError
from gmi_drl.gmi import claimed
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.launch import serving
from gmi_drl.launch.serving import serve
from gmi_drl.layout.cut import Cut
from gmi_drl.roles.launcher.protocol import Ready, Report, Start
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.player import Player, load_agent
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import make
from gmi_drl.templates import TCG
from gmi_drl.workload import TASK_SPECS

SPEC = TASK_SPECS["ball_balance"]
STEPS = 150
FAILING = """
import gmi_drl as GMI_DRL

class Failing(GMI_DRL.DRL_role):
    def GMI_run(self, **params):
        raise ValueError("a bug in my role")
"""


def layout(gmis, task=SPEC):
    """A core, and so a thread, for each GMI: with more, sums are rounded differently."""
    return TCG.lay_out(task, Node(name="n", cpu=Cpu(cores=gmis, memory_gib=8)), Cut(gmis, 6))


def played(served_run, seed, stochastic):
    noise = torch.Generator().manual_seed(seed) if stochastic else None
    player = Player(make("ball_balance", num_env=6, seed=seed), load_agent(served_run, SPEC, tiny_config()), noise)
    for _ in range(STEPS):
        player.step()
    return player.finished


@two_cores
@pytest.mark.parametrize("stochastic", [False, pytest.param(True, marks=pytest.mark.starts_gmis)])
@pytest.mark.parametrize("gmis", [1, 2])
def test_gmi_i_plays_what_play_does_with_its_seed(served_run, monkeypatch, gmis, stochastic):
    said = heard_and_said(monkeypatch)
    served = serve(layout(gmis), served_run, steps=STEPS, seed=3, stochastic=stochastic)
    assert list(served.gmis) == list(range(gmis)) and (served.iteration, served.signal) == (2, None)
    for gmi_id, gmi in served.gmis.items():
        episodes = played(served_run, serving_seed(3, gmi_id), stochastic)
        assert (gmi.steps, gmi.env_steps, gmi.bad) == (STEPS, STEPS * 6, 0) and gmi.episodes == len(episodes) > 0
        assert gmi.return_sum == pytest.approx(sum(one.total for one in episodes))
        assert gmi.length_sum == sum(one.length for one in episodes)
        assert 0 < gmi.sim_s + gmi.act_s <= gmi.ended_s - gmi.started_s and gmi.steps_per_second > 0
    assert said[: 2 * gmis] == [Ready] * gmis + [Start] * gmis, "they serve side by side"
    assert 0 < served.steps_per_second <= 1.01 * sum(gmi.steps_per_second for gmi in served.gmis.values())
    assert not children_of(os.getpid())


def heard_and_said(monkeypatch):
    """The kinds of what GMIs tell their launcher and of what it tells them, as it comes."""
    kinds, events, say = [], serving.GMIProcesses.events, serving.GMIProcesses.send

    def hear(processes, **more):
        for event in events(processes, **more):
            if isinstance(event, serving.GMIMessage):
                kinds.append(type(event.message))
            yield event

    monkeypatch.setattr(serving.GMIProcesses, "events", hear)
    monkeypatch.setattr(
        serving.GMIProcesses, "send", lambda processes, gmi, word: kinds.append(type(word)) or say(processes, gmi, word)
    )
    return kinds


def test_a_signal_ends_it_with_what_was_done(served_run, monkeypatch):
    events, signalled = serving.GMIProcesses.events, []

    def interrupt_when_steps_are_told(processes, **more):
        for event in events(processes, **more):
            if isinstance(event, serving.GMIMessage) and isinstance(event.message, Report) and not signalled:
                signalled.append(os.kill(os.getpid(), signal.SIGINT))
            yield event

    monkeypatch.setattr(serving.GMIProcesses, "events", interrupt_when_steps_are_told)
    served = serve(layout(1), served_run, steps=10**8)
    assert served.signal is signal.SIGINT and 0 < served.gmis[0].steps < 10**8
    assert not children_of(os.getpid())


@two_cores
def test_a_signal_before_all_are_ready_serves_nothing(served_run, monkeypatch):
    monkeypatch.setattr(serving, "opened", interrupted(serving.opened))
    served = serve(layout(2), served_run, steps=STEPS)
    assert served.signal is signal.SIGTERM and [gmi.steps for gmi in served.gmis.values()] == [0, 0]
    assert served.steps_per_second == 0 and served.gmis[0].episodes == 0


def interrupted(opened):
    def open_and_interrupt(*args, **more):
        os.kill(os.getpid(), signal.SIGTERM)
        return opened(*args, **more)

    return open_and_interrupt


def test_the_log_of_a_gmi_that_fails_is_told_as_it_does_not_stay(served_run, monkeypatch, tmp_path):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "role.py").write_text(FAILING)
    monkeypatch.setattr(TCG, "roles", lambda layout, learner: {0: f"{tmp_path}/role.py:Failing"}, raising=False)
    with pytest.raises(GmiError, match=r"a bug in my role\n  its log ends with\n  \| ") as failed:
        serve(layout(1), served_run, steps=1)
    assert 'role.py", line' in str(failed.value) and str(failed.value).count("ValueError: a bug") == 1
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("in_use", [False, True])
def test_nothing_stays_where_nothing_is_to_be_read(served_run, monkeypatch, tmp_path, in_use):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if in_use:
        with claimed([layout(1)], "another run"), pytest.raises(LayoutMismatchError, match="another run"):
            serve(layout(1), served_run, steps=1)
    else:
        serve(layout(1), served_run, steps=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (tiny_layout(1), "for training, not for serving: make another with `gmi-drl plan --template serving`"),
        (layout(1, TASK_SPECS["ant"]), "has learnt ball_balance, this layout is for ant"),
    ],
)
def test_layouts_that_cannot_serve_the_run_are_refused(served_run, wrong, message):
    with pytest.raises(UsageError, match=message):
        serve(wrong, served_run, steps=1)


def test_a_run_without_policy_is_refused(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.write_setup(tiny_layout(task="ball_balance"), tiny_config())
    with pytest.raises(UsageError, match="no complete checkpoint"):
        serve(layout(1), folder, steps=1)


def test_what_was_trained_with_and_is_nothing_for_cores_is_refused(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.write_setup(tiny_layout(task="ball_balance"), tiny_config(warp=WarpRoom(nconmax=100)))
    with pytest.raises(
        UsageError, match=r"config\.yaml: warp\.nconmax and .* the physics here is native: leave them out"
    ):
        serve(layout(1), folder, steps=1)
