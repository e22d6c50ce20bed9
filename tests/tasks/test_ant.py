from math import cos, pi, radians, sin

import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.tasks.ant import observe, reset_state, reward_done

MIDDLE = torch.tensor([0.0, radians(65)] * 4)
HALF_RANGE = torch.tensor([radians(40), radians(35)] * 4)


def pose(turn=(1.0, 0.0, 0.0, 0.0), position=(0.0, 0.0, 0.6)):
    return {
        "qpos": torch.cat((torch.tensor([*position, *turn]), MIDDLE))[None].float(),
        "qvel": torch.zeros(1, 14),
        "sensordata": torch.zeros(1, 24),
    }


def turn(angle, axis):
    return (cos(angle / 2), *(sin(angle / 2) * component for component in axis))


def seen(fields, action=None):
    return observe(fields, torch.zeros(1, 8) if action is None else action)[0]


def close(actual, expected):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32), atol=1e-5, rtol=0)


def test_upright_and_facing_the_target():
    obs = seen(pose())
    expected = torch.zeros(60)
    expected[[0, 10, 11]] = torch.tensor([0.6, 1.0, 1.0])
    torch.testing.assert_close(obs, expected, atol=1e-6, rtol=0)


def test_yaw_turns_heading_and_velocities():
    fields = pose(turn(pi / 3, (0, 0, 1)))
    fields["qvel"][0, :6] = torch.tensor([1.0, 0.0, 2.0, 3.0, 4.0, 5.0])
    obs = seen(fields)
    close(obs[1:4], [cos(pi / 3), -sin(pi / 3), 2.0])
    close(obs[4:7], [3.0, 4.0, 5.0])
    close(obs[7:12], [pi / 3, 0.0, -pi / 3, 1.0, 0.5])


def test_yaw_is_continuous_ahead():
    close(seen(pose(turn(-0.01, (0, 0, 1))))[[7, 9]], [-0.01, 0.01])


def test_roll_tilts_the_up_projection_only():
    close(seen(pose(turn(0.7, (1, 0, 0))))[7:12], [0.0, 0.7, 0.0, cos(0.7), 1.0])


def test_pitch_lowers_heading_and_up():
    close(seen(pose(turn(0.7, (0, 1, 0))))[[7, 8, 10, 11]], [0.0, 0.0, cos(0.7), cos(0.7)])


def test_the_angle_to_the_target_counts_the_robots_place():
    obs = seen(pose(turn(pi / 2, (0, 0, 1)), position=(1000.0, -3.0, 0.6)))
    close(obs[[7, 9, 11]], [pi / 2, 0.0, 1.0])
    close(seen(pose(position=(1000.0, -3.0, 0.6)))[[9, 11]], [pi / 2, 0.0])


def test_joints_sensors_and_action():
    fields, action = pose(), torch.linspace(-1, 1, 8)[None]
    fields["qpos"][0, 7:] = MIDDLE + HALF_RANGE * torch.tensor([1.0, -1.0, 0.5, 0.0, -0.5, 1.0, 0.0, 0.0])
    fields["qvel"][0, 6:] = torch.arange(8.0)
    fields["sensordata"][0] = torch.arange(24.0)
    obs = seen(fields, action)
    close(obs[12:20], [1.0, -1.0, 0.5, 0.0, -0.5, 1.0, 0.0, 0.0])
    torch.testing.assert_close(obs[20:28], torch.arange(8.0) * 0.2)
    torch.testing.assert_close(obs[28:52], torch.arange(24.0) * 0.1)
    assert torch.equal(obs[52:], action[0])


def reward_of(after, before=None, action=None):
    action = torch.zeros(1, 8) if action is None else action
    reward, fallen = reward_done(observe(after, action), action, before or pose(), after)
    return reward.item(), fallen.item()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (pose(), 0.5 + 0.1 + 0.5),
        (pose(position=(0.05, 0.0, 0.6)), 0.05 * 60 + 1.1),
        (pose(turn(pi, (0, 0, 1))), 0.5 + 0.1 - 0.5 / 0.8),
        (pose(turn(1.0, (1, 0, 0))), 0.5 + 0.5),
        (pose(position=(0.0, 0.0, 0.30)), -2.0),
    ],
    ids=["alive, upright, heading", "progress", "backwards", "tilted", "fallen"],
)
def test_reward_parts(after, expected):
    reward, fallen = reward_of(after)
    assert reward == pytest.approx(expected, abs=1e-4)
    assert fallen == (expected == -2.0)


def test_costs_of_actions_energy_and_limits():
    action = torch.tensor([[1.0, -0.5, 0, 0, 0, 0, 0, 0]])
    after = pose()
    after["qvel"][0, 6:8] = torch.tensor([10.0, 20.0])
    after["qpos"][0, 7:] += HALF_RANGE * torch.tensor([1.0, 1.0, -1.0, 0.9, 0, 0, 0, 0])
    energy = 1.0 * 10 * 0.2 + 0.5 * 20 * 0.2
    assert reward_of(after, action=action)[0] == pytest.approx(1.1 - 0.005 * 1.25 - 0.05 * energy - 0.1 * 2, abs=1e-5)


def test_resets_stay_within_limits_and_noise():
    state = reset_state(2 * torch.rand(1000, 16, generator=torch.Generator().manual_seed(0)) - 1)
    hips, knees = state["qpos"][:, 7::2], state["qpos"][:, 8::2]
    assert 0.19 < hips.max() <= 0.2 and -0.2 <= hips.min() < -0.19
    assert knees.min() == pytest.approx(radians(30)) and radians(30) + 0.19 < knees.max() <= radians(30) + 0.2001
    assert torch.equal(state["qpos"][:, :7].unique(dim=0), torch.tensor([[0, 0, 0.5, 1, 0, 0, 0]]))
    assert torch.equal(state["qvel"][:, :6], torch.zeros(1000, 6))
    assert 0.099 < state["qvel"][:, 6:].abs().max() <= 0.1


def test_a_standing_ant_stays_up_and_feels_its_weight():
    task = make("ant", num_env=4)
    for _ in range(120):
        obs, _, terminated, _, _ = task.step(torch.zeros(4, 8))
        assert not terminated.any()
    vertical_n = torch.stack([obs[:, 28 + 6 * leg : 31 + 6 * leg].norm(dim=1) / 0.1 for leg in range(4)]).sum(0)
    assert ((vertical_n > 4) & (vertical_n < 20)).all(), "0.91 kg weigh 8.9 N, less the shins themselves, plus thrust"
    assert obs[:, 1:7].abs().max() < 1.0


def test_random_motion_is_lively_and_sound():
    task, generator = make("ant", num_env=64), torch.Generator().manual_seed(0)
    falls, bad, lengths = 0, 0, []
    for _ in range(250):
        running = task.episode_length + 1
        obs, _, terminated, _, info = task.step(torch.randn(64, 8, generator=generator))
        falls, bad = falls + int(terminated.sum()), bad + int(info["bad"].sum())
        lengths += running[terminated].tolist()
    assert bad == 0
    assert falls > 10 and 20 < sum(lengths) / len(lengths) < 250
    assert obs[:, 1].abs().mean() > 0.2, "full torque must move the torso"
