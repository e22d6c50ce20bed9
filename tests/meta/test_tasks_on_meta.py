"""The functions of all tasks, where nothing computes: none waits for the device."""

from math import inf

import pytest
import torch
from meta_tasks import MetaSim, fields_of, meta_task, no_action
from operation_counts import META, meta_device

from gmi_drl.tasks import TASKS, SimTask
from gmi_drl.tasks.ant import ANT
from gmi_drl.tasks.ant_mjcf import ant_mjcf
from gmi_drl.tasks.sim import NativeSim
from gmi_drl.workload import TASK_SPECS

N = 64


@pytest.mark.parametrize("name", TASKS)
def test_no_function_of_a_task_waits(name):
    definition = TASKS[name]
    spec = definition.spec
    fields, action = fields_of(name, N), torch.zeros(N, spec.action.size, device=META)
    noise = torch.zeros(N, definition.reset_noise, device=META)

    def all_of_them():
        obs = definition.observe(fields, action)
        reward, terminated = definition.reward_done(obs, action, fields, fields)
        goals = definition.new_goal(fields, noise) if definition.new_goal else (terminated, {})
        return (
            {"obs": obs, "reward": reward, "terminated": terminated, "changed": goals[0]},
            definition.reward_terms(obs, action, fields, fields),
            definition.control(fields, action),
            definition.reset_state(noise) | goals[1],
        )

    with meta_device() as watch:
        with watch.allow(inf):
            all_of_them()  # makes its constants
        returned, terms, ctrl, state = all_of_them()
    assert {key: list(tensor.shape) for key, tensor in returned.items()} == {
        "obs": [N, spec.observation.size],
        "reward": [N],
        "terminated": [N],
        "changed": [N],
    }
    assert all(list(term.shape) == [N] and term.is_meta for term in terms.values())
    assert {key: tensor.shape for key, tensor in state.items()} == {key: fields_of(name, N)[key].shape for key in state}
    assert ctrl.is_meta and ctrl.shape == fields_of(name, N).get("ctrl", ctrl).shape


@pytest.mark.parametrize("name", TASK_SPECS)
def test_no_step_waits(name):
    with meta_device() as watch:
        task = meta_task(watch, name, N, tells_terms=True)
        obs, reward, terminated, truncated, info = task.step(no_action(task))
        task.reset()
    told = (obs, reward, terminated, truncated, *info.values())
    assert all(tensor.is_meta and len(tensor) == N for tensor in told)


@pytest.mark.parametrize(
    ("name", "graphs", "by_the_task", "by_itself"),
    [("ant", True, 4, 5), ("ant", False, 0, 5 + 122), ("shadow_hand", True, 4, 5)],
)
def test_a_step_is_four_graphs_beside_those_of_the_simulator(name, graphs, by_the_task, by_itself):
    with meta_device() as watch:
        task = meta_task(watch, name, N, cuda_graphs=graphs)
        with watch.count() as counts:
            task.step(no_action(task))
    assert (counts.graphs, counts.launches) == (3 + by_the_task, by_itself)


@pytest.mark.parametrize(("name", "in_graphs"), [("ant", 3), ("shadow_hand", 2)])
def test_what_sets_fields_on_the_cores_is_in_no_graph(name, in_graphs, monkeypatch):
    monkeypatch.setattr(MetaSim, "sets_on_device", False)
    with meta_device() as watch:
        task = meta_task(watch, name, N)
        with watch.allow(1), watch.count() as counts:
            task.step(no_action(task))
    assert counts.graphs == 3 + in_graphs


def test_physics_on_the_cores_waits_in_every_step():
    """For the action, who went wrong, who ended, who resets, and the mask and the values of the two fields set."""
    with meta_device() as watch:
        with watch.allow(inf):
            task = SimTask(TASKS["ant"], NativeSim(ant_mjcf(), N, substeps=2, fields=ANT.fields, device=META), seed=0)
            task.step(no_action(task))
        with watch.allow(8), watch.count() as counts:
            task.step(no_action(task))
    assert (counts.to_host, counts.to_device) == (7, 1 + 2 * len(ANT.fields))
