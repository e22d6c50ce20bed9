"""Asynchronous trainings as sides of cases, and what they are compared with."""

from pathlib import Path

import pytest
from conftest import two_cores

from gmi_drl.benchmarks.cases.components import experience_on_gpu
from gmi_drl.benchmarks.cases.learning import learning_asynchronous
from gmi_drl.benchmarks.cases.paper import figure_11, table_8
from gmi_drl.config.learners import A3CConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.run.folder import RunFolder

SMALL = RunConfig(learner=A3CConfig(hidden=(16,), horizon=8, minibatches=1))


@two_cores
def test_channels_and_a_queue_train_with_the_same_environments_and_learner():
    with figure_11.CASE.open(True) as sides:
        ours, theirs = (side() for side in sides.values())
    assert ours.value > 0 and theirs.value > 0
    assert ours.details["lag_max"] <= 2 and theirs.details["updates"] >= 1


@two_cores
def test_both_modes_of_channels_are_layouts_that_differ_in_nothing_else():
    with table_8.CASES[0].open(True) as sides:
        layouts = {name: side.args[0] for name, side in sides.items()}
    multi, uni = layouts["MCC"], layouts["UCC"]
    assert (multi.channels.mode, uni.channels.mode) == ("MCC", "UCC")
    same = {"channels": None}
    assert multi.model_copy(update=same) == uni.model_copy(update=same)


@two_cores
def test_learning_is_measured_by_its_first_and_last_tenth():
    layout = learning_asynchronous.layout_of("ant", 4)
    sample = learning_asynchronous.learn(layout, SMALL, 2.0, iter([7]))
    rewards = sample.details["curves"][learning_asynchronous.REWARD]
    assert sample.details["seed"] == 7 and sample.details["env_steps"] >= len(rewards) * 4 * 8 > 0
    assert min(rewards) <= sample.value <= max(rewards) and sample.details["lag_max"] <= 2


@pytest.mark.parametrize("trained", [learning_asynchronous.against_ppo, learning_asynchronous.by_lag])
def test_all_sides_of_learning_can_be_trained(trained):
    from gmi_drl.launch.job import resolve

    for layout, config in trained().values():
        resolve(layout, config, RunFolder(Path("run")))


@two_cores
def test_experience_on_the_gpu_and_through_the_host_are_layouts_that_differ_in_nothing_else():
    node = Node(name="one", gpus=Gpus(model="NVIDIA H200", count=2), link="pcie", cpu=Cpu(cores=6, memory_gib=64))
    layouts = experience_on_gpu.layouts(node, 8)
    assert [layout.channels.on_gpu for layout in layouts.values()] == [True, False]
    on_gpu, through_host = (layout.model_copy(update={"channels": None}) for layout in layouts.values())
    assert on_gpu == through_host and [len(on_gpu.with_role(role)) for role in ("agent", "trainer")] == [3, 1]
    assert [(device.kind, device.index) for device in on_gpu.devices] == [("gpu", 0)]
    with experience_on_gpu.CASE.open(True) as sides:  # on cores, where both are one way
        assert all(side().value > 0 for side in sides.values()) and len(sides) == 2
