"""The paper's Listing 1, completed with a body: GMIs average what they have measured, and send it to one of them.

Run it on two cores:  python examples/first_role.py
"""

import time
from typing import Any

import torch

import gmi_drl as GMI_DRL
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

# What the paper sets in GMI_DRL.config (number of GPUs, backend, reduction) is the layout's here.
LAYOUT = Layout(
    backend="process",
    devices=(Device(kind="cpu", gmis=tuple(GMI(id=i, roles=("trainer",), cores=(i,)) for i in range(2))),),
    groups={"trainers": GmiGroup(members=(0, 1), reduction="MPR-shm")},
)


class DRL_role:
    """A role needs no base class; `GMI_DRL.DRL_role` offers this constructor and the three calls ready-made."""

    def __init__(self, GMI_id: int, role: str, gpu_id: int) -> None:
        self.GMI_id = GMI_id
        self.role = role
        self.mgr = GMI_DRL.GMI_manager.add_GMI(GMI_id)
        self.mgr.set_GPU(GMI_id, gpu_id)
        self.group = self.mgr.get_group(GMI_id, GMI_id)

    def GMI_run(self, size: int, rounds: int) -> dict[str, Any]:
        """Measure a matrix product again and again, tell everybody the mean and GMI 0 all of it."""
        matrix = torch.randn(size, size)
        times, mean_s = torch.zeros(rounds), torch.zeros(1)
        for number in range(rounds):
            started = time.perf_counter()
            matrix @ matrix
            times[number] = time.perf_counter() - started
            self.GMI_collective(mean_s.copy_(times[number : number + 1]))
            mean_s /= len(self.group.members)
        told = {"own_cores": len(self.mgr.gmi.cores), "mean_ms": 1000 * mean_s.item()}
        if self.GMI_id != 0:
            self.GMI_send({"who": self.role, "times": times}, 0).wait()
            return told
        heard = [self.GMI_recv(other)["times"] for other in self.group.members if other != 0]
        return told | {"slowest_ms": 1000 * torch.stack([times, *heard]).max().item()}

    def GMI_collective(self, data: torch.Tensor) -> None:
        """Sum in place over the group."""
        self.mgr.allreduce(data, self.group)

    def GMI_send(self, data: Any, dst_GMI_id: int) -> Any:
        """Send a tree of tensors, which is copied at once; `wait()` on what it returns for its arrival."""
        return self.mgr.send(data, dst_GMI_id)

    def GMI_recv(self, src_GMI_id: int) -> Any:
        """What another GMI has sent."""
        return self.mgr.recv(src_GMI_id)


if __name__ == "__main__":
    for GMI_id, result in GMI_DRL.run_role(f"{__file__}:DRL_role", LAYOUT, {"size": 256, "rounds": 5}).items():
        print(f"GMI {GMI_id}: {result}")
