import mujoco
import pytest
import torch

from gmi_drl.tasks.shadow_hand import reset_state
from gmi_drl.tasks.shadow_hand_mjcf import FINGERS, JOINT_RANGES_RAD, JOINTS, MOTORS, shadow_hand_mjcf


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(shadow_hand_mjcf())


@pytest.fixture
def data(model):
    return mujoco.MjData(model)


def names_in_contact(model, data):
    pairs = zip(data.contact.geom1, data.contact.geom2, strict=True)
    return [{model.geom(one).name, model.geom(other).name} for one, other in pairs]


def test_sizes_and_mass(model):
    assert (model.nq, model.nv, model.nu, model.nsensordata, model.nmocap) == (31, 30, 20, 119, 1)
    assert model.body("block").mass == pytest.approx(567 * 0.05**3)
    assert model.nmesh == 0


def test_joints_are_those_that_observations_use(model):
    assert [model.joint(index).name for index in range(24)] == [joint.name for joint in JOINTS]
    ranges = [angle for pair in JOINT_RANGES_RAD for angle in pair]
    assert model.jnt_range[:24].flatten().tolist() == pytest.approx(ranges)


def test_a_motor_may_aim_at_the_whole_range_of_its_joint(model):
    joints = model.actuator_trnid[:, 0]
    assert [model.joint(joint).name for joint in joints] == [motor.name for motor in MOTORS]
    assert model.actuator_ctrlrange == pytest.approx(model.jnt_range[joints])


def test_no_start_touches_the_block(model, data):
    noise = 2 * torch.rand(200, 31, generator=torch.Generator().manual_seed(0)) - 1
    for qpos in reset_state(noise)["qpos"]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert not any("block" in pair for pair in names_in_contact(model, data))


@pytest.mark.parametrize("part", ["palm", "LFmetacarpal", "FFmiddle", "RFproximal", "THdistal"])
def test_the_block_meets_every_part_of_the_hand(model, data, part):
    mujoco.mj_forward(model, data)
    data.qpos[24:27] = data.geom(part).xpos
    mujoco.mj_forward(model, data)
    assert {part, "block"} in names_in_contact(model, data)


def test_the_goal_touches_nothing(model, data):
    mujoco.mj_forward(model, data)
    data.mocap_pos[0] = data.geom("palm").xpos
    mujoco.mj_forward(model, data)
    assert data.ncon == 0


@pytest.mark.parametrize("finger", FINGERS[:4])
def test_a_finger_closes_over_the_palm_and_its_distal_joint_follows(model, data, finger):
    mujoco.mj_forward(model, data)
    before = data.site(f"{finger}tip").xpos.copy()
    data.qpos[24:27] = (1.0, 0.0, 0.5)
    for motor, actuator in zip(MOTORS, range(model.nu), strict=True):
        data.ctrl[actuator] = 1.2 if motor.name in (f"{finger}J3", f"{finger}J2") else 0.0
    for _ in range(120):
        mujoco.mj_step(model, data)
    assert data.joint(f"{finger}J1").qpos[0] == pytest.approx(data.joint(f"{finger}J2").qpos[0], abs=0.02)
    assert data.joint(f"{finger}J2").qpos[0] == pytest.approx(1.2, abs=0.1)
    after = data.site(f"{finger}tip").xpos
    assert after[0] < before[0] - 0.05 and after[2] > before[2] + 0.01


def test_the_thumb_reaches_over_the_palm(model, data):
    mujoco.mj_forward(model, data)
    before = data.site("THtip").xpos.copy()
    data.joint("THJ5").qpos, data.joint("THJ4").qpos = 1.0, 1.2
    mujoco.mj_forward(model, data)
    after = data.site("THtip").xpos
    assert after[1] > before[1] + 0.03 and after[2] > before[2] + 0.03
