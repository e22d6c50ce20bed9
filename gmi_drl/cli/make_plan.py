"""Plans as `gmi-drl plan` makes them: of an even cut, of a profile, of what is measured here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.output import named_backend, say
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.layout.backends import AUTO

if TYPE_CHECKING:
    from gmi_drl.config.learners import LearnerConfig
    from gmi_drl.hardware.cluster import Cluster
    from gmi_drl.hardware.node import Node
    from gmi_drl.scheduler import Plan
    from gmi_drl.scheduler.objective import Objective
    from gmi_drl.scheduler.profile import Profile
    from gmi_drl.templates import Template

DEFAULT_NUM_ENV = 256
RAY = "ray"
CPU_BUDGET_S = 60
GPU_BUDGET_S = 300


@dataclass(frozen=True)
class Asked:
    """The options of `gmi-drl plan` that decide what is planned, as they were given."""

    task: str
    template: "Template"
    algo: str | None
    num_env: int | None
    gmis_per_gpu: int | None
    backend: str | None
    share_cores: bool
    keep_batch: int | None
    budget: float | None
    fresh: bool
    profile: Path | None
    node: Path | None
    gpus: int | None
    objective: "Objective | None"
    cluster: Path | None = None

    @property
    def goes_by_points(self) -> bool:
        """Whether something is measured, or was: else devices are cut evenly."""
        return self.profile is not None or (self.is_here and self.budget != 0) or self.measures_a_node

    @property
    def measures_a_node(self) -> bool:
        """Whether this machine is measured for a cluster of such: what no profile tells, where time is given for it."""
        return bool(self.template.planner and self.cluster and self.budget)

    @property
    def is_here(self) -> bool:
        """Whether it is this machine that is planned for."""
        return self.node is None and self.cluster is None

    @cached_property
    def nodes(self) -> "Cluster":
        """The cluster that was named.

        Raises:
            UsageError: if it is none, or there is a node beside it.
        """
        from gmi_drl.hardware.cluster import load_cluster

        assert self.cluster is not None
        refuse("--cluster names the nodes", {"--node": self.node, "--gpus": self.gpus})
        if str(self.cluster) == RAY:
            from gmi_drl.launch.ray.describe import described_cluster

            return described_cluster()
        return load_cluster(self.cluster)


def made(asked: Asked, here: "Node") -> "Plan":
    """The plan that was asked for, on this node.

    Raises:
        UsageError: if options contradict each other.
    """
    from gmi_drl.scheduler.backend_choice import unmeasured_choice
    from gmi_drl.templates import usual_gmis_per_gpu

    if asked.template.purpose != "training":
        learnt = {"--algo": asked.algo, "--keep-batch": asked.keep_batch, "--objective": asked.objective}
        refuse("nothing is learnt", learnt)
        refuse(
            f"the points of a profile are of trainings, not of {asked.template.purpose}", {"--profile": asked.profile}
        )
    if asked.template.planner:
        fixed = {"--keep-batch": asked.keep_batch, "--objective": asked.objective, "--profile": asked.profile}
        refuse(f"GMIs of {asked.template.name} are not alike, so each side is measured by itself", fixed)
    require_measurable(asked)
    if asked.keep_batch is not None:
        refuse("with --keep-batch all updates have as many samples", {"--objective": asked.objective})
    if asked.profile is not None:
        return plan_from_profile(asked, here, profile_of(asked))
    shares_cores = {"--share-cores": asked.share_cores or None}
    if asked.goes_by_points:
        refuse("speeds of GMIs that take turns say nothing (--budget 0)", shares_cores)
        return measured_plan(asked, node_of(None) if asked.measures_a_node else here)
    refuse("nothing is measured, so nothing can be held", {"--keep-batch": asked.keep_batch})
    refuse("nothing is measured, so nothing is measured anew", {"--fresh": asked.fresh or None})
    same_for_all = {"--algo": asked.algo, "--objective": asked.objective}
    refuse("nothing is measured, and an even cut is the same for all", same_for_all)
    elsewhere = {} if asked.is_here else {"--budget": asked.budget or None}
    refuse(f"the machine of {asked.node or asked.cluster} cannot be measured here", elsewhere)
    backend = named_backend(asked.backend)
    remarks: tuple[str, ...] = ()
    if backend == AUTO.name and not asked.is_here:  # here GMIs find out when they start
        gmis = asked.gmis_per_gpu or usual_gmis_per_gpu(here)
        backend, why = unmeasured_choice(here, asked.template.purpose, gmis)
        remarks = (why,)
    template = asked.template
    if asked.cluster is not None:
        from gmi_drl.templates.over_nodes import OverNodes

        template = OverNodes(template, asked.nodes)
    return even_plan(asked.task, here, template, asked.num_env, asked.gmis_per_gpu, backend, asked.share_cores, remarks)


def require_measurable(asked: Asked) -> None:
    """Refuse to choose by what one GMI does where GMIs are unlike.

    Raises:
        UsageError: with how a layout by the template is made.
    """
    from gmi_drl.config.learners import OUR_PPO

    if asked.goes_by_points and asked.template.probe(OUR_PPO) is None and not asked.template.planner:
        name = asked.template.name
        raise UsageError(
            f"the GMIs of {name} are unlike, so that none tells by itself how fast a layout is: plan it unmeasured "
            f"(--template {name} --budget 0 --gmis-per-gpu K --num-env N), then run it"
        )


def node_for(asked: Asked) -> "Node":
    """The node that was asked for, of which as many GPUs are used as were asked for.

    Raises:
        UsageError: if it has fewer.
    """
    from gmi_drl.scheduler.gpu_choice import with_gpus

    if asked.cluster is not None:
        return asked.nodes.whole
    node = node_of(asked.node)
    return node if asked.gpus is None else with_gpus(node, asked.gpus)


def profile_of(asked: Asked) -> "Profile":
    """The profile that was named; options that it decides are refused.

    Raises:
        UsageError: if some are given, or the file is none.
    """
    from gmi_drl.scheduler.profile import load_profile

    assert asked.profile is not None
    refuse("--profile measures nothing", {"--budget": asked.budget, "--fresh": asked.fresh or None})
    restricted = {"--num-env": asked.num_env, "--gmis-per-gpu": asked.gmis_per_gpu}
    refuse("the --profile decides that", restricted)
    refuse("what was measured had cores of its own", {"--share-cores": asked.share_cores or None})
    return load_profile(asked.profile)


def refuse(why: str, options: Mapping[str, object]) -> None:
    """Options that contradict another one.

    Raises:
        UsageError: if one of them is not None.
    """
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: {why}: leave it out")


def node_of(node_file: Path | None) -> "Node":
    """The machine in a node file, or this one."""
    if node_file is None:
        from gmi_drl.gmi.inventory import this_node

        return this_node()
    from gmi_drl.files import load_yaml
    from gmi_drl.hardware.node import Node

    return load_yaml(Node, node_file)


def even_plan(
    task: str,
    node: "Node",
    template: "Template",
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str,
    share_cores: bool = False,
    remarks: Sequence[str] = (),
    learner: "LearnerConfig | None" = None,
) -> "Plan":
    """Nothing is measured: every device is cut alike. How GMIs reduce is decided by what was measured here before."""
    from gmi_drl import scheduler
    from gmi_drl.config.run_config import default_config
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.profiler.speeds import known_communication

    num_env = num_env or DEFAULT_NUM_ENV
    spec = task_spec(task)
    learner = learner or default_config(spec, template.usual_learner).learner
    return scheduler.Plan(
        scheduler.plan(
            spec,
            node,
            num_env=num_env,
            gmis_per_gpu=gmis_per_gpu,
            template=template,
            backend=backend,
            share_cores=share_cores,
            remarks=remarks,
            communication=known_communication(spec, learner, node, template, backend),
        )
    )


def plan_from_profile(asked: Asked, node: "Node", profile: "Profile") -> "Plan":
    """The best of what was measured elsewhere that fits this node."""
    from gmi_drl import scheduler
    from gmi_drl.config.run_config import default_config
    from gmi_drl.launch.task_info import require_learnable, task_spec

    spec, learns = task_spec(asked.task), profile.noise is not None and asked.template.purpose == "training"
    objective = asked.objective or ("learning" if learns and asked.keep_batch is None else "steps")
    if objective == "learning" and profile.noise is None:
        remedy = "measure it with `gmi-drl profile --noise`, or take --objective steps"
        raise UsageError(f"{asked.profile} has no gradient noise scale: {remedy}")
    learner = default_config(spec, asked.algo or profile.learner).learner
    require_learnable(learner, asked.task)  # but what it needs is looked for where it shall train
    backend = None if asked.backend in (None, AUTO.name) else named_backend(asked.backend)
    which = (profile, node, learner.horizon, asked.keep_batch, backend)
    if none := scheduler.why_no_grid(*which):
        raise NoFeasiblePlanError(none)
    if asked.cluster is not None:
        return scheduler.plan_cluster(
            spec,
            learner,
            asked.nodes,
            profile,
            template=asked.template,
            keep_batch=asked.keep_batch,
            backend=backend,
            objective=objective,
        )
    grid, remarks = scheduler.profile_grid(*which), list[str]()
    if asked.node is None and backend is None and node.num_gpus:
        from gmi_drl.profiler.backends_here import backends_here

        known = list(dict.fromkeys(cut.backend for cut in grid))
        possible, remarks = backends_here(known, spec, node)
        grid = tuple(cut for cut in grid if cut.backend in possible)
    return scheduler.plan_measured(
        spec, learner, node, profile, grid, template=asked.template, remarks=remarks, objective=objective
    )


def measured_plan(asked: Asked, node: "Node") -> "Plan":
    """The best of what is measured on this machine now."""
    from gmi_drl import scheduler
    from gmi_drl.launch.task_info import usual_config
    from gmi_drl.profiler.backends_here import backends_here
    from gmi_drl.profiler.measured_plan import plan_here
    from gmi_drl.profiler.noise import require_noise_probe
    from gmi_drl.registry import class_at
    from gmi_drl.scheduler.backend_choice import backends_to_try

    spec, config = usual_config(asked.task, asked.algo or asked.template.usual_learner)
    if asked.objective == "learning":
        require_noise_probe(config)
    backends, remarks = backends_here(backends_to_try(asked.backend, node), spec, node)
    grid = scheduler.search_grid(
        node,
        config.learner.horizon,
        gmis_per_gpu=asked.gmis_per_gpu,
        num_env=asked.num_env,
        keep_batch=asked.keep_batch,
        backends=backends,
    )
    for remark in remarks:
        say(remark)
    seconds = asked.budget or (GPU_BUDGET_S if node.num_gpus else CPU_BUDGET_S)
    learns = f" by {config.learner.kind}" if asked.template.purpose == "training" else ""
    say(f"Measuring {spec.name}{learns} on {node.name}, about {seconds:.0f} s at most (--budget)")
    if asked.template.planner:
        plan_by: Callable[..., scheduler.Plan] = class_at(asked.template.planner)
        nodes = asked.nodes if asked.measures_a_node else None
        more = {"seconds": seconds, "fresh": asked.fresh, "tell": say, "remarks": remarks, "cluster": nodes}
        return plan_by(spec, config, node, grid, **more)
    return plan_here(
        spec,
        config,
        node,
        grid,
        template=asked.template,
        seconds=seconds,
        fresh=asked.fresh,
        tell=say,
        remarks=remarks,
        objective=asked.objective,
    )
