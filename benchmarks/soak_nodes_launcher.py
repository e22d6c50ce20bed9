"""A launcher for `soak_nodes.py`: trains over nodes a and b until it is stopped, or goes on for two iterations."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from networks import TwoHosts


def prefixes_of(hosts: "TwoHosts") -> list[str]:
    """Its arguments: the launcher's address and the namespaces."""
    return [hosts.address, *hosts.spaces.values()]


def main() -> None:
    """Train."""
    from gmi_drl.config import RunConfig
    from gmi_drl.launch.nodes.starters import SubprocessAgents
    from gmi_drl.launch.training import train
    from gmi_drl.layout import GMI, Device, GmiGroup, Layout
    from gmi_drl.learners import PPOConfig
    from gmi_drl.run.checkpoint import list_checkpoints
    from gmi_drl.run.folder import RunFolder

    path, address, *spaces = sys.argv[1:5]
    resumes = sys.argv[5:] == ["resume"]
    agents = SubprocessAgents(
        {node: ["ip", "netns", "exec", space] for node, space in zip("ab", spaces, strict=True)}, address
    )
    devices = tuple(
        Device(
            node=node,
            kind="cpu",
            gmis=tuple(GMI(id=2 * place + number, num_env=8, cores=(0,)) for number in (0, 1)),
        )
        for place, node in enumerate("ab")
    )
    everyone = GmiGroup(members=(0, 1, 2, 3), reduction="HAR")
    layout = Layout(task="ant", template="TCG_EX", share_cores=True, devices=devices, groups={"trainers": everyone})
    folder = RunFolder(Path(path))
    saved = list_checkpoints(folder.checkpoints)[-1] if resumes else None
    learner = PPOConfig(horizon=4, epochs=2, minibatches=2)
    config = RunConfig(
        iterations=int(saved.name) + 2 if saved else 10**6, checkpoint_every=5, hang_s=60, learner=learner
    )
    if not resumes:
        folder.create()
    train(layout, config, folder, resume=saved, agents=agents, on_row=lambda row: print(row["iteration"], flush=True))


if __name__ == "__main__":
    main()
