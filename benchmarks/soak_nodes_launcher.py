"""A launcher for `soak_nodes.py`: trains over nodes a and b until it is stopped, or goes on for two iterations.

python benchmarks/soak_nodes_launcher.py RUN ray|ADDRESS,SPACE,SPACE [resume]
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.launch.nodes.starters import AgentStarter
    from gmi_drl.layout import Layout

RAY = "ray"
HANG_S = 20.0
"""For which GMIs wait for one that is stopped."""


@contextmanager
def agents_of(how: str, layout: "Layout") -> "Iterator[AgentStarter | None]":
    """By Ray, or as processes in the namespaces."""
    from gmi_drl.launch.launchers import agents_by
    from gmi_drl.launch.nodes.starters import SubprocessAgents

    if how == RAY:
        with agents_by(RAY, layout) as agents:
            yield agents
        return
    address, *spaces = how.split(",")
    yield SubprocessAgents(
        {node: ["ip", "netns", "exec", space] for node, space in zip("ab", spaces, strict=True)}, address
    )


def main() -> None:
    """Train."""
    from gmi_drl.config import RunConfig
    from gmi_drl.launch.training import train
    from gmi_drl.layout import GMI, Device, GmiGroup, Layout
    from gmi_drl.learners import PPOConfig
    from gmi_drl.run.checkpoint import list_checkpoints
    from gmi_drl.run.folder import RunFolder

    path, how, *more = sys.argv[1:]
    resumes = more == ["resume"]
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
        iterations=int(saved.name) + 2 if saved else 10**6, checkpoint_every=5, hang_s=HANG_S, learner=learner
    )
    if not resumes:
        folder.create()
    with agents_of(how, layout) as agents:
        train(
            layout, config, folder, resume=saved, agents=agents, on_row=lambda row: print(row["iteration"], flush=True)
        )


if __name__ == "__main__":
    main()
