from dataclasses import replace

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.tasks import SimTask, make
from gmi_drl.tasks.ant import ANT
from gmi_drl.tasks.sim import NativeSim

NUM_ENV = 16


def make_ant(seed=0):
    torch.set_num_threads(1)
    return make("ant", num_env=NUM_ENV, seed=seed)


def actions(steps, seed=0):
    return torch.randn(steps, NUM_ENV, 8, generator=torch.Generator().manual_seed(seed))


def world(*indices):
    mask = torch.zeros(NUM_ENV, dtype=torch.bool)
    mask[list(indices)] = True
    return mask


def write(task, name, mask, value):
    """Write a state field behind the task's back."""
    task._sim.set(name, mask, torch.full_like(task._sim.get(name), value))
    task._sim.forward()


def assert_same(left, right):
    for one, other in zip(left[:4], right[:4], strict=True):
        assert torch.equal(one, other)
    assert torch.equal(left[4]["final_obs"], right[4]["final_obs"])


def test_the_seed_decides_everything():
    one, same, other = make_ant(seed=3), make_ant(seed=3), make_ant(seed=4)
    assert torch.equal(one.obs, same.obs)
    assert not torch.equal(one.obs, other.obs)
    for action in actions(20):
        assert_same(one.step(action), same.step(action))


def test_reset_starts_new_episodes_everywhere():
    task = make_ant()
    first = task.obs.clone()
    for action in actions(5):
        task.step(action)
    obs = task.reset()
    assert not torch.equal(obs, first)
    assert torch.equal(task.episode_length, torch.zeros(NUM_ENV, dtype=torch.int64))
    assert torch.equal(obs, task.obs)


def test_actions_are_clamped_and_shown_in_the_observation():
    clamped, large = make_ant(), make_ant()
    obs, *_ = large.step(torch.full((NUM_ENV, 8), 7.0))
    assert torch.equal(obs, clamped.step(torch.ones(NUM_ENV, 8))[0])
    assert torch.equal(obs[:, 52:], torch.ones(NUM_ENV, 8))


def test_a_wrong_action_shape_names_both():
    with pytest.raises(UsageError, match=r"\(16, 7\).*\(16, 8\)"):
        make_ant().step(torch.zeros(NUM_ENV, 7))


def test_an_episode_is_truncated_at_its_last_step_and_starts_anew():
    task, undisturbed = make_ant(), make_ant()
    task.episode_length[5] = task.spec.episode_steps - 2
    none, still = torch.zeros(NUM_ENV, dtype=torch.bool), torch.zeros(NUM_ENV, 8)
    assert torch.equal(task.step(still)[3], none)
    undisturbed.step(still)
    obs, reward, terminated, truncated, info = task.step(still)
    expected, expected_reward, *_ = undisturbed.step(still)
    assert torch.equal(truncated, world(5)) and not terminated.any() and not info["bad"].any()
    assert task.episode_length.tolist() == [0 if index == 5 else 2 for index in range(NUM_ENV)]
    assert torch.equal(info["final_obs"], expected) and torch.equal(reward, expected_reward)
    assert torch.equal(obs[~world(5)], expected[~world(5)])
    assert obs[5, 0] == 0.5 and obs[5, 52:].abs().max() == 0
    assert torch.equal(task.obs, obs)


def test_a_fall_terminates_and_wins_over_the_time_limit():
    task = make_ant()
    task.episode_length[:] = task.spec.episode_steps - 1
    qpos = task._sim.get("qpos").clone()
    qpos[:, 2] = 0.2
    task._sim.set("qpos", world(2), qpos)
    obs, reward, terminated, truncated, info = task.step(torch.zeros(NUM_ENV, 8))
    assert torch.equal(terminated, world(2)) and torch.equal(truncated, ~world(2))
    assert reward[2] == -2
    assert info["final_obs"][2, 0] < 0.31
    assert obs[2, 0] == 0.5


def test_random_draws_do_not_depend_on_resets_of_other_environments():
    alone, together = make_ant(), make_ant()
    for task, ending in ((alone, world(4)), (together, world(1, 4, 9))):
        task.step(torch.zeros(NUM_ENV, 8))
        task.episode_length[ending] = task.spec.episode_steps - 1
    one, *_ = alone.step(torch.zeros(NUM_ENV, 8))
    other, *_ = together.step(torch.zeros(NUM_ENV, 8))
    assert torch.equal(one[4], other[4])
    for task in (alone, together):
        task.episode_length[8] = task.spec.episode_steps - 1
    assert torch.equal(alone.step(torch.zeros(NUM_ENV, 8))[0][8], together.step(torch.zeros(NUM_ENV, 8))[0][8])


@pytest.mark.parametrize("value", [float("nan"), 1e11])
def test_a_broken_environment_is_truncated_without_reward_and_alone(value):
    broken, sound = make_ant(), make_ant()
    warm_up, *rest = actions(6)
    previous = broken.step(warm_up)[0].clone()
    sound.step(warm_up)
    write(broken, "qvel", world(7), value)
    others = ~world(7)
    for index, action in enumerate(rest):
        left, right = broken.step(action), sound.step(action)
        obs, reward, terminated, truncated, info = left
        assert torch.equal(info["bad"], world(7) if index == 0 else world())
        if index == 0:
            assert truncated[7] and not terminated[7] and reward[7] == 0
            assert torch.equal(info["final_obs"][7], previous[7])
            assert obs[7, 0] == 0.5 and broken.episode_length[7] == 0
        assert all(tensor.isfinite().all() for tensor in (obs, reward, info["final_obs"]))
        assert_same(
            [tensor[others] for tensor in left[:4]] + [{"final_obs": info["final_obs"][others]}],
            [tensor[others] for tensor in right[:4]] + [{"final_obs": right[4]["final_obs"][others]}],
        )


def test_a_nan_action_ends_its_environment_as_bad():
    task = make_ant()
    action = torch.zeros(NUM_ENV, 8)
    action[3, 6] = float("nan")
    obs, reward, terminated, truncated, info = task.step(action)
    assert torch.equal(info["bad"], world(3)) and torch.equal(truncated, world(3)) and not terminated.any()
    assert all(tensor.isfinite().all() for tensor in (obs, reward, info["final_obs"]))
    assert not task.step(torch.zeros(NUM_ENV, 8))[4]["bad"].any()


def test_a_new_task_continues_bit_identically_through_resets():
    task = make_ant()
    task.episode_length += torch.arange(NUM_ENV) + task.spec.episode_steps - 60
    for action in actions(50):
        task.step(action)
    state = task.state_dict()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    task_again = make_ant(seed=99)
    task_again.load_state_dict(state)
    assert torch.equal(task_again.obs, task.obs)
    ends = 0
    for action in actions(60, seed=1):
        here, there = task.step(action), task_again.step(action)
        assert_same(here, there)
        ends += int((here[2] | here[3]).sum())
    assert ends >= 5, "the continuation must pass through resets"
    assert all(torch.equal(state[name], kept[name]) for name in kept), "the saved state must be a copy"
    assert all(tensor.device.type == "cpu" for tensor in state.values())


def test_stepping_needs_no_gradient_and_survives_inference_mode():
    task = make_ant()
    obs, *_ = task.step(torch.zeros(NUM_ENV, 8, requires_grad=True))
    assert not obs.requires_grad
    with torch.inference_mode():
        task.step(torch.zeros(NUM_ENV, 8))
    task.episode_length[:] = 5
    task.step(torch.zeros(NUM_ENV, 8))
    assert task.episode_length[0] == 6


def test_the_motors_get_the_control_of_an_action():
    halved = replace(ANT, control=lambda fields, action: fields["qpos"].new_tensor(0.5) * action)
    task, plain = make_variant(halved), make_ant()
    torch.testing.assert_close(task.obs, plain.obs)
    task.step(torch.ones(NUM_ENV, 8))
    plain.step(torch.full((NUM_ENV, 8), 0.5))
    assert torch.equal(task._sim.get("qpos"), plain._sim.get("qpos"))


def test_a_new_goal_is_seen_at_once_and_ends_no_episode():
    def spin_where_high(fields, noise):
        return fields["qpos"][:, 2] > 1, {"qvel": torch.full_like(fields["qvel"], 0.25)}

    task = make_variant(replace(ANT, new_goal=spin_where_high))
    qpos = task._sim.get("qpos").clone()
    qpos[:, 2] = 2.0
    task._sim.set("qpos", world(3), qpos)
    obs, _, terminated, truncated, info = task.step(torch.zeros(NUM_ENV, 8))
    assert not (terminated | truncated).any() and task.episode_length[3] == 1
    assert torch.equal(task._sim.get("qvel")[3], torch.full((14,), 0.25))
    assert torch.equal((obs != info["final_obs"]).any(1), world(3))


def test_all_tensors_of_a_step_keep_their_addresses():
    task = make_ant()
    state, places = task.state_dict(), []
    for action in actions(3):
        *told, info = task.step(action)
        places.append({tensor.data_ptr() for tensor in (*told, *info.values(), task.obs, task.episode_length)})
    task.load_state_dict(state)
    places.append(places[0] | {task.reset().data_ptr(), task.obs.data_ptr()})
    assert len(places[0]) == 8 and places.count(places[0]) == 4


def make_variant(definition):
    sim = NativeSim(definition.build_mjcf(), NUM_ENV, substeps=definition.substeps, fields=definition.fields)
    return SimTask(definition, sim, seed=0)
