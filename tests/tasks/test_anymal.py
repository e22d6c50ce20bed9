from math import cos, exp, pi, sin

import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.tasks.anymal import control, observe, reset_state, reward_done
from gmi_drl.tasks.anymal_mjcf import DEFAULT_JOINTS_RAD

STANCE = torch.tensor(DEFAULT_JOINTS_RAD)
STILL = torch.zeros(1, 12)


def pose(turn=(1.0, 0.0, 0.0, 0.0), velocity=(0.0,) * 6, command=(0.0, 0.0, 0.0)):
    return {
        "qpos": torch.cat((torch.tensor([0.0, 0.0, 0.5, *turn]), STANCE))[None],
        "qvel": torch.cat((torch.tensor(velocity), torch.zeros(12)))[None],
        "mocap_pos": torch.tensor([[command]]),
        "sensordata": torch.zeros(1, 27),
    }


def turn(angle, axis):
    return (cos(angle / 2), *(sin(angle / 2) * component for component in axis))


def close(actual, expected):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32), atol=1e-5, rtol=0)


def test_standing_still_without_a_command_shows_gravity_alone():
    expected = torch.zeros(48)
    expected[8] = -1
    torch.testing.assert_close(observe(pose(), STILL)[0], expected, atol=1e-6, rtol=0)


def test_velocities_and_gravity_are_those_that_the_base_sees():
    yawed = observe(pose(turn(pi / 3, (0, 0, 1)), (1.0, 0.0, 2.0, 3.0, 4.0, 5.0)), STILL)[0]
    close(yawed[:6], [2 * cos(pi / 3), -2 * sin(pi / 3), 4.0, 0.75, 1.0, 1.25])
    nose_down = observe(pose(turn(0.3, (0, 1, 0))), STILL)[0]
    close(nose_down[6:9], [sin(0.3), 0.0, -cos(0.3)])


def test_command_joints_and_action():
    fields, action = pose(command=(1.5, -0.5, 0.8)), torch.linspace(-1, 1, 12)[None]
    fields["qpos"][0, 7:] += torch.arange(12) * 0.1
    fields["qvel"][0, 6:] = torch.arange(12.0)
    obs = observe(fields, action)[0]
    close(obs[9:12], [3.0, -1.0, 0.2])
    close(obs[12:24], [0.1 * joint for joint in range(12)])
    close(obs[24:36], [0.05 * joint for joint in range(12)])
    assert torch.equal(obs[36:], action[0])


def test_actions_move_the_targets_about_the_stance():
    torch.testing.assert_close(control(pose(), STILL), STANCE[None])
    torch.testing.assert_close(control(pose(), torch.ones(1, 12)), STANCE[None] + 0.5)


def reward_of(after, torque_nm=0.0):
    after["sensordata"][:, 15:] = torque_nm
    reward, fallen = reward_done(observe(after, STILL), STILL, pose(), after)
    assert not fallen.any()
    return reward.item()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (pose(), 1.5),
        (pose(velocity=(1.0, -0.5, 9.0, 9.0, 9.0, 0.8), command=(1.0, -0.5, 0.8)), 1.5),
        (pose(turn(pi / 2, (0, 0, 1)), (0.0, 1.0, 0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0)), 1.5),
        (pose(velocity=(0.7, 0.4, 0.0, 0.0, 0.0, 0.0), command=(1.0, 0.0, 0.0)), exp(-4 * 0.25) + 0.5),
        (pose(velocity=(0.0, 0.0, 0.0, 0.0, 0.0, 0.6)), 1 + 0.5 * exp(-4 * 0.36)),
    ],
    ids=["stands", "follows", "follows, turned", "slow and askew", "turns unasked"],
)
def test_reward_for_following_the_command(after, expected):
    assert reward_of(after) == pytest.approx(0.02 * expected, abs=1e-6)


def test_torques_cost_but_no_reward_is_negative():
    assert reward_of(pose(), torque_nm=20.0) == pytest.approx(0.02 * (1.5 - 2.5e-5 * 12 * 400), abs=1e-6)
    assert reward_of(pose(), torque_nm=80.0) == 0


@pytest.mark.parametrize("body", range(5))
def test_more_than_a_newton_on_base_or_thigh_is_a_fall(body):
    after = {name: field.repeat_interleave(2, 0) for name, field in pose().items()}
    after["sensordata"][:, 3 * body : 3 * body + 3] = torch.tensor([[0.5, -0.7, 0.4], [0.6, -0.7, 0.5]])
    action = STILL.expand(2, 12)
    _, fallen = reward_done(observe(after, action), action, after, after)
    assert fallen.tolist() == [False, True]


def test_resets_vary_the_stance_and_draw_a_command():
    state = reset_state(2 * torch.rand(1000, 27, generator=torch.Generator().manual_seed(0)) - 1)
    ratio = state["qpos"][:, 7:] / STANCE
    assert 0.5 <= ratio.min() < 0.51 and 1.49 < ratio.max() <= 1.5
    assert torch.equal(state["qpos"][:, :7].unique(dim=0), torch.tensor([[0, 0, 0.62, 1, 0, 0, 0]]))
    assert torch.equal(state["qvel"][:, :6], torch.zeros(1000, 6)) and 0.099 < state["qvel"].abs().max() <= 0.1
    largest = state["mocap_pos"].abs().amax(0)[0]
    assert ((largest > torch.tensor([1.99, 0.99, 0.99])) & (largest <= torch.tensor([2.0, 1.0, 1.0]))).all()


def test_a_zero_action_stands_and_carries_the_weight():
    task = make("anymal", num_env=8)
    for _ in range(100):
        obs, _, terminated, _, _ = task.step(torch.zeros(8, 12))
        assert not terminated.any()
    assert obs[:, :6].abs().max() < 0.2, "it stands still"
    heights, torques = task._sim.get("qpos")[:, 2], task._sim.get("sensordata")[:, 15:]
    assert ((heights > 0.5) & (heights < 0.57)).all()
    assert (torques[:, 2::3].abs() > 3).all(), "knees must carry 30 kg"


def test_a_base_on_the_floor_ends_the_episode_and_the_next_has_another_command():
    task = make("anymal", num_env=4)
    commands = task.obs[:, 9:12].clone()
    qpos = task._sim.get("qpos").clone()
    qpos[:, 2:7] = torch.tensor([0.098, 0.0, 1.0, 0.0, 0.0])  # on its back
    task._sim.set("qpos", torch.tensor([True, False, False, False]), qpos)
    obs, _, terminated, _, info = task.step(torch.zeros(4, 12))
    assert terminated.tolist() == [True, False, False, False]
    assert torch.equal(info["final_obs"][:, 9:12], commands)
    assert torch.equal((obs[:, 9:12] != commands).any(1), terminated)


def test_a_saved_task_goes_on_under_the_same_commands():
    task, again = make("anymal", num_env=4), make("anymal", num_env=4, seed=9)
    assert not torch.equal(task.obs[:, 9:12], again.obs[:, 9:12])
    task.step(torch.ones(4, 12))
    again.load_state_dict(task.state_dict())
    for action in torch.randn(5, 4, 12, generator=torch.Generator().manual_seed(0)):
        assert torch.equal(task.step(action)[0], again.step(action)[0])


def test_random_motion_is_lively_and_sound():
    task, generator = make("anymal", num_env=32), torch.Generator().manual_seed(0)
    falls, bad = 0, 0
    for _ in range(200):
        obs, _, terminated, _, info = task.step(2 * torch.rand(32, 12, generator=generator) - 1)
        falls, bad = falls + int(terminated.sum()), bad + int(info["bad"].sum())
    assert bad == 0 and falls < 32
    assert obs[:, 24:36].abs().mean() > 0.05, "the joints must move"
