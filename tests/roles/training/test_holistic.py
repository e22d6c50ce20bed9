"""What two GMIs of a training have in common, and what each has for itself."""

import shutil
import threading
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from types import SimpleNamespace

import pytest
import roles_under_test
import torch
from conftest import tiny_config, tiny_layout, two_cores

from gmi_drl.algo.normaliser import moments
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import LEARNERS, OUR_PPO, PPOConfig, RslRlConfig
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.gmi import allowed_cores
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.roles.launcher.connection import LauncherConnection, decode, encode, socket_pair
from gmi_drl.roles.launcher.protocol import Hold, Holds, Reduce, Save, Stop, parse_message_to_launcher
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.run.checkpoint import list_checkpoints, read_part
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.workload import TASK_SPECS


def cpu_layout(devices, reduction):
    """CPU devices by the environments of each of their GMIs, e.g. `[[3], [4, 9]]`: a core each, or a turn on one."""
    ids, cores = count(), cycle(range(len(allowed_cores())))
    parts = [[GMI(id=next(ids), num_env=each, cores=(next(cores),)) for each in device] for device in devices]
    group = GmiGroup(members=tuple(range(sum(map(len, devices)))), reduction=reduction)
    return Layout(
        task="ant",
        template="TCG_EX",
        share_cores=True,
        devices=tuple(Device(kind="cpu", index=index, gmis=tuple(gmis)) for index, gmis in enumerate(parts)),
        groups={"trainers": group},
    )


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    return folder


@pytest.fixture
def train_by(folder, monkeypatch):
    """Train by a role of `roles_under_test.py`."""

    def start(role, layout, config):
        entry = replace(OUR_PPO, role=f"{roles_under_test.__file__}:{role}")
        monkeypatch.setattr(LEARNERS, "find", lambda kind: entry)
        return train(resolve(layout, config, folder))

    return start


@pytest.mark.parametrize(
    ("devices", "reduction"),
    [([[3, 13]], "MPR-shm"), ([[3], [4, 9]], "MPR-shm"), ([[3], [4, 9]], "HAR"), ([[3], [4, 9]], "SHARD")],
)
@two_cores
def test_gmis_of_unlike_size_on_unlike_devices_learn_what_one_of_sixteen_does(folder, train_by, devices, reduction):
    """From the same experience: gradients, advantages and observations count by the world, wherever it is.

    Every checkpoint compares the learners of all GMIs, bit by bit.
    """
    layout = cpu_layout(devices, reduction)
    config = tiny_config(iterations=3, learner=PPOConfig(horizon=4, epochs=2, minibatches=1))
    learner = read_part(train_by("Recorder", layout, config).checkpoint, "learner")

    whole = PPOReplica(TASK_SPECS["ant"], config, NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    worlds = roles_under_test.Replay(TASK_SPECS["ant"], folder.path)
    worlds.attach(whole)
    before = whole.learner.updater.flat.vector.clone()
    for _ in range(config.iterations):
        whole.iterate(lambda: Decision.GO_ON)
    for name, expected in whole.learner_state().items():
        torch.testing.assert_close(learner[name], expected, atol=1e-5, rtol=1e-5)
    assert (learner["parameters"] - before).abs().max() > 1e-3, "nothing was learnt, so agreement says nothing"

    torch.testing.assert_close(learner["normaliser"], moments(worlds.tape["obs"][:-1].flatten(0, 1)))
    advantage = whole.slot.rollout.advantage
    assert advantage.mean().item() == pytest.approx(0, abs=1e-6) and advantage.std().item() == pytest.approx(1)


def test_a_single_gmi_saves_the_learner_and_its_task(folder, train_by):
    outcome = train_by("Recorder", tiny_layout(1), tiny_config(iterations=1))
    assert sorted(part.name for part in outcome.checkpoint.glob("*.safetensors")) == [
        "gmi-0.safetensors",
        "learner.safetensors",
    ]


def test_a_linear_schedule_lowers_the_rate_also_in_a_run_that_goes_on(folder):
    learner = PPOConfig(horizon=4, epochs=1, minibatches=1, schedule="linear", learning_rate=0.004)
    layout, config = tiny_layout(1), tiny_config(iterations=4, checkpoint_every=2, learner=learner)
    train(resolve(layout, config, folder))
    rates = [row["learning_rate"] for row in read_metrics(folder.metrics_file)]
    assert rates == pytest.approx([0.004, 0.003, 0.002, 0.001])
    *_, half, last = list_checkpoints(folder.checkpoints)
    shutil.rmtree(last)
    train(resolve(layout, config, folder), resume=half)
    assert [row["learning_rate"] for row in read_metrics(folder.metrics_file)] == pytest.approx(rates)


@two_cores
def test_gmis_have_seeds_of_their_own_and_learners_that_differ_are_noticed(folder, train_by):
    with pytest.raises(GmiError, match="iteration 2: the learners of the GMIs differ"):
        train_by("Parted", tiny_layout(2), tiny_config(checkpoint_every=2))
    (first,) = list_checkpoints(folder.checkpoints)  # from before the first iteration
    one, other = (read_part(first, f"gmi-{gmi_id}") for gmi_id in (0, 1))
    for name in ("task.obs", "task.episode_length", "task.generator", "generator", "learner_generator"):
        assert not torch.equal(one[name], other[name]), name


@pytest.fixture
def line():
    ours, theirs = socket_pair()
    yield ours, theirs
    ours.close()


@pytest.fixture
def launcher(line):
    """The launcher's end of the line to the role of `make_role`."""
    return line[0]


@pytest.fixture
def make_role(monkeypatch, line):
    """A role of GMI 0, which has 3 worlds beside the 13 of GMI 1."""
    _, theirs = line
    gmis = tuple(GMI(id=i, num_env=num_env, cores=(i,)) for i, num_env in enumerate((3, 13)))
    devices, groups = (Device(kind="cpu", gmis=gmis),), {"trainers": GmiGroup(members=(0, 1), reduction="MPR-shm")}
    layout = Layout(task="ant", template="TCG_EX", devices=devices, groups=groups)
    line = LauncherConnection(theirs.detach())
    manager = GMI_manager(layout, layout.gmis[0], Path("unused"), Path("unused"), line, Resources(), hang_s=60)
    monkeypatch.setattr(GMI_manager, "_current", manager)

    def make(role, config):
        made = role(0, "holistic", 0)
        made.config = config
        return made

    yield make
    manager.close()


@pytest.mark.parametrize(("minibatches", "share"), [(2, 3 / 16), (5, 2 / 12)])
def test_a_gmi_weighs_as_much_as_the_samples_that_it_learns_from(make_role, minibatches, share):
    config = tiny_config()
    config = config.model_copy(update={"learner": config.learner.model_copy(update={"minibatches": minibatches})})
    assert make_role(Holistic, config).sample_share == share  # 12 and 52 transitions


@pytest.mark.parametrize(
    ("words", "is_late", "expected"),
    [
        ([], False, Decision.GO_ON),
        ([], True, Decision.SAVE),
        ([Stop()], True, Decision.STOP),
        ([Stop(7)], False, Decision.STOP),
        ([Stop(8)], True, Decision.SAVE),
        ([Save(7)], False, Decision.SAVE),
        ([Save(8)], False, Decision.GO_ON),
        ([Save(7), Stop(7)], False, Decision.STOP),
        ([Reduce("none")], False, Decision.GO_ON),
    ],
)
def test_a_run_stops_at_stop_and_saves_when_a_checkpoint_is_late(make_role, launcher, words, is_late, expected):
    role = make_role(Holistic, tiny_config())
    role.checkpointer = SimpleNamespace(is_late=lambda: is_late)
    for word in words:
        launcher.send(encode(word))
    role._asked = []
    assert role._decide(7) is expected
    role.checkpointer = SimpleNamespace(is_late=lambda: False)
    is_later = any(getattr(word, "after", 0) == 8 for word in words)  # what concerns later iterations is not forgotten
    kinds = {Stop: Decision.STOP, Save: Decision.SAVE}
    assert role._decide(8) is (kinds[type(words[0])] if is_later else Decision.GO_ON)


def test_a_leader_holds_until_it_is_told_in_which_iteration_it_stops_and_forgets_no_other_word(make_role, launcher):
    role = make_role(Holistic, tiny_config())
    role.checkpointer, role._asked = SimpleNamespace(is_late=lambda: False), []

    def answer():
        assert parse_message_to_launcher(decode(launcher.recv(1 << 16))) == Holds(7)
        launcher.send(encode(Save(8)))
        launcher.send(encode(Stop(9)))

    launcher.setblocking(True)
    launcher.send(encode(Hold()))
    answering = threading.Thread(target=answer)
    answering.start()
    assert role._decide(7) is Decision.GO_ON
    answering.join(60)
    assert [role._decide(iteration) for iteration in (8, 9)] == [Decision.SAVE, Decision.STOP]


def test_a_leader_that_holds_names_the_launcher_that_does_not_answer(make_role, launcher):
    role = make_role(Holistic, tiny_config())
    role.mgr.hang_s = 0.1
    for word in (Hold(), Reduce("none")):  # which is no answer
        launcher.send(encode(word))
    with pytest.raises(GmiError, match=r"launcher has not told for 0\.1 s when all policies stop or save: .*--resume"):
        role._decide(7)


def rsl_rl(network, minibatches):
    """rsl_rl's configuration with this network."""
    networks = {name: {"class_name": network} for name in ("actor", "critic")}
    networks["actor"]["distribution_cfg"] = {"class_name": "GaussianDistribution", "init_std": 1.0}
    algorithm = {"num_mini_batches": minibatches}
    return RslRlConfig(runner={"num_steps_per_env": 4, "obs_groups": {}, "algorithm": algorithm, **networks})


@pytest.mark.parametrize(
    ("network", "minibatches", "share"), [("MLPModel", 5, 2 / 12), ("RNNModel", 3, 1 / 5), ("RNNModel", 1, 3 / 16)]
)
def test_rsl_rl_divides_transitions_or_with_a_memory_environments(make_role, network, minibatches, share):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    from gmi_drl.roles.rsl_rl.role import RslRl

    role = make_role(RslRl, tiny_config(learner=rsl_rl(network, minibatches)))
    assert role.sample_share == share


def test_fewer_environments_than_mini_batches_are_refused_with_a_memory(make_role):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    from gmi_drl.roles.rsl_rl.role import RslRl

    with pytest.raises(UsageError, match="has 3 environments for 4 mini-batches"):
        _ = make_role(RslRl, tiny_config(learner=rsl_rl("RNNModel", 4))).sample_share
