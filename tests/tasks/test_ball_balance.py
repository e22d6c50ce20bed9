import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.tasks.ball_balance import control, observe, reset_state, reward_done
from gmi_drl.tasks.ball_balance_mjcf import KNEE_RANGE_RAD

NUM_ENV = 4


def everywhere(task):
    return torch.ones(task.num_env, dtype=torch.bool)


def with_ball(place, velocity=(0.0, 0.0, 0.0)):
    """A task whose balls have been put somewhere."""
    torch.set_num_threads(1)
    task = make("ball_balance", num_env=NUM_ENV)
    state = reset_state(torch.zeros(NUM_ENV, 4))
    state["qpos"][:, 13:16] = torch.tensor(place)
    state["qvel"][:, 12:15] = torch.tensor(velocity)
    for name, value in state.items():
        task._sim.set(name, everywhere(task), value)
    task._sim.forward()
    return task


def hold(task, steps):
    for _ in range(steps):
        result = task.step(torch.zeros(NUM_ENV, 3))
    return result


def test_every_observation_is_where_the_table_says():
    fields = {
        "qpos": torch.arange(20.0)[None],
        "qvel": 100 + torch.arange(18.0)[None],
        "sensordata": 20 * torch.arange(18.0)[None],
    }
    obs = observe(fields, torch.zeros(1, 3))[0]
    assert obs[:12].tolist() == [8, 10, 12, 107, 109, 111, 13, 14, 15, 112, 113, 114]
    assert obs[12:].tolist() == [0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 17]


@pytest.mark.parametrize(
    ("place", "velocity", "expected"),
    [
        ((0.0, 0.0, 0.7), (0.0, 0.0, 0.0), 1.0),
        ((0.3, 0.4, 0.7), (0.0, 0.0, 0.0), 1 / 1.5),
        ((0.0, 0.0, 0.7), (2.0, -1.0, 2.0), 1 / 4),
        ((0.0, 0.0, 1.7), (0.0, 0.0, 1.0), 1 / 4),
    ],
)
def test_reward_is_for_a_ball_at_rest_in_the_middle(place, velocity, expected):
    obs = torch.zeros(1, 24)
    obs[0, 6:9], obs[0, 9:12] = torch.tensor(place), torch.tensor(velocity)
    reward, lost = reward_done(obs, torch.zeros(1, 3), {}, {})
    assert reward.item() == pytest.approx(expected) and not lost.item()


def test_a_ball_beside_the_tray_ends_the_episode():
    task = with_ball((1.0, 0.0, 0.2), (0.0, 0.0, -1.0))
    ends = [task.step(torch.zeros(NUM_ENV, 3))[2].all().item() for _ in range(5)]
    assert ends.index(True) == 4, "5 cm at 1 m/s"
    assert task._sim.get("ctrl").abs().max() == 0


def test_actions_move_the_targets_within_the_limits():
    task = with_ball((0.0, 0.0, 1.0))
    action = torch.tensor([[1.0, -0.5, 0.0]]).expand(NUM_ENV, 3)
    for count in (1, 2, 3):
        task.step(action)
        torch.testing.assert_close(task._sim.get("ctrl")[0], torch.tensor([0.2, -0.1, 0.0]) * count)
    limits = control({"ctrl": torch.tensor([[*KNEE_RANGE_RAD, 0.0]])}, torch.tensor([[-1.0, 1.0, 0.0]]))
    assert limits[0].tolist() == pytest.approx([*KNEE_RANGE_RAD, 0.0])


def test_a_ball_comes_to_rest_on_a_tray_that_is_held():
    obs, reward, terminated, _, _ = hold(with_ball((0.0, 0.0, 1.0), (0.0, 0.0, -5.0)), 150)
    assert not terminated.any()
    assert obs[0, 6:9].tolist() == pytest.approx([0.0, 0.0, 0.668], abs=3e-3)
    assert obs[0, 9:12].abs().max() < 0.01
    assert reward[0] > 0.95


def test_hips_feel_the_weight_of_ball_and_tray():
    obs, *_ = hold(with_ball((0.0, 0.0, 0.67)), 150)
    assert obs[0, 18:21].sum() / 0.05 == pytest.approx(-(1.571 + 0.838) * 9.81, rel=0.01)
    assert obs[0, 18:21].tolist() == pytest.approx([obs[0, 18].item()] * 3, rel=0.02)


def test_the_hip_under_the_ball_feels_more_of_it():
    obs, *_ = hold(with_ball((0.3, 0.0, 0.67)), 20)
    assert (obs[:, 18] < 1.3 * obs[:, 19]).all() and (obs[:, 18] < 1.3 * obs[:, 20]).all(), "forces point down"


def test_the_ball_rolls_away_from_the_side_that_is_lifted():
    task = with_ball((0.0, 0.0, 0.67))
    task.step(torch.tensor([[1.0, 0.0, 0.0]]).expand(NUM_ENV, 3))
    obs, *_ = hold(task, 50)
    assert (obs[:, 9] < -0.05).all() and obs[:, 10].abs().max() < 0.02


def test_starts_are_in_the_air_and_move_inwards():
    state = reset_state(2 * torch.rand(2000, 4, generator=torch.Generator().manual_seed(0)) - 1)
    place, velocity = state["qpos"][:, 13:16], state["qvel"][:, 12:15]
    away, speed = place[:, :2].norm(dim=1), velocity[:, :2].norm(dim=1)
    assert 0.001 <= away.min() < 0.01 and 0.49 < away.max() <= 0.5
    assert 1.0 <= place[:, 2].min() < 1.01 and 1.99 < place[:, 2].max() <= 2.0
    assert (velocity[:, 2] == -5).all() and speed.max() > 4
    assert (speed <= 5 * away / 0.5 + 1e-3).all()
    torch.testing.assert_close(velocity[:, :2], -place[:, :2] * (speed / away)[:, None], atol=1e-3, rtol=0)
    assert place[:, :2].mean(0).abs().max() < 0.02, "in all directions"
    assert torch.equal(state["qpos"][:, :13].unique(dim=0), reset_state(torch.zeros(1, 4))["qpos"][:, :13])
    assert state["qvel"][:, :12].abs().max() == state["ctrl"].abs().max() == 0


def test_random_motion_loses_balls_and_is_sound():
    torch.set_num_threads(1)
    task, generator = make("ball_balance", num_env=64), torch.Generator().manual_seed(0)
    lost = bad = 0
    for _ in range(150):
        _, reward, terminated, _, info = task.step(torch.randn(64, 3, generator=generator))
        lost, bad = lost + int(terminated.sum()), bad + int(info["bad"].sum())
        assert ((reward > 0) & (reward <= 1)).all()
    assert bad == 0 and lost > 10
