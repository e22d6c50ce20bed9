"""Make the plan that the options of `gmi-drl plan` ask for: an even cut, from a profile, or by measuring here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.options import named_backend
from gmi_drl.cli.output import say
from gmi_drl.cli.plan_options import PlanOptions, refuse
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.layout.backends import AUTO

if TYPE_CHECKING:
    from gmi_drl.config.learners import LearnerConfig
    from gmi_drl.config.task_section import TaskSettings
    from gmi_drl.hardware.node import Node
    from gmi_drl.scheduler import Plan
    from gmi_drl.scheduler.profile import Profile
    from gmi_drl.templates import Template
    from gmi_drl.workload import TaskSpec

DEFAULT_NUM_ENV = 256
IMAGES_NUM_ENV = 8
"""Environments of a GMI unless told; the second of images."""

CPU_BUDGET_S = 60
GPU_BUDGET_S = 300


def make_plan(options: PlanOptions, here: "Node") -> "Plan":
    """Make the plan for the node `here`.

    Raises:
        UsageError: if options contradict each other or the task.
    """
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.scheduler.backend_choice import unmeasured_choice

    if options.template.purpose != "training":
        learnt = {"--algo": options.algo, "--keep-batch": options.keep_batch, "--objective": options.objective}
        refuse(f"--template {options.template.name} learns nothing", learnt)
        refuse(f"a profile measures training, not {options.template.purpose}", {"--profile": options.profiles or None})
    if options.template.profile_planner and options.profiles:
        return plan_from_profiles(options, here)
    if options.template.planner:
        fixed = {"--keep-batch": options.keep_batch, "--objective": options.objective, "--profile": options.profile}
        refuse(f"the GMIs of {options.template.name} differ, so agents and trainers are measured separately", fixed)
    require_measurable(options)
    if options.keep_batch is not None:
        refuse("with --keep-batch every layout has the same samples per update", {"--objective": options.objective})
    if options.profile is not None:
        return plan_from_profile(options, here, profile_of(options))
    shares_cores = {"--share-cores": options.share_cores or None}
    if options.uses_measurements:
        refuse("the speed of GMIs that share cores says nothing (try --budget 0)", shares_cores)
        return measured_plan(options, node_of(None) if options.measures_for_cluster else here)
    refuse("nothing is measured, so no batch size can be kept", {"--keep-batch": options.keep_batch})
    refuse("nothing is measured, so nothing is measured anew", {"--fresh": options.fresh or None})
    same_for_all = {"--algo": options.algo, "--objective": options.objective}
    refuse("nothing is measured, and an even cut is the same for all", same_for_all)
    elsewhere = {} if options.is_here else {"--budget": options.budget or None}
    refuse(f"the machine of {options.node or options.cluster} cannot be measured here", elsewhere)
    backend = named_backend(options.backend)
    template, remarks = options.template, tuple[str, ...]()
    if options.cluster is not None:
        from gmi_drl.templates.over_nodes import OverNodes

        template = OverNodes(template, options.nodes)
    if backend == AUTO.name and not options.is_here:  # on this machine GMIs find out when they start
        gmis = options.gmis_per_gpu or template.usual_gmis_per_gpu(here)
        backend, why = unmeasured_choice(here, options.template.purpose, gmis)
        remarks = (why,)
    if options.num_env:
        task_spec(options.task, options.played).require_whole_worlds(options.num_env)
    return even_plan(
        options.task,
        here,
        template,
        options.num_env,
        options.gmis_per_gpu,
        backend,
        options.share_cores,
        remarks,
        played=options.played,
    )


def require_measurable(options: PlanOptions) -> None:
    """Check that measuring one GMI tells how fast a layout of the template is.

    Raises:
        UsageError: if its GMIs differ, with the command that plans without measuring.
    """
    from gmi_drl.config.learners import OUR_PPO

    if options.uses_measurements and options.template.probe(OUR_PPO) is None and not options.template.planner:
        name = options.template.name
        raise UsageError(
            f"the GMIs of {name} differ, so measuring one does not tell how fast a layout is: plan without measuring, "
            f"by gmi-drl plan --template {name} --budget 0 --gmis-per-gpu K --num-env N"
        )


def planned_node(options: PlanOptions) -> "Node":
    """The node that is planned for, with as many of its GPUs as --gpus says.

    Raises:
        UsageError: if it has fewer GPUs.
    """
    from gmi_drl.scheduler.gpu_choice import with_gpus

    if options.cluster is not None:
        by_kind = options.template.profile_planner and options.profiles  # unlike machines, which have no whole
        return options.nodes.nodes[0].kind if by_kind else options.nodes.whole
    node = node_of(options.node)
    return node if options.gpus is None else with_gpus(node, options.gpus)


def profile_of(options: PlanOptions) -> "Profile":
    """Read the profile of --profile.

    Raises:
        UsageError: if it is no profile, or options are given that it decides.
    """
    from gmi_drl.scheduler.profile import load_profile

    assert options.profile is not None
    refuse("--profile measures nothing", {"--budget": options.budget, "--fresh": options.fresh or None})
    restricted = {"--num-env": options.num_env, "--gmis-per-gpu": options.gmis_per_gpu}
    refuse("the --profile decides that", restricted)
    refuse("GMIs of a --profile had cores of their own", {"--share-cores": options.share_cores or None})
    return load_profile(options.profile)


def usual_num_env(task: "TaskSpec") -> int:
    """Environments of a GMI unless told: whole worlds."""
    return task.whole_worlds(IMAGES_NUM_ENV if task.observation.of_kind("image") else DEFAULT_NUM_ENV)


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
    played: "TaskSettings | None" = None,
) -> "Plan":
    """Cut every device alike, without measuring. The reduction is chosen by what was measured here before."""
    from gmi_drl import scheduler
    from gmi_drl.config.run_config import default_config
    from gmi_drl.config.task_section import USUAL_SETTINGS
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.profiler.speeds import known_communication

    spec = task_spec(task, played or USUAL_SETTINGS)
    num_env = num_env or usual_num_env(spec)
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


def plan_from_profile(options: PlanOptions, node: "Node", profile: "Profile") -> "Plan":
    """The plan of the profile's best point that fits the node."""
    from gmi_drl import scheduler
    from gmi_drl.config.run_config import default_config
    from gmi_drl.config.task_names import find_task
    from gmi_drl.launch.task_info import require_learnable, sizes_of

    found = find_task(options.task)
    spec, learns = sizes_of(found, options.played), profile.noise is not None and options.template.purpose == "training"
    objective = options.objective or ("learning" if learns and options.keep_batch is None else "steps")
    if objective == "learning" and profile.noise is None:
        remedy = "measure it with `gmi-drl profile --noise`, or take --objective steps"
        raise UsageError(f"{options.profile} has no gradient noise scale: {remedy}")
    learner = default_config(spec, options.algo or profile.learner).learner
    require_learnable(learner, found, spec)  # the machine that trains needs its packages, not this one
    backend = None if options.backend in (None, AUTO.name) else named_backend(options.backend)
    which = (profile, node, learner.horizon, options.keep_batch, backend)
    if none := scheduler.why_no_grid(*which):
        raise NoFeasiblePlanError(none)
    if options.cluster is not None:
        return scheduler.plan_cluster(
            spec,
            learner,
            options.nodes,
            profile,
            template=options.template,
            keep_batch=options.keep_batch,
            backend=backend,
            objective=objective,
        )
    grid, remarks = scheduler.profile_grid(*which), list[str]()
    if options.node is None and backend is None and node.num_gpus:
        from gmi_drl.profiler.backends_here import backends_here

        known = list(dict.fromkeys(cut.backend for cut in grid))
        possible, remarks = backends_here(known, spec, node)
        grid = tuple(cut for cut in grid if cut.backend in possible)
    return scheduler.plan_measured(
        spec, learner, node, profile, grid, template=options.template, remarks=remarks, objective=objective
    )


def plan_from_profiles(options: PlanOptions, here: "Node") -> "Plan":
    """The plan of the template's own planner, by a profile of each kind of machine."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.config.task_names import find_task
    from gmi_drl.launch.task_info import require_learnable, sizes_of
    from gmi_drl.registry import class_at

    known: dict[str, object] = {
        "--num-env": options.num_env,
        "--gmis-per-gpu": options.gmis_per_gpu,
        "--keep-batch": options.keep_batch,
    }
    known |= {"--objective": options.objective, "--budget": options.budget, "--fresh": options.fresh or None}
    known |= {"--share-cores": options.share_cores or None, "--backend": options.backend}
    refuse("the profiles decide that, and nothing is measured", known)
    found = find_task(options.task)
    spec = sizes_of(found, options.played)
    learner = default_config(spec, options.algo or options.template.usual_learner).learner
    require_learnable(learner, found, spec)
    assert options.template.profile_planner is not None
    plan_by: Callable[..., Plan] = class_at(options.template.profile_planner)
    return plan_by(spec, learner, here if options.cluster is None else options.nodes, options.profiles)


def measured_plan(options: PlanOptions, node: "Node") -> "Plan":
    """Measure this machine and plan the best of what was tried."""
    from gmi_drl import scheduler
    from gmi_drl.launch.task_info import usual_config
    from gmi_drl.profiler.backends_here import backends_here
    from gmi_drl.profiler.measured_plan import plan_here
    from gmi_drl.profiler.noise import require_noise_probe
    from gmi_drl.registry import class_at
    from gmi_drl.scheduler.backend_choice import backends_to_try

    spec, config = usual_config(options.task, options.algo or options.template.usual_learner, options.played)
    if options.objective == "learning":
        require_noise_probe(config)
    backends, remarks = backends_here(backends_to_try(options.backend, node), spec, node)
    grid = scheduler.search_grid(
        node,
        config.learner.horizon,
        gmis_per_gpu=options.gmis_per_gpu,
        num_env=options.num_env,
        keep_batch=options.keep_batch,
        backends=backends,
        task=spec,
        physics=config.physics,
    )
    for remark in remarks:
        say(remark)
    seconds = options.budget or (GPU_BUDGET_S if node.num_gpus else CPU_BUDGET_S)
    learns = f" by {config.learner.kind}" if options.template.purpose == "training" else ""
    say(f"Measuring {spec.name}{learns} on {node.name}, about {seconds:.0f} s at most (--budget)")
    if options.template.planner:
        plan_by: Callable[..., scheduler.Plan] = class_at(options.template.planner)
        nodes = options.nodes if options.measures_for_cluster else None
        more = {"seconds": seconds, "fresh": options.fresh, "tell": say, "remarks": remarks, "cluster": nodes}
        return plan_by(spec, config, node, grid, **more)
    return plan_here(
        spec,
        config,
        node,
        grid,
        template=options.template,
        seconds=seconds,
        fresh=options.fresh,
        tell=say,
        remarks=remarks,
        objective=options.objective,
    )
