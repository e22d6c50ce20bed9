import mujoco
import pytest
import torch

from gmi_drl.tasks.ant import reset_state
from gmi_drl.tasks.ant_mjcf import JOINT_RANGES_RAD, ant_mjcf


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(ant_mjcf())


def test_sizes_and_mass(model):
    assert (model.nq, model.nv, model.nu, model.nsensordata) == (15, 14, 8, 24)
    assert sum(model.body_mass) == pytest.approx(0.911, abs=1e-3)


def test_joint_ranges_are_those_that_observations_use(model):
    assert model.jnt_range[1:].flatten().tolist() == pytest.approx(
        [angle for pair in JOINT_RANGES_RAD for angle in pair]
    )


def test_the_initial_state_breaks_no_limit_and_touches_nothing(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert (data.ncon, data.nefc) == (0, 0)


def test_no_start_touches_the_floor(model):
    data = mujoco.MjData(model)
    for qpos in reset_state(2 * torch.rand(200, 16, generator=torch.Generator().manual_seed(0)) - 1)["qpos"]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert data.ncon == 0


def test_torso_thighs_and_shins_meet_the_floor_and_nothing_else(model):
    data = mujoco.MjData(model)
    data.qpos[2] = 0.05
    mujoco.mj_forward(model, data)
    parts = ["torso", *(f"{part}_{leg}" for leg in range(4) for part in ("thigh", "shin"))]
    assert set(data.contact.geom1) == {model.geom("floor").id}
    assert set(data.contact.geom2) == {model.geom(part).id for part in parts}


@pytest.mark.parametrize("leg", range(4))
def test_larger_knee_angles_point_every_shin_down(model, leg):
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    before = data.body(f"shin_{leg}").xipos[2]
    data.joint(f"knee_{leg}").qpos += 0.5
    mujoco.mj_kinematics(model, data)
    assert data.body(f"shin_{leg}").xipos[2] < before - 0.05
