from math import cos, pi, sin

import mujoco
import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.tasks.shadow_hand import GOAL_M, angle, control, difference, new_goal, observe, reset_state, reward_done
from gmi_drl.tasks.shadow_hand_mjcf import BLOCK_START_M, FINGERS, JOINT_RANGES_RAD, JOINTS, shadow_hand_mjcf

LOW, HIGH = torch.tensor(JOINT_RANGES_RAD).unbind(1)
UNTURNED = (1.0, 0.0, 0.0, 0.0)
NAMES = [joint.name for joint in JOINTS]


def turn(angle, axis):
    return (cos(angle / 2), *(sin(angle / 2) * component for component in axis))


def scene(block=UNTURNED, goal=UNTURNED, position=GOAL_M):
    return {
        "qpos": torch.cat(((LOW + HIGH) / 2, torch.tensor([*position, *block])))[None].float(),
        "qvel": torch.zeros(1, 30),
        "sensordata": torch.zeros(1, 119),
        "mocap_quat": torch.tensor(goal).view(1, 1, 4),
    }


def seen(fields, action=None):
    return observe(fields, torch.zeros(1, 20) if action is None else action)[0]


def close(actual, expected):
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float32), atol=1e-5, rtol=0)


def random_noise(count=1000):
    return 2 * torch.rand(count, 31, generator=torch.Generator().manual_seed(0)) - 1


def test_a_hand_at_rest_with_the_block_at_its_goal():
    expected = torch.zeros(211)
    expected[72:79] = expected[85:92] = torch.tensor([*GOAL_M, *UNTURNED])
    expected[92] = 1.0
    close(seen(scene()), expected)


def test_joints_their_velocities_sensors_and_action():
    fields, action = scene(), torch.linspace(-1, 1, 20)[None]
    fields["qpos"][0, :24] = torch.where(torch.arange(24) % 2 == 0, LOW, HIGH)
    fields["qvel"][0, :24] = torch.arange(24.0)
    fields["sensordata"][0] = torch.linspace(-0.4, 0.4, 119)
    obs = seen(fields, action)
    close(obs[:24], [-1.0, 1.0] * 12)
    close(obs[24:48], torch.arange(24.0) * 0.2)
    close(obs[48:72], 10 * fields["sensordata"][0, :24])
    close(obs[96:161], fields["sensordata"][0, 24:89])
    close(obs[161:191], 10 * fields["sensordata"][0, 89:])
    assert torch.equal(obs[191:], action[0])


def test_the_blocks_velocities_are_those_in_the_world():
    fields = scene(block=turn(pi / 2, (0, 0, 1)))
    fields["qvel"][0, 24:] = torch.tensor([1.0, 2.0, 3.0, 5.0, 0.0, 1.0])
    close(seen(fields)[79:85], [1.0, 2.0, 3.0, 0.0, 1.0, 0.2])


def test_large_numbers_are_held_at_five():
    fields = scene()
    fields["sensordata"][0, 90] = -3.0
    assert seen(fields)[162] == -5


def test_the_turn_from_goal_to_block_does_not_know_the_sign_of_quaternions():
    block, goal = turn(2.0, (0, 0.6, 0.8)), turn(0.5, (0, 0.6, 0.8))
    for sign in (1.0, -1.0):
        obs = seen(scene(block=tuple(sign * part for part in block), goal=goal))
        close(obs[92:96], turn(1.5, (0, 0.6, 0.8)))
        close(obs[88:92], goal)


@pytest.mark.parametrize("turned", [0.0, 0.05, 1.0, pi, 4.0])
def test_angles_are_the_shorter_way(turned):
    axis = torch.tensor([0.36, 0.48, 0.8])
    quaternion = torch.tensor([turn(turned, axis)])
    assert angle(difference(quaternion, torch.tensor([UNTURNED]))).item() == pytest.approx(
        min(turned, 2 * pi - turned), abs=1e-3
    )


@pytest.mark.parametrize(
    ("fields", "expected", "lost"),
    [
        (scene(block=turn(1.0, (0, 1, 0))), 1 / 1.1, False),
        (scene(block=turn(0.05, (1, 0, 0))), 1 / 0.15 + 250, False),
        (scene(block=turn(1.0, (0, 1, 0)), position=(GOAL_M[0], 0.1, GOAL_M[2])), 1 / 1.1 - 1.0, False),
        (scene(block=turn(1.0, (0, 1, 0)), position=(GOAL_M[0], 0.0, GOAL_M[2] - 0.25)), 1 / 1.1 - 2.5, True),
    ],
    ids=["turned away", "reached", "off its place", "lost"],
)
def test_reward_parts(fields, expected, lost):
    action = torch.full((1, 20), 0.5)
    reward, terminated = reward_done(observe(fields, action), action, fields, fields)
    assert reward.item() == pytest.approx(expected - 0.0002 * 5, abs=1e-3)
    assert terminated.item() == lost


def test_actions_are_targets_within_the_ranges_of_the_motors():
    driven = [index for index, name in enumerate(NAMES) if name not in ("FFJ1", "MFJ1", "RFJ1", "LFJ1")]
    close(control({}, torch.ones(1, 20))[0], HIGH[driven])
    close(control({}, -torch.ones(1, 20))[0], LOW[driven])
    close(control({}, torch.full((1, 20), 0.5))[0], LOW[driven] + 0.75 * (HIGH - LOW)[driven])


def test_starts_stay_within_limits_and_noise():
    state = reset_state(random_noise())
    joints, position, turns = state["qpos"][:, :24], state["qpos"][:, 24:27], state["qpos"][:, 27:]
    assert ((joints >= 0.2 * LOW - 1e-6) & (joints <= 0.2 * HIGH + 1e-6)).all()
    for finger in FINGERS[:4]:
        assert torch.equal(joints[:, NAMES.index(f"{finger}J1")], joints[:, NAMES.index(f"{finger}J2")])
    assert 0.0099 < (position - torch.tensor(BLOCK_START_M)).abs().max() <= 0.01001
    for quaternions in (turns, state["mocap_quat"][:, 0]):
        close(quaternions.norm(dim=1), torch.ones(1000))
    assert (turns - state["mocap_quat"][:, 0]).abs().max(dim=1).values.min() > 0.001


def test_turns_are_about_x_and_then_the_new_y():
    noise = torch.zeros(1, 31)
    noise[0, 2:4] = torch.tensor([0.5, -0.25])
    product, about_x, about_y = torch.zeros(4).double().numpy(), turn(pi / 2, (1, 0, 0)), turn(-pi / 4, (0, 1, 0))
    mujoco.mju_mulQuat(product, torch.tensor(about_x).double().numpy(), torch.tensor(about_y).double().numpy())
    close(reset_state(noise)["qpos"][0, 27:], torch.from_numpy(product).float())


def test_only_environments_that_reached_their_goal_get_a_new_one():
    near, far = scene(block=turn(0.09, (0, 0, 1))), scene(block=turn(0.11, (0, 0, 1)))
    both = {name: torch.cat((near[name], far[name])) for name in near}
    reached, state = new_goal(both, random_noise(2))
    assert reached.tolist() == [True, False]
    assert state["mocap_quat"].shape == (2, 1, 4)


def test_a_reached_goal_is_followed_by_another_within_the_episode():
    task, still = make("SH", num_env=3), torch.zeros(3, 20)
    task.step(still)
    goal = task._sim.get("mocap_quat").clone()
    qpos = task._sim.get("qpos").clone()
    qpos[:, 27:] = goal[:, 0]
    task._sim.set("qpos", torch.tensor([False, True, False]), qpos)
    obs, reward, terminated, truncated, info = task.step(still)
    assert (reward > 200).tolist() == [False, True, False] and not (terminated | truncated).any()
    assert task.episode_length.tolist() == [2, 2, 2]
    changed = (task._sim.get("mocap_quat") != goal).flatten(1).any(1)
    assert changed.tolist() == [False, True, False]
    close(obs[:, 88:92], task._sim.get("mocap_quat")[:, 0])
    assert angle(info["final_obs"][:, 92:96])[1] < 0.1 < angle(obs[:, 92:96])[1]


def test_fingertips_are_where_the_simulator_has_them():
    model = mujoco.MjModel.from_xml_string(shadow_hand_mjcf())
    data, task = mujoco.MjData(model), make("shadow_hand", num_env=1)
    task.step(torch.zeros(1, 20))
    data.qpos[:], data.qvel[:] = task._sim.get("qpos")[0], task._sim.get("qvel")[0]
    mujoco.mj_forward(model, data)
    for index, finger in enumerate(FINGERS):
        tip = task.obs[0, 96 + 13 * index :][:13]
        close(tip[:3], data.site(f"{finger}tip").xpos)
        turned, body = torch.zeros(4).double().numpy(), data.body(f"{finger}distal").xquat
        mujoco.mju_mulQuat(turned, body, model.site(f"{finger}tip").quat)
        close(tip[3:7], turned)


def test_a_hand_at_rest_holds_the_block_and_feels_it():
    task = make("shadow_hand", num_env=16)
    for _ in range(120):
        obs, _, terminated, _, _ = task.step(torch.zeros(16, 20))
        assert not terminated.any()
    away = (obs[:, 72:75] - obs[:, 85:88]).norm(dim=1)
    assert away.max() < 0.07 and away.mean() < 0.04
    assert obs[:, 79:85].abs().median() < 0.01
    assert obs[:, 48:72].abs().amax(0)[[NAMES.index("WRJ1"), NAMES.index("LFJ3")]].min() > 0.05
    assert obs[:, [NAMES.index("FFJ1") + 48, NAMES.index("LFJ1") + 48]].abs().max() == 0


def test_random_motion_turns_the_block_and_is_sound():
    task, generator = make("shadow_hand", num_env=16), torch.Generator().manual_seed(0)
    bad, least = 0, torch.full((16,), pi)
    for _ in range(120):
        obs, _, _, _, info = task.step(2 * torch.rand(16, 20, generator=generator) - 1)
        bad, least = bad + int(info["bad"].sum()), torch.minimum(least, angle(info["final_obs"][:, 92:96]))
    assert bad == 0
    assert obs[:, 82:85].abs().mean() > 0.05
    assert (least < 1.0).any()
