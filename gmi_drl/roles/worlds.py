"""The worlds of a GMI."""

from gmi_drl.config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.tasks import make
from gmi_drl.tasks.task import Task, groups_of


def make_worlds(mgr: GMI_manager, config: RunConfig, num_env: int, seed: int) -> Task:
    """The layout's task in `num_env` worlds, on this GMI's device and cores, as the configuration says.

    Raises:
        UsageError: if they offer what the learner cannot learn from.
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
    )
    if mistakes := config.learner.check(task.spec, groups_of(task)):
        task.close()
        raise UsageError("; ".join(mistakes))
    return task
