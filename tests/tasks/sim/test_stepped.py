import mujoco
import numpy as np
import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.tasks.sim import NativeSim, Sim, SteppedSim

NUM_ENV, SUBSTEPS = 3, 4
FIELDS = ("qpos", "qvel", "xpos", "cvel", "cfrc_ext")


def tumbler(integrator, extra=""):
    """A sphere with an arm, which falls."""
    return f"""
<mujoco>
  <option timestep="0.01" integrator="{integrator}"/>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body pos="0 0 0.3"><freejoint/><geom type="sphere" size="0.1"/>
      <body pos="0.1 0 0"><joint name="hinge" axis="0 1 0"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0"/>
        {extra}</body></body>
  </worldbody>
  <actuator><motor joint="hinge" gear="2"/></actuator>
</mujoco>"""


def make_stepped(integrator="RK4", substeps=SUBSTEPS, fields=FIELDS):
    torch.set_num_threads(1)
    sim = SteppedSim(tumbler(integrator), NUM_ENV, substeps=substeps, fields=fields)
    qvel = torch.zeros(NUM_ENV, 7, dtype=torch.float64)
    qvel[:, 4] = torch.arange(NUM_ENV)  # each turns otherwise
    sim.set("qvel", torch.ones(NUM_ENV, dtype=torch.bool), qvel)
    sim.forward()
    return sim


def make_datas(sim, integrator):
    model = mujoco.MjModel.from_xml_string(tumbler(integrator))
    datas = [mujoco.MjData(model) for _ in range(NUM_ENV)]
    for data, qvel in zip(datas, sim.get("qvel").numpy(), strict=True):
        data.qvel[:] = qvel
        mujoco.mj_forward(model, data)
    return model, datas


@pytest.mark.parametrize("integrator", ["RK4", "Euler", "implicitfast"])
@pytest.mark.parametrize("substeps", [1, SUBSTEPS])
def test_fields_are_what_mj_step_and_mj_rnepostconstraint_leave(integrator, substeps):
    sim: Sim = make_stepped(integrator, substeps)
    model, datas = make_datas(sim, integrator)
    touched = 0
    for ctrl in 2 * torch.rand(200 // substeps, NUM_ENV, 1, generator=torch.Generator().manual_seed(0)) - 1:
        sim.step(ctrl)
        for world, data in enumerate(datas):
            data.ctrl[:] = ctrl[world]
            mujoco.mj_step(model, data, nstep=substeps)
            mujoco.mj_rnePostConstraint(model, data)
            for name in FIELDS[:-1]:
                assert np.array_equal(sim.get(name)[world], getattr(data, name)), name
            np.testing.assert_allclose(sim.get("cfrc_ext")[world], data.cfrc_ext, rtol=1e-9, atol=1e-9)
            touched += bool(data.cfrc_ext.any())
    assert touched > 20


def test_fields_are_float64_and_positions_are_those_before_the_last_trial():
    sim = make_stepped()
    sim.step(torch.zeros(NUM_ENV, 1))
    assert all(sim.get(name).dtype == torch.float64 for name in FIELDS)
    assert not torch.equal(sim.get("xpos")[:, 1], sim.get("qpos")[:, :3])


def test_contact_forces_do_not_change_how_it_moves():
    without, plain = make_stepped(fields=("qpos", "qvel")), make_stepped()
    native = NativeSim(tumbler("RK4"), NUM_ENV, substeps=SUBSTEPS, fields=("qpos", "qvel"))
    native.load_state_dict({**native.state_dict(), "state": plain.state_dict()["state"]})
    for sim in (without, plain, native):
        for _ in range(40):
            sim.step(torch.ones(NUM_ENV, 1))
    assert torch.equal(without.get("qpos"), plain.get("qpos"))
    assert torch.equal(native.get("qpos"), plain.get("qpos").float())


def test_changed_environments_are_current_without_contact_forces_and_others_stay():
    sim = make_stepped()
    for _ in range(40):
        sim.step(torch.zeros(NUM_ENV, 1))
    before = {name: sim.get(name).clone() for name in FIELDS}
    assert before["cfrc_ext"].flatten(1).any(1).all()
    mask = torch.tensor([True, False, False])
    sim.reset(mask)
    sim.forward()
    assert not sim.get("cfrc_ext")[0].any() and torch.equal(sim.get("xpos")[0, 1], sim.get("qpos")[0, :3])
    assert all(torch.equal(sim.get(name)[1:], before[name][1:]) for name in FIELDS)


def test_a_loaded_state_goes_on_bit_identically():
    sim, other = make_stepped(), make_stepped()
    for _ in range(35):
        sim.step(torch.ones(NUM_ENV, 1))
    other.load_state_dict(sim.state_dict())
    assert all(torch.equal(sim.get(name), other.get(name)) for name in FIELDS)
    mask = torch.tensor([False, True, False])
    for twin in (sim, other):
        twin.reset(mask)
        twin.forward()
        twin.step(torch.zeros(NUM_ENV, 1))
    assert all(torch.equal(sim.get(name), other.get(name)) for name in FIELDS)


def test_failed_environments_are_bad_and_finite_again():
    sim = make_stepped()
    ctrl = torch.zeros(NUM_ENV, 1)
    ctrl[1] = float("nan")
    sim.step(ctrl)
    assert sim.bad().tolist() == [False, True, False]
    sim.step(torch.zeros(NUM_ENV, 1))
    assert not sim.bad().any() and sim.get("cfrc_ext").isfinite().all()


def test_contact_forces_of_other_robots_are_refused():
    model = tumbler("RK4", extra='<body pos="0.3 0 0"><joint/><geom size="0.05"/></body>')
    with pytest.raises(UsageError, match="a motor on each other joint"):
        SteppedSim(model, 1, substeps=1, fields=("cfrc_ext",))
    SteppedSim(model, 1, substeps=1, fields=("qpos",)).close()
