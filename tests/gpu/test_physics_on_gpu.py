import pytest
import torch
from sensed_ant import FIELDS, MODEL, NUM_ENV, TOLERANCES, controls, native_sim, only

from gmi_drl.tasks import make
from gmi_drl.tasks.sim import NativeSim
from gmi_drl.workload import TASK_SPECS

pytestmark = pytest.mark.gpu
N = 64


def test_native_physics_hands_out_the_same_numbers():
    host = native_sim()
    device = NativeSim(MODEL, NUM_ENV, substeps=2, fields=FIELDS, device="cuda")
    for ctrl in controls(10):
        host.step(ctrl)
        device.step(ctrl.cuda())
        assert all(torch.equal(device.get(name).cpu(), host.get(name)) for name in FIELDS)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("side_stream", [True, False])
def test_warp_computes_what_the_cores_compute(graphs, side_stream):
    pytest.importorskip("mujoco_warp", reason="needs the extra [warp]")
    from gmi_drl.tasks.sim import WarpSim

    native = native_sim()
    with torch.cuda.stream(torch.cuda.Stream() if side_stream else torch.cuda.default_stream()):
        sim = WarpSim(MODEL, NUM_ENV, substeps=2, fields=FIELDS, device="cuda", cuda_graphs=graphs)
        for ctrl in controls(8):
            native.step(ctrl)
            sim.step(ctrl.cuda())
            for name, tolerance in TOLERANCES.items():
                torch.testing.assert_close(sim.get(name).cpu(), native.get(name), atol=10 * tolerance, rtol=1e-3)
        sim.reset(only(1).cuda())
        native.reset(only(1))
        sim.forward()
        native.forward()
        torch.testing.assert_close(sim.get("qpos").cpu(), native.get("qpos"), atol=1e-4, rtol=1e-3)
        assert not sim.bad().any()
        sim.close()


def test_graphs_are_captured_again_without_conditional_nodes(monkeypatch, caplog):
    """As where the driver refuses the nodes: within the capture, of which nothing may be left."""
    wp = pytest.importorskip("warp", reason="needs the extra [warp]")
    pytest.importorskip("mujoco_warp", reason="needs the extra [warp]")
    from gmi_drl.tasks.sim import WarpSim

    insert = wp.capture_while

    def refuse(condition, *args, **more):
        if wp.get_stream(condition.device).is_capturing:
            raise RuntimeError("refused")
        insert(condition, *args, **more)

    monkeypatch.setattr(wp, "capture_while", refuse)
    sim, native = WarpSim(MODEL, NUM_ENV, substeps=2, fields=FIELDS, device="cuda"), native_sim()
    assert "because graphs with conditional nodes fail: refused" in caplog.text
    for ctrl in controls(8):
        native.step(ctrl)
        sim.step(ctrl.cuda())
        for name, tolerance in TOLERANCES.items():
            torch.testing.assert_close(sim.get(name).cpu(), native.get(name), atol=10 * tolerance, rtol=1e-3)
    sim.close()


def pair_of(name, physics, **more):
    """The same task by graphs and without, in which some episodes end in every step."""
    if physics == "warp":
        pytest.importorskip("mujoco_warp", reason="needs the extra [warp]")
    for graphs in (True, False):
        task = make(name, num_env=N, device="cuda", physics=physics, cuda_graphs=graphs, **more)
        task.episode_length.copy_(torch.arange(N) + task.spec.episode_steps - N)
        yield task


def random_actions(task, steps):
    return torch.randn(steps, N, task.spec.action.size, generator=torch.Generator().manual_seed(0)).cuda()


@pytest.mark.parametrize("name", TASK_SPECS)
def test_a_task_returns_the_same_with_and_without_graphs(name):
    tasks = [*pair_of(name, "native", tells_terms=True)]
    for action in random_actions(tasks[0], 12):
        (*told, info), (*plain, other) = (task.step(action) for task in tasks)
        assert all(map(torch.equal, (*told, *info.values()), (*plain, *other.values())))
    assert plain[3].any()
    torch.testing.assert_close(*(task.reward_terms.pop_sums() for task in tasks))


@pytest.mark.parametrize("name", TASK_SPECS)
def test_a_task_on_warp_returns_the_same_with_graphs_as_far_as_warp_is_deterministic(name):
    tasks = [*pair_of(name, "warp")]
    for action in random_actions(tasks[0], 12):
        (obs, _, _, truncated, info), (plain, _, _, late, other) = (task.step(action) for task in tasks)
        assert torch.equal(truncated & ~info["bad"], late & ~other["bad"]) and late.any()
        assert torch.equal(tasks[0].episode_length[late], tasks[1].episode_length[late])
        for field in ("qpos", "qvel", "mocap_pos", "mocap_quat"):  # of the noise alone, where an episode has begun
            assert torch.equal(*(task._sim._state[field][late] for task in tasks))
        torch.testing.assert_close(obs[late], plain[late], atol=1e-2, rtol=1e-2)
        tasks[1].load_state_dict(tasks[0].state_dict())  # forces of contacts differ in the last bits, and grow apart


def test_a_task_by_graphs_goes_on_from_a_state_and_after_a_reset():
    task, _ = pair_of("ant", "native")
    first, *rest = random_actions(task, 12)
    state = task.state_dict()
    told = [task.step(action)[0].clone() for action in rest]
    task.reset()
    task.step(first)
    task.load_state_dict(state)
    with torch.inference_mode():
        again = [task.step(action)[0].clone() for action in rest]
    assert all(map(torch.equal, told, again))
