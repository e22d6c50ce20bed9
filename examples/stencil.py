"""No reinforcement learning at all (paper section 1): heat spreads over a plate that is cut into strips, one per GMI.

Run it on two cores:  python examples/stencil.py
"""

import torch

import gmi_drl
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

LAYOUT = Layout(
    devices=(Device(kind="cpu", gmis=tuple(GMI(id=i, roles=("trainer",), cores=(i,)) for i in range(2))),),
    groups={"plate": GmiGroup(members=(0, 1), reduction="MPR-shm")},
)


class Strip(gmi_drl.DRL_role):
    """Rows of the plate. A strip's border rows are what its neighbours need of it: they meet in one all-reduce."""

    def GMI_run(self, size: int, steps: int) -> float:
        """Jacobi steps; the top edge of the plate is kept at 1, the others at 0. Returns the heat in this strip."""
        strips, mine = len(self.group.members), self.group.members.index(self.GMI_id)
        plate = torch.zeros(size // strips + 2, size)  # with one halo row above and one below
        for _ in range(steps):
            borders = torch.zeros(strips, 2, size)
            borders[mine] = plate[[1, -2]]
            self.GMI_collective(borders.view(-1))
            plate[0] = 1.0 if mine == 0 else borders[mine - 1, 1]
            plate[-1] = 0.0 if mine == strips - 1 else borders[mine + 1, 0]
            inner = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
            plate[1:-1, 1:-1] = inner / 4
        return plate[1:-1].sum().item()


def on_one_core(size: int, steps: int) -> float:
    """The same plate in one piece, to compare with."""
    plate = torch.zeros(size + 2, size)
    for _ in range(steps):
        plate[0], plate[-1] = 1.0, 0.0
        plate[1:-1, 1:-1] = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
    return plate[1:-1].sum().item()


if __name__ == "__main__":
    heat = gmi_drl.run_role(f"{__file__}:Strip", LAYOUT, {"size": 128, "steps": 200})
    print(f"heat in all: {sum(heat.values()):.3f} on two GMIs, {on_one_core(128, 200):.3f} in one piece")
