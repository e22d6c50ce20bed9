import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.tasks.franka_cabinet import START_POSE, TARGET_STEP, control, observe, reset_state, reward_done
from gmi_drl.tasks.franka_cabinet_mjcf import HANDLE_M, JOINT_RANGES

AT_BAR = (0.0, 0.227, 0.0, -1.71, 0.0, 3.507, -0.785)
PULLED = (0.0, -0.227, 0.0, -2.261, 0.0, 3.604, -0.785)
"""The arm with its fingers above and below the bar of the closed drawer, and 15 cm nearer to itself."""
POINTING = torch.tensor([-1.0, 0.0, 0.0])
UPRIGHT = torch.tensor([0.0, 0.0, 1.0])


def fields(drawer=0.0, grasp=HANDLE_M, forwards=POINTING, up=UPRIGHT, fingers=(0.0, 0.0)):
    arm = torch.tensor(JOINT_RANGES[:7]).mean(1)
    return {
        "qpos": torch.cat((torch.tensor([drawer]), arm, torch.tensor(fingers)))[None],
        "qvel": torch.zeros(1, 10),
        "sensordata": torch.cat((torch.tensor(grasp), forwards, up))[None],
    }


def reward_of(after, action=None):
    action = torch.zeros(1, 9) if action is None else action
    reward, terminated = reward_done(observe(after, action), action, after, after)
    assert not terminated.any()
    return reward.item()


def away(x=0.0, z=0.0):
    return HANDLE_M[0] + x, HANDLE_M[1], HANDLE_M[2] + z


def test_every_observation_is_where_the_table_says():
    low, high = torch.tensor(JOINT_RANGES).unbind(1)
    here = fields(drawer=0.1, grasp=(0.2, 0.3, 0.4))
    here["qpos"][0, 1:] = torch.where(torch.arange(9) % 2 == 0, low, high)
    here["qvel"][0] = torch.arange(10.0)
    obs = observe(here, torch.zeros(1, 9))[0]
    torch.testing.assert_close(obs[:9], torch.tensor([-1.0, 1, -1, 1, -1, 1, -1, 1, -1]))
    torch.testing.assert_close(obs[9:18], 0.1 * torch.arange(1.0, 10.0))
    to_bar = [HANDLE_M[0] + 0.1 - 0.2, HANDLE_M[1] - 0.3, HANDLE_M[2] - 0.4]
    assert obs[18:].tolist() == pytest.approx([*to_bar, 0.1, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (fields(grasp=away(x=0.2)), 2 / 4 + 0.5),
        (fields(grasp=away(x=0.015)), 4 / (1 + 0.075**2) ** 2 + 0.5),
        (fields(grasp=away(x=0.2), forwards=-POINTING), 2 / 4),
        (fields(grasp=away(x=0.2), forwards=-POINTING, up=-UPRIGHT), 2 / 4 - 0.5),
        (fields(grasp=away(x=0.2), fingers=(0.02, 0.01)), 2 / 4 + 0.5 + 0.125 + 5 * (0.02 + 0.03)),
        (fields(grasp=away(x=0.2, z=0.03), fingers=(0.02, 0.02)), 2 / (1 + 1.0225) ** 2 + 0.5),
        (fields(drawer=0.1, grasp=away(x=0.3)), 2 / 4 + 0.5 + 0.75 + 0.5),
        (fields(drawer=0.3, grasp=away(x=0.5)), 2 / 4 + 0.5 + 7.5 * 0.3 + 0.5),
        (fields(drawer=0.3, grasp=away(x=0.3), fingers=(0.02, 0.02)), 4.5 + 0.125 + 0.2 + 11.25 * 0.3 + 1.0),
        (fields(drawer=0.395, grasp=away(x=0.395), fingers=(0.02, 0.02)), 4.5 + 0.325 + 11.25 * 0.395 + 2.0),
        (fields(drawer=0.3, grasp=away(x=0.3 - 0.05)), -1.0),
    ],
    ids=[
        *("far", "near", "turned away", "upside down", "around", "above", "a little open", "open without fingers"),
        *("open in the grasp", "open as far as it goes", "behind the bar"),
    ],
)
def test_reward_parts(after, expected):
    assert reward_of(after) == pytest.approx(expected, abs=1e-4)


def test_actions_cost():
    action = torch.linspace(-1, 1, 9)[None]
    cost = reward_of(fields()) - reward_of(fields(), action)
    assert cost == pytest.approx(0.01 * action.square().sum().item(), abs=1e-5)


def test_actions_move_the_targets_within_the_limits():
    low, high = torch.tensor(JOINT_RANGES).unbind(1)
    middle = (low + high) / 2
    action = torch.full((1, 9), 0.5)
    torch.testing.assert_close(control({"ctrl": middle[None]}, action)[0], middle + 0.5 * torch.tensor(TARGET_STEP))
    for limit, way in ((low, -1.0), (high, 1.0)):
        torch.testing.assert_close(control({"ctrl": limit[None]}, torch.full((1, 9), way))[0], limit)


def test_starts_stay_within_noise_and_limits_and_hold_their_pose():
    state = reset_state(2 * torch.rand(1000, 9, generator=torch.Generator().manual_seed(0)) - 1)
    low, high = torch.tensor(JOINT_RANGES).unbind(1)
    pose, away = state["qpos"][:, 1:], (state["qpos"][:, 1:] - torch.tensor(START_POSE)).abs()
    assert ((pose >= low) & (pose <= high)).all() and torch.equal(pose, state["ctrl"])
    assert away[:, :7].max() <= 0.1251 and (away[:, :7].amax(0) > 0.12).all()
    assert pose[:, 7:].min() >= 0.03 and pose[:, 7:].max() <= 0.04
    assert state["qpos"][:, 0].abs().max() == 0
    task = make("franka_cabinet", num_env=8)
    first = task.obs.clone()
    for _ in range(30):
        obs, *_ = task.step(torch.zeros(8, 9))
    torch.testing.assert_close(obs, first, atol=1e-3, rtol=0)


def test_fingers_that_close_on_the_bar_pull_the_drawer_open():
    torch.set_num_threads(1)
    task, everywhere = make("franka_cabinet", num_env=1), torch.ones(1, dtype=torch.bool)
    pose = torch.tensor([[0.0, *AT_BAR, 0.035, 0.035]])
    for name, value in {"qpos": pose, "ctrl": pose[:, 1:]}.items():
        task._sim.set(name, everywhere, value)
    task._sim.forward()

    def move(arm):
        targets = torch.cat((arm, torch.zeros(2)))[None]
        return task.step((targets - task._sim.get("ctrl")) / torch.tensor(TARGET_STEP))

    at_bar, pulled = torch.tensor(AT_BAR), torch.tensor(PULLED)
    for _ in range(15):
        obs, holding, *_ = move(at_bar)
    holding = holding.clone()
    assert obs[0, 21] < 0.005
    assert holding > 4.5, "within 2 cm, pointing, and fingers on both sides"
    for step in range(90):
        obs, reward, _, _, info = move(torch.lerp(at_bar, pulled, min(1.0, step / 60)))
    assert obs[0, 21] > 0.13 and reward > holding + 1 and not info["bad"].any()
    fingers = [move(pulled) and task._sim.get("qpos")[0, 8:].clone() for _ in range(5)]
    assert torch.stack(fingers).std(0).max() < 1e-4, "they must not rattle on the bar"


def test_random_motion_is_lively_and_sound():
    torch.set_num_threads(1)
    task, generator = make("franka_cabinet", num_env=64), torch.Generator().manual_seed(0)
    first, bad = task.obs.clone(), 0
    for _ in range(150):
        obs, reward, terminated, _, info = task.step(torch.randn(64, 9, generator=generator))
        bad += int(info["bad"].sum())
        assert ((reward >= -1) & (reward < 12)).all() and not terminated.any()
    assert bad == 0
    assert (obs[:, 18:21] - first[:, 18:21]).norm(dim=1).mean() > 0.2, "the hand must get about"
