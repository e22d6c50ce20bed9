from math import radians, sin

import mujoco
import pytest
import torch

from gmi_drl.tasks.ball_balance import control, reset_state
from gmi_drl.tasks.ball_balance_mjcf import KNEE_RANGE_RAD, START_QPOS, TRAY_HEIGHT_M, ball_balance_mjcf


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(ball_balance_mjcf())


def settled(model, knees, seconds=1.0):
    """The data after holding these knee targets, without the ball."""
    data = mujoco.MjData(model)
    data.ctrl[:] = knees
    mujoco.mj_step(model, data, nstep=round(seconds / model.opt.timestep))
    return data


def test_sizes_and_masses(model):
    assert (model.nq, model.nv, model.nu, model.nsensordata) == (20, 18, 3, 18)
    assert model.body("tray").mass == pytest.approx(1.571, abs=1e-3)
    assert model.body("ball").mass == pytest.approx(0.838, abs=1e-3)


def test_knee_ranges_are_those_of_the_targets(model):
    for leg in range(3):
        assert model.joint(f"knee_{leg}").range.tolist() == pytest.approx(KNEE_RANGE_RAD)
        assert model.actuator_ctrlrange[leg].tolist() == pytest.approx(KNEE_RANGE_RAD)


def test_the_initial_state_stands_and_touches_nothing(model):
    data = mujoco.MjData(model)
    assert data.qpos.tolist() == pytest.approx(START_QPOS)
    mujoco.mj_forward(model, data)
    assert (data.ncon, data.nefc) == (0, 9), "three feet are held, nothing else"
    assert abs(data.efc_pos).max() < 1e-12
    assert settled(model, 0).body("tray").xpos == pytest.approx([0, 0, TRAY_HEIGHT_M], abs=2e-3)


def test_no_start_touches_the_tray(model):
    data = mujoco.MjData(model)
    for qpos in reset_state(2 * torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) - 1)["qpos"]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert data.ncon == 0


@pytest.mark.parametrize("knee_deg", [-60, -30, 30, 60])
def test_equal_knees_lift_the_tray_and_keep_it_level(model, knee_deg):
    data = settled(model, radians(knee_deg))
    height = 2 * 0.36 * sin(radians(90 + knee_deg) / 2) + 0.05
    assert data.qpos[:3] == pytest.approx([0, 0, height], abs=5e-3)
    assert data.qpos[3:7] == pytest.approx([1, 0, 0, 0], abs=1e-3)


@pytest.mark.parametrize("leg", range(3))
def test_a_straighter_leg_lifts_its_side_of_the_tray(model, leg):
    knees = [0.3 if index == leg else 0.0 for index in range(3)]
    data = settled(model, knees)
    hips = [data.site(f"hip_{index}").xpos[2] for index in range(3)]
    assert hips[leg] == max(hips) and max(hips) - min(hips) > 0.05


def test_feet_stay_where_they_are_whatever_the_targets(model):
    data, generator = mujoco.MjData(model), torch.Generator().manual_seed(0)
    targets = torch.zeros(3)
    for _ in range(200):
        targets = control({"ctrl": targets}, (2 * torch.rand(3, generator=generator) - 1).sign())
        data.ctrl[:] = targets
        mujoco.mj_step(model, data, nstep=2)
        assert abs(data.efc_pos[:9]).max() < 0.02


def test_only_ball_and_tray_meet(model):
    data = mujoco.MjData(model)
    data.qpos[2] = 0.0
    data.qpos[13:16] = [0.1, 0.0, 0.1]
    mujoco.mj_forward(model, data)
    assert {frozenset(pair) for pair in data.contact.geom.tolist()} == {
        frozenset((model.geom("tray").id, model.geom("ball").id))
    }
