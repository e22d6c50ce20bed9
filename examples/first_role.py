"""The paper's Listing 1, completed with a body: every GMI averages what all have measured.

Run it on two cores:  python examples/first_role.py
"""

import time

import torch

import gmi_drl as GMI_DRL
from gmi_drl.layout import GMI, Device, GmiGroup, Layout

# What the paper sets in GMI_DRL.config (number of GPUs, backend, reduction) is the layout's here.
LAYOUT = Layout(
    backend="process",
    devices=(Device(kind="cpu", gmis=tuple(GMI(id=i, roles=("trainer",), cores=(i,)) for i in range(2))),),
    groups={"trainers": GmiGroup(members=(0, 1), reduction="MPR-shm")},
)


class DRL_role:
    """A role needs no base class; `GMI_DRL.DRL_role` offers this constructor and `GMI_collective` ready-made."""

    def __init__(self, GMI_id: int, role: str, gpu_id: int) -> None:
        self.GMI_id = GMI_id
        self.role = role
        self.mgr = GMI_DRL.GMI_manager.add_GMI(GMI_id)
        self.mgr.set_GPU(GMI_id, gpu_id)
        self.group = self.mgr.get_group(GMI_id, GMI_id)

    def GMI_run(self, size: int, rounds: int) -> dict[str, float]:
        """Measure a matrix product again and again, and tell everybody."""
        matrix = torch.randn(size, size)
        mean_s = torch.zeros(1)
        for _ in range(rounds):
            started = time.perf_counter()
            matrix @ matrix
            mean_s = self.GMI_collective(torch.tensor([time.perf_counter() - started]))
        return {"own_cores": len(self.mgr.gmi.cores), "mean_ms": 1000 * mean_s.item()}

    def GMI_collective(self, data: torch.Tensor) -> torch.Tensor:
        """The mean over the group."""
        self.mgr.allreduce(data, self.group)  # sums in place
        return data / len(self.group.members)


if __name__ == "__main__":
    for GMI_id, result in GMI_DRL.run_role(f"{__file__}:DRL_role", LAYOUT, {"size": 256, "rounds": 5}).items():
        print(f"GMI {GMI_id}: {result}")
