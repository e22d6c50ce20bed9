import mujoco
import numpy as np
import pytest
import torch

from gmi_drl.tasks.humanoid import FALLEN_HEIGHT_M, reset_state
from gmi_drl.tasks.humanoid_mjcf import JOINT_RANGES_RAD, JOINTS, TORQUES_NM, humanoid_mjcf


def twin(name):
    """The same part of the other side; itself if it is in the middle."""
    side, _, part = name.partition("_")
    other = {"left": "right", "right": "left"}.get(side)
    return f"{other}_{part}" if other else name


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(humanoid_mjcf())


def places(model, angles=None):
    """Where all bodies are `[bodies, 3]` with the joints at `angles` by name, the others at zero."""
    data = mujoco.MjData(model)
    for name, angle in (angles or {}).items():
        data.joint(name).qpos[:] = angle
    mujoco.mj_kinematics(model, data)
    return data.xipos


def test_sizes_and_mass(model):
    assert (model.nq, model.nv, model.nu, model.nsensordata) == (28, 27, 21, 33)
    assert sum(model.body_mass) == pytest.approx(41.0, abs=0.1)


def test_joints_and_motors_are_those_that_observations_and_rewards_use(model):
    assert [model.joint(index).name for index in range(1, 22)] == list(JOINTS)
    assert model.actuator_trnid[:, 0].tolist() == list(range(1, 22))
    assert model.actuator_gear[:, 0].tolist() == list(TORQUES_NM) and {22.5, 135.0} <= set(TORQUES_NM)
    np.testing.assert_allclose(model.jnt_range[1:], JOINT_RANGES_RAD)


def test_the_start_is_just_above_the_floor(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert (data.ncon, data.nefc) == (0, 0)
    data.qpos[2] -= 0.06
    mujoco.mj_forward(model, data)
    feet = {model.geom(f"{side}_{part}_foot").id for side in ("left", "right") for part in ("inner", "outer")}
    assert set(data.contact.geom2) == feet


def test_few_starts_touch_the_floor(model):
    data, touching = mujoco.MjData(model), 0
    for qpos in reset_state(2 * torch.rand(300, 42, generator=torch.Generator().manual_seed(0)) - 1)["qpos"]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        touching += data.ncon > 0
    assert touching < 0.1 * 300


@pytest.mark.parametrize(
    ("joint", "body", "direction"),
    [
        ("hip_y", "shin", (1, 0, 0)),
        ("knee", "foot", (-1, 0, 0)),
        ("shoulder_1", "forearm", (1, 0, 0)),
        ("elbow", "forearm", (1, 0, 0)),
        ("ankle_y", "foot", (0, 0, -1)),
        ("hip_x", "shin", (0, 1, 0)),
        ("shoulder_2", "forearm", (0, 1, 0)),
        ("hip_z", "foot", (0, 1, 0)),
    ],
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_positive_angles_bend_and_lift(model, side, joint, body, direction):
    index = model.body(f"{side}_{body}").id
    moved = (places(model, {f"{side}_{joint}": 0.4}) - places(model))[index]
    outward = 1 if side == "left" else -1
    assert moved @ (np.array(direction) * (1, outward, 1)) > 0.003


def test_a_positive_abdomen_folds_forward(model):
    feet = [model.body(f"{side}_foot").id for side in ("left", "right")]
    assert (places(model, {"abdomen_y": 0.4})[feet, 0] > 0.2).all()


def test_left_mirrors_right(model):
    generator = np.random.default_rng(0)
    angles = {name: generator.uniform(-1, 1) for name in JOINTS}
    mirrored = {name: angles[twin(name)] * (-1 if name in ("abdomen_z", "abdomen_x") else 1) for name in JOINTS}
    twins = [model.body(twin(model.body(index).name)).id for index in range(model.nbody)]
    np.testing.assert_allclose(places(model, mirrored), places(model, angles)[twins] * (1, -1, 1), atol=1e-9)


def test_trunk_head_and_arms_cannot_reach_the_floor_before_the_fall(model):
    data, generator = mujoco.MjData(model), np.random.default_rng(0)
    above_legs = [
        not any(part in model.body(body).name for part in ("thigh", "shin", "foot")) for body in range(model.nbody)
    ]
    geoms = np.array(above_legs)[model.geom_bodyid] & (model.geom_bodyid > 0)
    for _ in range(200):
        data.qpos[7:] = generator.uniform(*np.transpose(JOINT_RANGES_RAD))
        mujoco.mj_kinematics(model, data)
        reach = np.linalg.norm(data.geom_xpos - data.body("torso").xpos, axis=1) + model.geom_rbound
        assert reach[geoms].max() < FALLEN_HEIGHT_M


def test_legs_meet_each_other(model):
    data = mujoco.MjData(model)
    for side in ("left", "right"):
        data.joint(f"{side}_hip_x").qpos[:] = -0.15
    mujoco.mj_forward(model, data)
    shins = {model.geom(f"{side}_shin").id for side in ("left", "right")}
    assert shins in [set(pair) for pair in zip(data.contact.geom1, data.contact.geom2, strict=True)]
