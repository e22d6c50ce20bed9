import pytest
import torch
from sensed_ant import FIELDS, MODEL, NUM_ENV, TOLERANCES, controls, native_sim, only

from gmi_drl.sim import NativeSim
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

pytestmark = pytest.mark.gpu


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
    from gmi_drl.sim import WarpSim

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


@pytest.mark.parametrize("name", TASK_SPECS)
def test_a_task_by_graphs_tells_what_it_tells_without(name):
    tasks = [make(name, num_env=64, device="cuda", physics="native", cuda_graphs=graphs) for graphs in (True, False)]
    for task in tasks:
        task.episode_length.copy_(torch.arange(64) + task.spec.episode_steps - 64)  # some end in every step
    actions = torch.randn(12, 64, tasks[0].spec.num_actions, generator=torch.Generator().manual_seed(0)).cuda()
    for action in actions:
        (*told, info), (*plain, other) = (task.step(action) for task in tasks)
        assert all(map(torch.equal, (*told, *info.values()), (*plain, *other.values())))
    assert plain[3].any()
