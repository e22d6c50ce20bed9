"""A role of `test_mps_on_gpu.py`."""

import os

import torch

from gmi_drl import DRL_role


class Sums(DRL_role):
    """Computes on its GPU, and tells what it sees of it."""

    def GMI_run(self, rounds=50):
        left = torch.ones(1024, 1024, device=self.mgr.device)
        for _ in range(rounds):
            left = (left @ left).clamp_(0, 1)
        return {
            "sum": left.sum().item(),
            "sms": torch.cuda.get_device_properties(0).multi_processor_count,
            "percentage": os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        }
