import mujoco
import numpy as np
import pytest
import torch

from gmi_drl.tasks.anymal import reset_state
from gmi_drl.tasks.anymal_mjcf import DEFAULT_JOINTS_RAD, GUARDED, JOINTS, LEGS, anymal_mjcf


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(anymal_mjcf())


def test_sizes_and_mass(model):
    assert (model.nq, model.nv, model.nu, model.nmocap) == (19, 18, 12, 1)
    assert model.nsensordata == 3 * len(GUARDED) + 12
    assert sum(model.body_mass) == pytest.approx(30.2, abs=0.1)


def test_joints_and_drives_are_in_the_order_of_observations_and_actions(model):
    assert [model.joint(index).name for index in range(1, 13)] == list(JOINTS)
    assert model.actuator_trnid[:, 0].tolist() == list(range(1, 13))


def test_no_start_touches_the_floor(model):
    data = mujoco.MjData(model)
    for qpos in reset_state(2 * torch.rand(200, 27, generator=torch.Generator().manual_seed(0)) - 1)["qpos"]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert data.ncon == 0


def test_the_feet_of_the_stance_are_level_and_below_the_hips(model):
    data = mujoco.MjData(model)
    data.qpos[7:] = DEFAULT_JOINTS_RAD
    mujoco.mj_kinematics(model, data)
    feet = np.array([data.geom(f"{leg}_foot").xpos for leg in LEGS])
    hips = np.array([data.body(f"{leg}_thigh").xpos for leg in LEGS])
    assert np.ptp(feet[:, 2]) < 1e-9
    assert abs(feet[:, 0] - hips[:, 0]).max() < 0.05
    assert abs(feet.mean(0)[:2]).max() < 1e-9, "the legs mirror each other"


def test_base_thighs_and_feet_meet_the_floor_and_nothing_else(model):
    data = mujoco.MjData(model)
    data.qpos[2] = 0.05
    mujoco.mj_forward(model, data)
    parts = [*GUARDED, *(f"{leg}_foot" for leg in LEGS)]
    assert set(data.contact.geom1) == {model.geom("floor").id}
    assert set(data.contact.geom2) == {model.geom(part).id for part in parts}


@pytest.mark.parametrize("index", range(len(GUARDED)))
def test_sensors_feel_the_force_on_their_own_guarded_body(model, index):
    data = mujoco.MjData(model)
    body = model.body(GUARDED[index])
    others = [pair for pair in range(model.npair) if model.geom_bodyid[model.pair_geom2[pair]] != body.id]
    alone = mujoco.MjModel.from_xml_string(anymal_mjcf())
    alone.pair_margin[others] = -10
    data.qpos[2] = 0.05
    mujoco.mj_forward(alone, data)
    forces = data.sensordata[:15].reshape(5, 3)
    assert (np.linalg.norm(forces, axis=1) > 1).tolist() == [other == index for other in range(5)]
