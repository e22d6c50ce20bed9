"""Plans as `gmi-drl plan` makes them: of an even cut, of a profile, of what is measured here."""

from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.output import say

if TYPE_CHECKING:
    from gmi_drl.hardware import Node
    from gmi_drl.profile import Profile
    from gmi_drl.scheduler import Plan
    from gmi_drl.templates import Template

DEFAULT_NUM_ENV = 256
CPU_BUDGET_S = 60
GPU_BUDGET_S = 300


def node_of(node_file: Path | None) -> "Node":
    """The machine in a node file, or this one."""
    if node_file is None:
        from gmi_drl.gmi.inventory import this_node

        return this_node()
    from gmi_drl.files import load_yaml
    from gmi_drl.hardware import Node

    return load_yaml(Node, node_file)


def even_plan(
    task: str,
    node: "Node",
    template: "Template",
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str,
    share_cores: bool = False,
) -> "Plan":
    """Nothing is measured: every device is cut alike."""
    from gmi_drl import scheduler
    from gmi_drl.launch.describe import task_spec

    num_env = num_env or DEFAULT_NUM_ENV
    spec = task_spec(task)
    return scheduler.Plan(
        scheduler.plan(
            spec,
            node,
            num_env=num_env,
            gmis_per_gpu=gmis_per_gpu,
            template=template,
            backend=backend,
            share_cores=share_cores,
        )
    )


def plan_from_profile(
    task: str, node: "Node", template: "Template", algo: str, profile: "Profile", keep_batch: int | None
) -> "Plan":
    """The best of what was measured elsewhere that fits this node."""
    from gmi_drl import scheduler
    from gmi_drl.config import default_config
    from gmi_drl.launch.describe import task_spec
    from gmi_drl.launch.learnable import require_learnable

    spec = task_spec(task)
    learner = default_config(spec, algo).learner
    require_learnable(learner, task)  # but what it needs is looked for where it shall train
    grid = scheduler.profile_grid(profile, node, learner.horizon, keep_batch)
    return scheduler.plan_measured(spec, learner, node, profile, grid, template=template)


def measured_plan(
    task: str,
    node: "Node",
    template: "Template",
    algo: str,
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str,
    keep_batch: int | None,
    budget: float | None,
    fresh: bool,
) -> "Plan":
    """The best of what is measured on this machine now."""
    from gmi_drl import scheduler
    from gmi_drl.launch.learnable import usual_config
    from gmi_drl.profiler.planning import plan_here

    spec, config = usual_config(task, algo)
    grid = scheduler.search_grid(
        node,
        config.learner.horizon,
        gmis_per_gpu=gmis_per_gpu,
        num_env=num_env,
        keep_batch=keep_batch,
        backend=backend,
    )
    seconds = budget or (GPU_BUDGET_S if node.num_gpus else CPU_BUDGET_S)
    learns = f" by {config.learner.kind}" if template.purpose == "training" else ""
    say(f"Measuring {spec.name}{learns} on {node.name}, about {seconds:.0f} s at most (--budget)")
    return plan_here(spec, config, node, grid, template=template, seconds=seconds, fresh=fresh, tell=say)
