"""The simulator on MuJoCo Warp. All tests share one model and a few simulators: making one takes seconds."""

import re
import sys
from functools import cache, partial

import pytest
import torch
from conftest import quick_kernels
from sensed_ant import FIELDS, MODEL, NUM_ENV, TOLERANCES, controls, native_sim, only

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks.ant_mjcf import ant_mjcf
from gmi_drl.tasks.sim import NativeSim

quick_kernels()

import mujoco_warp as mjw  # noqa: E402
import warp as wp  # noqa: E402

from gmi_drl.tasks.sim import WarpSim  # noqa: E402

FORCES = slice(0, 24)


@cache
def shared(which="", fields=FIELDS, **more):
    return WarpSim(MODEL, NUM_ENV, substeps=2, fields=fields, device="cpu", **more)


def warp_sim(*args, **more):
    """A simulator in its initial state, as if it had just been made."""
    sim = shared(*args, **more)
    sim.reset(only(*range(NUM_ENV)))
    sim.forward()
    return sim


def snapshot(sim):
    return {name: sim.get(name).clone() for name in FIELDS}


def assert_close(sim, native):
    for name, tolerance in TOLERANCES.items():
        torch.testing.assert_close(sim.get(name), native.get(name), atol=tolerance, rtol=1e-4)


def test_fields_are_those_of_the_native_simulator_from_the_start_and_after_steps():
    sim, native = warp_sim(), native_sim()
    assert_close(sim, native)
    for ctrl in controls(8):
        sim.step(ctrl)
        native.step(ctrl)
        assert_close(sim, native)
    assert native.get("sensordata")[:, FORCES].abs().max() > 1, "it has landed"


def test_replayed_graphs_compute_what_python_launches():
    graphs, launches = warp_sim(), warp_sim("launches", cuda_graphs=False)
    for ctrl in controls(4):
        for sim in (graphs, launches):
            sim.step(ctrl)
            sim.reset(only(1))
            sim.forward()
        assert all(torch.equal(graphs.get(name), launches.get(name)) for name in FIELDS)


@pytest.mark.parametrize("refused_in", ["capture", "launch"])
def test_graphs_are_made_without_conditional_nodes_where_the_driver_refuses_these(refused_in, monkeypatch, caplog):
    """On a GPU a capture refuses the node, or the first launch the graph that has one."""
    conditional, insert, launch = [], wp.capture_while, wp.capture_launch
    runtime = wp._src.context.runtime

    def capture_while(*args, **more):
        if runtime._apic_capture:
            conditional.append(runtime._apic_graph)
            if refused_in == "capture":
                raise RuntimeError("Warp error: Failed to get built-in conditional kernel")
        insert(*args, **more)

    def capture_launch(graph, **more):
        if graph in conditional:
            raise RuntimeError("Graph creation error: Warp CUDA error 801")
        launch(graph, **more)

    monkeypatch.setattr(wp, "capture_while", capture_while)
    monkeypatch.setattr(wp, "capture_launch", capture_launch)
    sim, native = WarpSim(MODEL, NUM_ENV, substeps=2, fields=FIELDS, device="cpu"), native_sim()
    for ctrl in controls(4):
        sim.step(ctrl)
        native.step(ctrl)
    assert_close(sim, native)
    assert len(set(conditional)) == 1, "nothing is tried twice"
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "all its 10 iterations" in warning and ("built-in" in warning or "801" in warning)


def test_leaving_out_the_refresh_changes_no_number():
    lean_fields = ("qpos", "qvel")
    lean, full = warp_sim("lean", lean_fields), warp_sim()
    for ctrl in controls(10):
        lean.step(ctrl)
        full.step(ctrl)
    assert all(torch.equal(lean.get(name), full.get(name)) for name in lean_fields)


def test_set_takes_only_masked_rows_and_leaves_the_forces_of_the_others():
    sim, native = warp_sim(), native_sim()
    for ctrl in controls(12):
        native.step(ctrl)
    sim.load_state_dict(native.state_dict())
    before = snapshot(sim)
    for each in (sim, native):
        each.set("qpos", only(2, 4), before["qpos"] + 0.1)
        each.set("mocap_pos", only(2), before["mocap_pos"] - 1)
        each.set("ctrl", only(2), before["ctrl"] * 0.5)
        each.forward()
    assert_close(sim, native)
    others = ~only(2, 4)
    assert before["sensordata"][others][:, FORCES].abs().max() > 1
    assert all(torch.equal(sim.get(name)[others], before[name][others]) for name in FIELDS)
    assert torch.equal(sim.get("mocap_pos")[2], before["mocap_pos"][2] - 1)


def test_reset_restores_the_initial_state_of_masked_rows_only():
    sim = warp_sim()
    initial = snapshot(sim)
    sim.set("mocap_pos", only(0, 1), initial["mocap_pos"] + 1)
    sim.forward()
    for ctrl in controls(10):
        sim.step(ctrl)
    moved = snapshot(sim)
    sim.reset(only(0, 5))
    sim.forward()
    for name in FIELDS:
        assert torch.equal(sim.get(name)[[0, 5]], initial[name][[0, 5]])
        assert torch.equal(sim.get(name)[1:5], moved[name][1:5])


def test_state_dict_continues_bit_identically_with_the_warm_start():
    sim, other = warp_sim(), warp_sim("other")
    for ctrl in controls(12):
        sim.step(ctrl)
    state = sim.state_dict()
    other.load_state_dict(state)
    assert all(torch.equal(other.get(name), sim.get(name)) for name in FIELDS)
    for ctrl in controls(12, seed=1):
        sim.step(ctrl)
        other.step(ctrl)
        assert torch.equal(other.state_dict()["state"], sim.state_dict()["state"])
    assert not torch.equal(state["state"], sim.state_dict()["state"]), "the saved state must be a copy"


def test_state_holds_the_warm_start_where_the_native_simulator_keeps_it():
    sim, native = warp_sim(), native_sim()
    for ctrl in controls(12):
        native.step(ctrl)
    assert native._batch.bind("qacc_warmstart").any()
    sim.load_state_dict(native.state_dict())
    torch.testing.assert_close(sim.state_dict()["state"], native.state_dict()["state"].float(), atol=0, rtol=0)
    torch.testing.assert_close(
        torch.as_tensor(sim._data.qacc_warmstart.numpy()),
        torch.as_tensor(native._batch.bind("qacc_warmstart").copy()).float(),
        atol=0,
        rtol=0,
    )


def test_state_dict_of_another_size_is_refused():
    other = NativeSim(MODEL, 2, substeps=1, fields=FIELDS)
    with pytest.raises(UsageError, match=r"2 environments.*this simulator 6"):
        warp_sim().load_state_dict(other.state_dict())


@pytest.mark.parametrize("field", ["qpos", "qvel"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e11])
def test_a_broken_environment_is_bad_once_and_alone(field, value):
    broken, sound = warp_sim(), warp_sim("other")
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
        assert all(broken.get(name).isfinite().all() for name in FIELDS)
    assert torch.equal(reports[0], only(3))
    assert not torch.stack(reports[1:]).any()
    others = ~only(3)
    assert all(torch.equal(broken.get(name)[others], sound.get(name)[others]) for name in FIELDS)


def test_a_broken_environment_begins_anew_without_traces():
    broken, sound = warp_sim(), warp_sim("other")
    broken.set("qvel", only(3), torch.full_like(broken.get("qvel"), float("nan")))
    broken.step(controls(1)[0])
    for ctrl in controls(5, seed=1):
        broken.step(ctrl)
        sound.step(ctrl)
    assert all(torch.equal(broken.get(name)[3], sound.get(name)[3]) for name in FIELDS)


def test_a_control_that_is_not_finite_makes_its_environment_bad():
    sim = warp_sim()
    ctrl = torch.zeros(NUM_ENV, 8)
    ctrl[1, 2] = float("nan")
    sim.step(ctrl)
    assert torch.equal(sim.bad(), only(1))
    sim.step(torch.zeros(NUM_ENV, 8))
    assert not sim.bad().any()


def test_environments_whose_arrays_are_full_are_bad_and_the_setting_is_logged(caplog):
    cramped = warp_sim("cramped", njmax=8)
    lying = cramped.get("qpos").clone()
    lying[:, 2] = 0.3
    cramped.set("qpos", only(4), lying)
    cramped.step(torch.zeros(NUM_ENV, 8))
    assert torch.equal(cramped.bad(), only(4))
    cramped.step(torch.zeros(NUM_ENV, 8))
    assert "NEFC" in caplog.text and "than the present njmax=8: --set warp.njmax=16" in caplog.text
    assert "nconmax" not in caplog.text


def test_the_measured_room_is_enough_for_robots_that_lie_on_the_floor_and_the_same_every_time():
    sim = warp_sim()
    qpos = sim.get("qpos").clone()
    qpos[:, 2] = 0.2
    qpos[:, 7:15] += 3  # beyond the limits, too
    sim.set("qpos", only(*range(NUM_ENV)), qpos)
    sim.step(torch.ones(NUM_ENV, 8))
    assert not sim.bad().any()
    assert sim._room == shared("other")._room


def test_a_step_after_a_refresh_begins_with_its_second_half(monkeypatch):
    lean, refreshing = warp_sim("lean launches", ("qpos", "sensordata"), cuda_graphs=False), warp_sim()
    evaluations = []
    monkeypatch.setattr(mjw, "step1", lambda *worlds, step1=mjw.step1: (evaluations.append(1), step1(*worlds)))

    def counted(does, *given):
        evaluations.clear()
        does(*given)
        return len(evaluations)

    for sim in (lean, refreshing):
        sim.load_state_dict(refreshing.state_dict())
    sequence = controls(12)
    assert [counted(lean.step, ctrl) for ctrl in sequence[:2]] == [2, 1], "its refresh is the first half of the next"
    assert counted(lean.forward) == 1 and counted(lean.step, sequence[2]) == 1
    for change in (partial(lean.set, "ctrl", only(0), sequence[0]), partial(lean.reset, only())):
        change()
        assert counted(lean.step, sequence[3]) == 2, "what was evaluated is of another state"


def test_evaluating_a_state_beforehand_changes_no_number():
    ahead, plain = warp_sim(), warp_sim("other")
    for ctrl in controls(12):
        ahead.forward()
        ahead.step(ctrl)
        plain.load_state_dict(plain.state_dict())
        plain.step(ctrl)
        assert all(torch.equal(ahead.get(name), plain.get(name)) for name in FIELDS)


def test_accumulating_sensors_have_the_same_value_after_a_refresh():
    sphere = """<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
    <body pos="0 0 0.09"><freejoint/><geom type="sphere" size="0.1"/><site name="s" type="sphere" size="0.2"/></body>
    </worldbody><sensor><touch site="s"/></sensor></mujoco>"""
    ahead, plain = (
        WarpSim(sphere, 1, substeps=1, fields=("sensordata",), device="cpu", cuda_graphs=False) for _ in range(2)
    )
    for _ in range(3):
        ahead.forward()
        for sim in (ahead, plain):
            sim.step(torch.zeros(1, 0))
        assert ahead.get("sensordata") > 1 and torch.equal(ahead.get("sensordata"), plain.get("sensordata"))
    ahead.close(), plain.close()


def test_a_refresh_solves_for_forces_only_where_a_field_needs_them(monkeypatch):
    model = ant_mjcf()
    without = re.sub("<sensor>.*</sensor>", '<sensor><jointpos joint="hip_0"/></sensor>', model, flags=re.DOTALL)
    solved = []
    monkeypatch.setattr(mjw, "solve", lambda *worlds, solve=mjw.solve: (solved.append(1), solve(*worlds)))
    for xml, fields in ((model, ("sensordata",)), (without, ("sensordata",)), (without, ("qacc",))):
        WarpSim(xml, 1, substeps=1, fields=fields, device="cpu", cuda_graphs=False).close()
        solved.append(0)
    assert solved == [1, 0, 0, 1, 0]


def test_an_integrator_without_halves_is_refused():
    with pytest.raises(UsageError, match=r"EULER, IMPLICIT, IMPLICITFAST.*RK4"):
        WarpSim(ant_mjcf().replace("implicitfast", "RK4"), 1, substeps=1, fields=FIELDS, device="cpu")


def test_wrong_names_and_numbers_say_what_is_right():
    sim = warp_sim()
    with pytest.raises(UsageError, match=r"'xquat' is not kept.*qpos"):
        sim.get("xquat")
    with pytest.raises(UsageError, match=r"'xpos' cannot be set.*qvel"):
        sim.set("xpos", only(0), sim.get("xpos"))
    with pytest.raises(UsageError, match="is 0"):
        WarpSim(MODEL, 0, substeps=1, fields=FIELDS, device="cpu")


def test_a_missing_package_names_the_install_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "gmi_drl.tasks.sim.warp")
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)
    with pytest.raises(MachineError, match=r"pip install 'gmi-drl\[warp\]'"):
        from gmi_drl.tasks.sim import WarpSim  # noqa: F401


def test_closing_twice_is_fine():
    sim = WarpSim(MODEL, 1, substeps=1, fields=("qpos",), device="cpu", cuda_graphs=False)
    sim.close()
    sim.close()
