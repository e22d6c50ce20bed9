"""A training that goes on when GMIs die: from its last checkpoint, on what is left."""

from collections.abc import Callable
from typing import Any

from gmi_drl.config.run_config import RunConfig
from gmi_drl.launch.processes.gmi_restarts import Restarts
from gmi_drl.launch.supervisor import Outcome
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder


def train_on(
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    *,
    restarts: int,
    tell: Callable[[str], None],
    **more: Any,
) -> Outcome:
    """As `train`, which is started again after the death of a GMI or a node, up to so many times.

    A lost node is left out: the GMIs of the others take over its environments, as nearly alike as they divide. Worlds
    begin anew where they have moved; a GMI that died alone is started where it was, and all worlds go on from the
    checkpoint. Whom the others can go on without is started again alone, and nothing is lost (`Template.succeeded`).
    Once a signal asks for the end, or the time is over, nobody is started again: the run stands at its checkpoint.

    Args:
        layout: As of `train`.
        config: As of `train`; its time limit is of all starts together.
        folder: As of `train`.
        restarts: How many times at most.
        tell: Told of each restart in a line, with what died, and of a death after which there is none.
        more: Further arguments of `train`.

    Raises:
        GmiDiedError: if there are no restarts left, no checkpoint yet, or no node.
    """
    return train(layout, config, folder, restarts=Restarts(restarts, tell), **more)
