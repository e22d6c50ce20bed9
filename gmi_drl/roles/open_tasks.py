"""The tasks of a GMI: opened for its role, and closed when the role has ended or goes on with others."""

import traceback
from typing import Protocol

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.tasks import make
from gmi_drl.tasks.task import Task, groups_of
from gmi_drl.workload import TaskSpec


class Closable(Protocol):
    """A task, or anything else that simulates."""

    spec: TaskSpec

    def close(self) -> None:
        """See `Task.close`."""


def open_task(mgr: GMI_manager, config: RunConfig, num_env: int, seed: int) -> Task:
    """The layout's task with `num_env` environments, on this GMI's device and cores, as the configuration says.

    The process closes it when the role has ended, however it ended.

    Raises:
        UsageError: if its observations lack what the learner needs.
    """
    assert mgr.layout.task is not None
    task = make(
        mgr.layout.task,
        num_env=num_env,
        device=str(mgr.device),
        seed=seed,
        threads=len(mgr.gmi.cores),
        physics=config.physics,
        cuda_graphs=config.cuda_graphs,
        room=config.warp,
        tells_terms=config.reward_terms,
        settings=config.task,
    )
    mgr.tasks.append(task)
    if mistakes := config.learner.check(task.spec, groups_of(task)):
        raise UsageError("; ".join(mistakes))
    return task


def close_tasks(tasks: list[Closable]) -> str:
    """Close these tasks and empty the list. Returns the errors in one line; empty if there were none.

    All are closed, even if some fail. A `close` that hangs is not ended here, but by the launcher.
    """
    complaints = []
    while tasks:
        task = tasks.pop()
        try:
            task.close()
        except Exception as error:
            traceback.print_exc()
            complaints.append(f"{task.spec.name} failed to close: {type(error).__name__}: {error}")
    return "; ".join(complaints)
