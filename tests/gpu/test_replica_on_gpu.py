import pytest
import torch

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import default_config
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import make

pytestmark = pytest.mark.gpu


def test_neither_a_rollout_nor_an_update_nor_the_normaliser_waits_for_the_device():
    pytest.importorskip("mujoco_warp", reason="needs the extra [warp]")
    device = torch.device("cuda")
    task = make("ant", num_env=64, device="cuda", physics="warp")
    replica = PPOReplica(
        task.spec, default_config(task.spec), NoReduction(device=device), sample_share=1.0, device=device, seed=0
    )
    replica.attach_task(task, seed=0)
    slots, ppo = [replica.slot, replica.actor.make_slot()], replica.learner.updater
    deltas = torch.ones(2, len(replica.slot.rollout.delta), dtype=torch.float64)
    order = torch.randperm(replica.slot.rollout.transitions, device=device)
    for mode in (*["default"] * replica.warm_up_iterations, "error"):  # captures wait
        torch.cuda.set_sync_debug_mode(mode)
        try:
            for slot in slots:
                replica.actor.collect(slot, replica.clock)
                slot.rollout.normalise_advantages(0.0, 1.0)
                ppo.update(slot.rollout, order)
                replica.learner.agent.normaliser.merge(deltas)
        finally:
            torch.cuda.set_sync_debug_mode("default")
