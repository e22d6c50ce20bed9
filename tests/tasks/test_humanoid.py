from math import cos, pi, sin

import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.tasks.humanoid import observe, reset_state, reward_done
from gmi_drl.tasks.humanoid_mjcf import JOINT_RANGES_RAD, JOINTS, TORQUES_NM

LOW, HIGH = torch.tensor(JOINT_RANGES_RAD).unbind(1)
MIDDLE, HALF_RANGE = (LOW + HIGH) / 2, (HIGH - LOW) / 2
STILL = torch.zeros(1, 21)


def pose(turn=(1.0, 0.0, 0.0, 0.0), position=(0.0, 0.0, 1.3)):
    return {
        "qpos": torch.cat((torch.tensor([*position, *turn]), MIDDLE))[None].float(),
        "qvel": torch.zeros(1, 27),
        "sensordata": torch.zeros(1, 33),
    }


def turn(angle, axis):
    return (cos(angle / 2), *(sin(angle / 2) * component for component in axis))


def close(actual, expected):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32), atol=1e-5, rtol=0)


def test_upright_and_facing_the_target():
    expected = torch.zeros(108)
    expected[[0, 10, 11]] = torch.tensor([1.3, 1.0, 1.0])
    torch.testing.assert_close(observe(pose(), STILL)[0], expected, atol=1e-6, rtol=0)


def test_yaw_turns_heading_and_velocities():
    fields = pose(turn(pi / 3, (0, 0, 1)))
    fields["qvel"][0, :6] = torch.tensor([1.0, 0.0, 2.0, 3.0, 4.0, 5.0])
    obs = observe(fields, STILL)[0]
    close(obs[1:7], [cos(pi / 3), -sin(pi / 3), 2.0, 0.75, 1.0, 1.25])
    close(obs[7:12], [pi / 3, 0.0, -pi / 3, 1.0, 0.5])


def test_joints_torques_sensors_and_action():
    fields, action = pose(), torch.linspace(-1, 1, 21)[None]
    places = torch.linspace(1, -1, 21)
    fields["qpos"][0, 7:] = MIDDLE + HALF_RANGE * places
    fields["qvel"][0, 6:] = torch.arange(21.0)
    fields["sensordata"][0] = torch.arange(33.0)
    obs = observe(fields, action)[0]
    torch.testing.assert_close(obs[12:33], places)
    torch.testing.assert_close(obs[33:54], torch.arange(21.0) * 0.1)
    torch.testing.assert_close(obs[54:87], torch.arange(33.0) * 0.01)
    assert torch.equal(obs[87:], action[0])


def reward_of(after, action=STILL):
    reward, fallen = reward_done(observe(after, action), action, pose(), after)
    return reward.item(), fallen.item()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (pose(), 2.0 + 0.1 + 0.5),
        (pose(position=(0.05, 0.0, 1.3)), 0.05 * 60 + 2.6),
        (pose(turn(pi, (0, 0, 1))), 2.1 - 0.5 / 0.8),
        (pose(turn(1.0, (1, 0, 0))), 2.5),
        (pose(position=(0.0, 0.0, 0.79)), -1.0),
    ],
    ids=["alive, upright, heading", "progress", "backwards", "tilted", "fallen"],
)
def test_reward_parts(after, expected):
    reward, fallen = reward_of(after)
    assert reward == pytest.approx(expected, abs=1e-4)
    assert fallen == (expected == -1.0)


def test_costs_of_actions_energy_and_limits_go_by_strength():
    knee, ankle = list(JOINTS).index("right_knee"), list(JOINTS).index("left_ankle_x")
    action, after = torch.zeros(1, 21), pose()
    action[0, knee] = -0.5
    after["qvel"][0, 6 + knee] = 20.0
    after["qpos"][0, 7 + ankle] += HALF_RANGE[ankle] * 0.99
    costs = 0.01 * 0.25 + 0.05 * 0.5 * 2.0 * (90 / 135) + 0.25 * 0.5 * (22.5 / 135)
    assert reward_of(after, action)[0] == pytest.approx(2.6 - costs, abs=1e-4)


def test_resets_stay_within_limits_and_noise():
    state = reset_state(2 * torch.rand(500, 42, generator=torch.Generator().manual_seed(0)) - 1)
    joints = state["qpos"][:, 7:]
    assert (joints >= LOW - 1e-6).all() and (joints <= HIGH + 1e-6).all() and 0.19 < joints.abs().max() <= 0.2
    assert torch.equal(state["qpos"][:, :7].unique(dim=0), torch.tensor([[0, 0, 1.34, 1, 0, 0, 0]]))
    assert torch.equal(state["qvel"][:, :6], torch.zeros(500, 6)) and 0.099 < state["qvel"].abs().max() <= 0.1


def test_without_action_it_stands_a_moment_and_falls_softly():
    task, lengths, fastest = make("humanoid", num_env=16), [], 0.0
    for step in range(150):
        _, _, terminated, _, info = task.step(torch.zeros(16, 21))
        fastest = max(fastest, info["final_obs"][:, 1:4].norm(dim=1).max().item())
        lengths += [step] * int(terminated.sum())
        assert not info["bad"].any()
    assert len(lengths) >= 16 and min(lengths) > 20
    assert fastest < 6, "a fall from a metre ends at 4.4 m/s"


def test_motors_are_felt_in_full():
    task = make("humanoid", num_env=1)
    action = torch.linspace(-1, 1, 21)[None]
    obs, *_ = task.step(action)
    torch.testing.assert_close(obs[:, 54:75], action * torch.tensor(TORQUES_NM) * 0.01, atol=1e-5, rtol=0)


def test_random_motion_is_lively_and_sound():
    task, generator = make("humanoid", num_env=32), torch.Generator().manual_seed(0)
    falls, bad = 0, 0
    for _ in range(150):
        obs, _, terminated, _, info = task.step(2 * torch.rand(32, 21, generator=generator) - 1)
        falls, bad = falls + int(terminated.sum()), bad + int(info["bad"].sum())
    assert bad == 0 and falls > 32
    assert obs[:, 33:54].abs().mean() > 0.1, "the joints must move"
