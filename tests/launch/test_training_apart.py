"""Trainings whose roles have GMIs of their own (TDG_EX): they learn what TCG_EX learns, and end as all trainings do."""

import os
import re
import signal
from pathlib import Path

import pytest
from conftest import children_of, tiny_config, tiny_layout, two_cores

from gmi_drl.config.learners import RslRlConfig
from gmi_drl.errors import GmiDiedError, GmiError, UsageError
from gmi_drl.hardware.node import Cpu, CpuDevices, Node
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.templates import TDG_EX
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
TOLD = ("env_steps", "reward_mean", "episodes", "return_sum", "length_sum", "kl", "value_loss", "learning_rate")


def apart(gmis=3, num_env=8):
    """Its GMIs take turns on two cores."""
    return TDG_EX.lay_out(ANT, Node(name="n", cpu=Cpu(cores=2, memory_gib=8)), Cut(gmis, num_env, share_cores=True))


def on_two_devices():
    node = Node(name="n", cpus=CpuDevices(cores_each=1, count=2), cpu=Cpu(cores=2, memory_gib=8))
    return TDG_EX.lay_out(ANT, node, Cut(3, 8, share_cores=True))


def start(path, layout, config, **more):
    folder = RunFolder(path)
    folder.create()
    return folder, train(resolve(layout, config, folder), **more)


def what_was_learnt(folder, outcome):
    rows = [{name: row.get(name) for name in (*TOLD, "reward_terms")} for row in read_metrics(folder.metrics_file)]
    return read_index(outcome.checkpoint)["learner"], rows


@two_cores
@pytest.mark.parametrize("more", [pytest.param({}, marks=pytest.mark.starts_gmis), {"reward_terms": True}])
def test_one_simulator_one_agent_and_one_trainer_learn_bit_for_bit_what_one_holistic_gmi_does(tmp_path, more):
    config = tiny_config(**more)
    (folder, outcome), whole = (
        start(tmp_path / name, layout, config) for name, layout in (("apart", apart()), ("whole", tiny_layout(1)))
    )
    assert outcome.iteration == 4 and what_was_learnt(folder, outcome) == what_was_learnt(*whole)
    first, last = (read_index(saved)["learner"] for saved in list_checkpoints(folder.checkpoints))
    assert first != last, "nothing was learnt, so agreement says nothing"
    for row in read_metrics(folder.metrics_file):
        assert list(row["gmis"]) == ["2"] and all(row[name] > 0 for name in PHASE_NAMES)
        assert row["steps_per_second"] > 0


@two_cores
def test_trainers_of_two_devices_learn_bit_for_bit_what_two_holistic_gmis_do(tmp_path):
    layout = on_two_devices()
    parts = tuple(Device(kind="cpu", index=i, gmis=(GMI(id=i, num_env=8, cores=(i,)),)) for i in range(2))
    groups = {"trainers": GmiGroup(members=(0, 1), reduction="MPR-shm")}
    whole = Layout(task="ant", template="TCG_EX", share_cores=True, devices=parts, groups=groups)
    learnt = [start(tmp_path / one.template, one, tiny_config(iterations=2)) for one in (layout, whole)]
    assert what_was_learnt(*learnt[0]) == what_was_learnt(*learnt[1])
    assert set(read_metrics(learnt[0][0].metrics_file)[0]["gmis"]) == {"2", "5"}


@two_cores
def test_a_resumed_run_is_bit_identical_to_an_undisturbed_one(tmp_path):
    config = tiny_config(checkpoint_every=2)
    whole, outcome = start(tmp_path / "whole", apart(), config)
    parted, half = start(tmp_path / "parted", apart(), config.model_copy(update={"iterations": 2}))
    again = train(resolve(apart(), config, parted), resume=half.checkpoint)
    expected, resumed = (read_index(one.checkpoint)["parts"] for one in (outcome, again))
    assert expected == resumed and set(expected) == {"learner.safetensors", "gmi-2.safetensors"}
    assert [row["env_steps"] for row in read_metrics(parted.metrics_file)] == [32, 64, 96, 128]
    assert what_was_learnt(whole, outcome) == what_was_learnt(parted, again)


@two_cores
@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_gmi_ends_the_run_and_is_named(tmp_path, victim):
    killed = []

    def kill(row):
        for child in children_of(os.getpid()):
            if not killed and re.match(rf"GMI {victim} of ", child.cmdline()[-1]):
                killed.append(child.pid)
                child.send_signal(signal.SIGKILL)

    with pytest.raises(GmiDiedError, match=rf"GMI {victim} \(process \d+\) was killed by SIGKILL") as error:
        start(tmp_path / "run", apart(), tiny_config(iterations=10**6), on_row=kill)
    assert str(killed[0]) in str(error.value) and not children_of(os.getpid())
    assert RunFolder(tmp_path / "run").read_state()["state"] == "failed"


@two_cores
@pytest.mark.parametrize(
    ("layout", "victim", "by"),
    [(apart(), 0, 1), (on_two_devices(), 3, 4), (on_two_devices(), 4, 5)],
    ids=["simulator", "simulator beside another device", "agent beside another device"],
)
def test_a_gmi_that_hangs_is_named_by_who_waits_for_it_first_hand_though_all_wait(tmp_path, layout, victim, by):
    stopped = []

    def stop(row):
        for child in children_of(os.getpid()):
            if not stopped and re.match(rf"GMI {victim} of ", child.cmdline()[-1]):
                stopped.append(child)
                child.suspend()

    config = tiny_config(iterations=10**6, hang_s=5)
    said = rf"GMI {by}: GMI {victim} \(process \d+\) lives but has not sent a message for \d+ s \((2 x )?hang_s\)"
    with pytest.raises(GmiError, match=said):
        start(tmp_path / "run", layout, config, on_row=stop)
    assert not stopped[0].is_running()


@two_cores
def test_two_simulators_share_an_agent_and_a_signal_ends_it_with_a_checkpoint(tmp_path):
    interrupted = []

    def interrupt(row):  # on a busy machine rows are left out
        if row["iteration"] >= 2 and not interrupted:
            interrupted.append(row)
            os.kill(os.getpid(), signal.SIGINT)

    folder, outcome = start(tmp_path / "run", apart(4), tiny_config(iterations=10**6), on_row=interrupt)
    assert all(row["env_steps"] == 64 * row["iteration"] for row in read_metrics(folder.metrics_file))
    assert (outcome.state, outcome.signal) == ("stopped", signal.SIGINT) and outcome.iteration >= 2
    assert int(outcome.checkpoint.name) == outcome.iteration and not children_of(os.getpid())
    assert folder.read_state()["state"] == "stopped"


def test_another_learner_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("gmi_drl.config.learners.entries.version", lambda package: "5.4")
    with pytest.raises(UsageError, match="TDG_EX trains by our PPO alone, not by rsl_rl"):
        resolve(apart(), tiny_config(learner=RslRlConfig.for_task(ANT)), RunFolder(Path("run")))
