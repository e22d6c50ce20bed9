from math import cos, pi, sin

import mujoco
import numpy as np
import pytest
import torch

from gmi_drl.tasks.franka_cabinet import START_POSE, reset_state
from gmi_drl.tasks.franka_cabinet_mjcf import ARM_RANGES_RAD, HANDLE_M, JOINT_RANGES, franka_cabinet_mjcf

PANDA_DH = [  # a, alpha (of the link before), d, by Craig's convention; the last is the hand's grasp
    (0, 0, 0.333),
    (0, -pi / 2, 0),
    (0, pi / 2, 0.316),
    (0.0825, pi / 2, 0),
    (-0.0825, -pi / 2, 0.384),
    (0, pi / 2, 0),
    (0.088, pi / 2, 0),
    (0, 0, 0.107 + 0.1034),
]


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(franka_cabinet_mjcf())


def forward(model, arm, drawer=0.0, fingers=(0.0, 0.0)):
    data = mujoco.MjData(model)
    data.qpos[:] = [drawer, *arm, *fingers]
    mujoco.mj_forward(model, data)
    return data


def chain(arm):
    """The grasp in the robot's base, by Denavit and Hartenberg."""
    pose = np.eye(4)
    for (a, alpha, d), angle in zip(PANDA_DH, (*arm, -pi / 4), strict=True):
        c, s, ca, sa = cos(angle), sin(angle), cos(alpha), sin(alpha)
        pose @= [[c, -s, 0, a], [s * ca, c * ca, -sa, -d * sa], [s * sa, c * sa, ca, d * ca], [0, 0, 0, 1]]
    return pose


def test_sizes(model):
    assert (model.nq, model.nv, model.nu, model.nsensordata) == (10, 10, 9, 9)
    assert 12 < model.body("base").subtreemass < 25, "a Panda weighs 18 kg"
    assert not model.opt.gravity.any()


def test_ranges_are_those_of_observations_and_targets(model):
    ranges = [number for pair in JOINT_RANGES for number in pair]
    assert model.jnt_range[1:].flatten().tolist() == pytest.approx(ranges)
    assert model.actuator_ctrlrange.flatten().tolist() == pytest.approx(ranges)
    assert model.actuator_trnid[:, 0].tolist() == list(range(1, 10))


def test_the_arm_reaches_where_a_panda_reaches(model):
    low, high = np.array(ARM_RANGES_RAD).T
    in_world = np.diag([-1.0, -1.0, 1.0])
    for arm in np.random.default_rng(0).uniform(low, high, (50, 7)):
        grasp = chain(arm)
        position, forwards, up = forward(model, arm).sensordata.reshape(3, 3)
        assert position == pytest.approx(in_world @ grasp[:3, 3] + [1, 0, 0], abs=1e-9)
        assert forwards == pytest.approx(in_world @ grasp[:3, 2], abs=1e-9)
        assert up == pytest.approx(in_world @ grasp[:3, 1], abs=1e-9)


def test_the_bar_is_where_rewards_expect_it(model):
    for drawer in (0.0, 0.4):
        bar = forward(model, START_POSE[:7], drawer).geom("bar").xpos
        assert bar.tolist() == pytest.approx([HANDLE_M[0] + drawer, *HANDLE_M[1:]])


def test_fingertips_are_where_rewards_expect_them(model):
    data = forward(model, START_POSE[:7], fingers=(0.03, 0.01))
    grasp, _, up = data.sensordata.reshape(3, 3)
    for side, place in (("left", grasp + 0.03 * up), ("right", grasp - 0.01 * up)):
        inner_face_m = data.geom(f"{side}_finger").xpos - place
        assert abs(inner_face_m @ up) == pytest.approx(0.01, abs=1e-6), "a finger's radius from its middle"


def test_no_start_touches_anything(model):
    data = mujoco.MjData(model)
    for qpos in reset_state(2 * torch.rand(200, 9, generator=torch.Generator().manual_seed(0)) - 1)["qpos"]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert data.ncon == 0


def test_fingers_and_hand_meet_the_bar_and_fingers_the_front(model):
    names = {
        frozenset(model.geom(int(geom)).name for geom in pair)
        for pair in zip(model.pair_geom1, model.pair_geom2, strict=True)
    }
    parts = ("left_finger", "right_finger", "hand")
    assert names == {frozenset((part, "bar")) for part in parts} | {frozenset((part, "front")) for part in parts[:2]}
    collides = model.geom_contype | model.geom_conaffinity
    assert not collides.any(), "nothing else is looked at"


@pytest.mark.parametrize(("speed", "farthest"), [(0.5, (0.1, 0.2)), (3.0, (0.4, 0.42))])
def test_the_drawer_resists_and_stops(model, speed, farthest):
    data = mujoco.MjData(model)
    data.qpos[1] = data.ctrl[0] = 2.0
    data.qvel[0] = speed
    opened = []
    for _ in range(180):
        mujoco.mj_step(model, data)
        opened.append(data.qpos[0])
    assert farthest[0] < max(opened) < farthest[1]
