import gc

import pytest
import torch

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import default_config
from gmi_drl.cuda_graph import WARM_UP_CALLS, Captured, forget_shared_memory
from gmi_drl.roles.probes.probe import _forget_peak
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")
MIB = 2**20


def reserved():
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(CUDA)


def captured_over(megabytes):
    data = torch.zeros(megabytes * MIB // 4, device=CUDA)
    work = Captured(lambda: data.add_((data.sin() * 2).cos()), CUDA)
    for _ in range(WARM_UP_CALLS + 2):
        work()
    return work


def test_memory_of_graphs_goes_back_when_it_is_forgotten_and_others_can_be_made():
    before = reserved()
    for megabytes in (256, 64):
        work = captured_over(megabytes)
        assert reserved() > before + megabytes * MIB
        del work
        forget_shared_memory()
        assert reserved() <= before + 16 * MIB


def test_environments_that_a_probe_has_left_take_no_memory_from_the_next():
    """Native physics: all that is measured here is torch's."""
    spec, left = TASK_SPECS["ant"], []
    replica = PPOReplica(spec, default_config(spec), NoReduction(device=CUDA), sample_share=1.0, device=CUDA, seed=0)
    for num_env in (16, 4096, 16):  # the first pays for what stays with a process
        replica.attach_task(make("ant", num_env=num_env, device="cuda", physics="native"), seed=0)
        for _ in range(replica.warm_up_iterations + 1):
            replica.iterate(lambda: Decision.GO_ON)
        replica.detach_task()
        _forget_peak(CUDA)
        left.append(torch.cuda.memory_reserved(CUDA))
    assert left[1] <= left[0] + 32 * MIB and left[2] <= left[0] + 32 * MIB
