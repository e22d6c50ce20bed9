import subprocess
import sys

import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks.sim import NativeSim, Sim

NUM_ENV = 6
FIELDS = ("qpos", "qvel", "xpos", "sensordata")
HOPPER = """
<mujoco>
  <option timestep="0.01" integrator="implicitfast" cone="elliptic"/>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body pos="0 0 0.3"><freejoint/><geom type="sphere" size="0.1"/>
      <body pos="0.1 0 0"><joint name="hinge" axis="0 1 0"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0"/>
        <site name="tip"/></body></body>
  </worldbody>
  <actuator><motor joint="hinge" gear="2"/></actuator>
  <sensor><force site="tip"/></sensor>
</mujoco>"""


def make_sim(threads=1, fields=FIELDS, substeps=2):
    torch.set_num_threads(1)
    return NativeSim(HOPPER, NUM_ENV, substeps=substeps, fields=fields, threads=threads)


def controls(steps, seed=0):
    return torch.rand(steps, NUM_ENV, 1, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def only(*worlds):
    mask = torch.zeros(NUM_ENV, dtype=torch.bool)
    mask[list(worlds)] = True
    return mask


def snapshot(sim):
    return {name: sim.get(name).clone() for name in FIELDS}


def test_fields_are_float32_and_current_from_the_start():
    sim: Sim = make_sim()
    assert {name: tuple(sim.get(name).shape) for name in FIELDS} == {
        "qpos": (NUM_ENV, 8),
        "qvel": (NUM_ENV, 7),
        "xpos": (NUM_ENV, 3, 3),
        "sensordata": (NUM_ENV, 3),
    }
    assert all(sim.get(name).dtype == torch.float32 for name in FIELDS)
    torch.testing.assert_close(sim.get("xpos")[:, 1], torch.tensor([0.0, 0.0, 0.3]).expand(NUM_ENV, 3))


def test_position_fields_describe_the_new_state_after_a_step():
    sim = make_sim()
    for ctrl in controls(5):
        sim.step(ctrl)
    assert torch.equal(sim.get("xpos")[:, 1], sim.get("qpos")[:, :3])


def test_forces_on_bodies_describe_the_new_state_after_a_step():
    sim = make_sim(fields=("qpos", "cfrc_ext"))
    for ctrl in controls(40):
        sim.step(ctrl)
    after_step = sim.get("cfrc_ext").clone()
    assert after_step.abs().max() > 1  # it has landed
    sim.set("qfrc_applied", only(*range(NUM_ENV)), torch.zeros(NUM_ENV, 7))
    sim.forward()
    assert torch.equal(sim.get("cfrc_ext"), after_step)


def test_leaving_out_the_refresh_changes_no_number():
    lean, full = make_sim(fields=("qpos", "qvel", "sensordata")), make_sim()
    for ctrl in controls(40):
        lean.step(ctrl)
        full.step(ctrl)
    assert all(torch.equal(lean.get(name), full.get(name)) for name in ("qpos", "qvel", "sensordata"))
    assert lean.get("sensordata").abs().max() > 0


def test_a_control_step_takes_all_substeps():
    two, one = make_sim(substeps=2), make_sim(substeps=1)
    for ctrl in controls(10):
        two.step(ctrl)
        one.step(ctrl)
        one.step(ctrl)
    assert torch.equal(two.get("qpos"), one.get("qpos"))


def test_threads_do_not_change_the_numbers():
    one, two = make_sim(threads=1), make_sim(threads=2)
    for ctrl in controls(30):
        one.step(ctrl)
        two.step(ctrl)
    assert all(torch.equal(one.get(name), two.get(name)) for name in FIELDS)


def test_set_takes_only_masked_rows():
    sim = make_sim()
    before = snapshot(sim)
    value = before["qpos"] + 1.0
    sim.set("qpos", only(2, 4), value)
    sim.forward()
    assert torch.equal(sim.get("qpos"), torch.where(only(2, 4)[:, None], value, before["qpos"]))
    assert torch.equal(sim.get("xpos")[2, 1], value[2, :3])
    others = ~only(2, 4)
    assert all(torch.equal(sim.get(name)[others], before[name][others]) for name in FIELDS)


def test_reset_restores_the_initial_state_of_masked_rows_only():
    sim = make_sim()
    initial = snapshot(sim)
    for ctrl in controls(20):
        sim.step(ctrl)
    moved = snapshot(sim)
    sim.reset(only(0, 5))
    sim.forward()
    for name in FIELDS:
        assert torch.equal(sim.get(name)[[0, 5]], initial[name][[0, 5]])
        assert torch.equal(sim.get(name)[1:5], moved[name][1:5])


def test_state_dict_continues_bit_identically_with_the_warm_start():
    sim, other, cold = make_sim(), make_sim(), make_sim()
    for ctrl in controls(30):
        sim.step(ctrl)
    state = sim.state_dict()
    other.load_state_dict(state)
    cold.load_state_dict(state)
    cold._batch.bind("qacc_warmstart")[:] = 0
    assert all(torch.equal(other.get(name), sim.get(name)) for name in FIELDS)
    for ctrl in controls(30, seed=1):
        for each in (sim, other, cold):
            each.step(ctrl)
        assert torch.equal(other.state_dict()["state"], sim.state_dict()["state"])
    assert (cold._batch.bind("qpos") != sim._batch.bind("qpos")).any(), "the warm start must matter for this proof"
    assert not torch.equal(state["state"], sim.state_dict()["state"]), "the saved state must be a copy"


def test_restored_environments_keep_their_fields_when_others_are_reset():
    sim, other = make_sim(), make_sim()
    for ctrl in controls(30):
        sim.step(ctrl)
    other.load_state_dict(sim.state_dict())
    for each in (sim, other):
        each.reset(only(2))
        each.forward()
    assert all(torch.equal(other.get(name), sim.get(name)) for name in FIELDS)


def test_state_dict_of_another_size_is_refused():
    sim = make_sim()
    other = NativeSim(HOPPER, 2, substeps=1, fields=FIELDS)
    with pytest.raises(UsageError, match=r"2 environments.*this simulator 6"):
        sim.load_state_dict(other.state_dict())


@pytest.mark.parametrize("field", ["qpos", "qvel"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e11])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_broken_environment_is_bad_once_and_alone(field, value, threads, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    broken, sound = make_sim(threads), make_sim(threads)
    sequence = controls(10)
    for ctrl in sequence[:5]:
        broken.step(ctrl)
        sound.step(ctrl)
    broken.set(field, only(3), torch.full_like(broken.get(field), value))
    reports = []
    for ctrl in sequence[5:]:
        broken.step(ctrl)
        sound.step(ctrl)
        reports.append(broken.bad().clone())
    assert torch.equal(reports[0], only(3))
    assert not torch.stack(reports[1:]).any()
    others = ~only(3)
    for name in FIELDS:
        assert broken.get(name).isfinite().all()
        assert torch.equal(broken.get(name)[others], sound.get(name)[others])
    assert "unstable" in caplog.text
    assert list(tmp_path.iterdir()) == [], "MuJoCo must not write MUJOCO_LOG.TXT"


def test_a_control_that_is_not_finite_makes_its_environment_bad():
    sim = make_sim()
    ctrl = torch.zeros(NUM_ENV, 1)
    ctrl[1] = float("nan")
    sim.step(ctrl)
    assert torch.equal(sim.bad(), only(1))
    assert sim.get("qpos").isfinite().all()
    sim.step(torch.zeros(NUM_ENV, 1))
    assert not sim.bad().any()


def test_a_process_with_broken_environments_ends_cleanly_and_leaves_no_log(tmp_path):
    program = (
        "import torch; from gmi_drl.tasks import make; task = make('ant', num_env=64, threads=2)\n"
        "for _ in range(3): task.step(torch.full((64, 8), float('nan')))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "CTRL" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_and_numbers_say_what_is_right():
    sim = make_sim()
    with pytest.raises(UsageError, match=r"'xquat' is not kept.*qpos"):
        sim.get("xquat")
    with pytest.raises(UsageError, match=r"'xpos' cannot be set.*qvel"):
        sim.set("xpos", only(0), sim.get("xpos"))
    with pytest.raises(UsageError, match="0 and 1"):
        NativeSim(HOPPER, 0, substeps=1, fields=FIELDS)


def test_a_missing_mujoco_names_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MachineError, match=r"pip install 'gmi-drl\[mujoco\]'"):
        make_sim()


def test_closing_twice_is_fine():
    sim = make_sim()
    sim.close()
    sim.close()
