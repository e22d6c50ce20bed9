"""`gmi_drl.plan` and `gmi_drl.train`: what the commands of these names do, from Python."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich_click as click

from gmi_drl.cli.make_plan import make_plan, planned_node
from gmi_drl.cli.options import use_simulator
from gmi_drl.cli.output import require_folder, say, write_file
from gmi_drl.cli.plan.command import plan as plan_command
from gmi_drl.cli.plan_options import PlanOptions
from gmi_drl.cli.train.begin import begin, with_folder
from gmi_drl.cli.train.command import train as train_command
from gmi_drl.cli.train.options import TrainOptions
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.launch.launchers import LOCAL, supervisors_for
from gmi_drl.launch.training import train as launch
from gmi_drl.layout.layout import Layout
from gmi_drl.run.metrics import Row
from gmi_drl.scheduler import Plan
from gmi_drl.scheduler.objective import Objective
from gmi_drl.templates import template_named

PathLike = Path | str


@dataclass(frozen=True)
class Run:
    """How a training ended.

    Args:
        folder: The run folder, with `metrics.jsonl` and checkpoints.
        state: `done`, or `stopped` by a signal such as Ctrl-C.
        iteration: The last iteration.
        checkpoint: The last checkpoint; None if none was written.
    """

    folder: Path
    state: str
    iteration: int
    checkpoint: Path | None


def plan(
    task: str = "ant",
    *,
    template: str = "training",
    algo: str | None = None,
    num_env: int | None = None,
    gpus: int | None = None,
    gmis_per_gpu: int | None = None,
    backend: str | None = None,
    share_cores: bool = False,
    keep_batch: int | None = None,
    objective: Objective | None = None,
    budget: float | None = None,
    fresh: bool = False,
    settings: Mapping[str, Any] | None = None,
    profile: PathLike | Sequence[PathLike] | None = None,
    node: PathLike | None = None,
    cluster: PathLike | None = None,
    simulator_python: PathLike | None = None,
    output: PathLike | None = None,
) -> Plan:
    """Choose the GMIs of a training or of serving, as `gmi-drl plan` does; arguments are its options.

    Args:
        task: The task, with the arguments of its constructor in its name (`config.task_names.with_arguments`).
        template: `training`, `serving`, or the name of a template.
        algo: The learner; None: that of the profile, or `ppo`.
        num_env: Try only this number of environments per GMI.
        gpus: Use this many GPUs, those with the best links.
        gmis_per_gpu: Try only this number of GMIs per device.
        backend: What cuts devices; None: all in the profile, or on GPUs the fastest measured, on cores `process`.
        share_cores: Let GMIs share cores, to try out a layout.
        keep_batch: Only layouts with this many samples per update.
        objective: `steps` or `learning`; None: `learning` if the gradient noise scale is known.
        budget: Seconds for measuring; 0 cuts evenly. None: 60, with a GPU 300.
        fresh: Measure again what was measured before.
        settings: Values of the section `task` by key, such as `{"task.pad": True}` (`--set`).
        profile: A profile file to choose by, in place of measuring; of `workers` one of each kind of machine.
        node: A node file, to plan for that machine.
        cluster: A cluster file, or `ray`.
        simulator_python: The Python in which Isaac Gym is installed.
        output: The layout file to write; None writes none.

    Returns:
        The plan: its `layout`, and the `candidates` that were compared. Messages go to stderr.

    Raises:
        UsageError: if arguments are wrong or contradict each other.
        NoFeasiblePlanError: if no layout fits.
        MachineError: if this machine lacks what measuring needs.
    """
    options = PlanOptions(
        task=task,
        template=template_named(template),
        algo=algo,
        num_env=num_env,
        gmis_per_gpu=gmis_per_gpu,
        backend=backend,
        share_cores=share_cores,
        keep_batch=keep_batch,
        budget=budget,
        fresh=fresh,
        settings=_as_set(settings),
        profiles=_paths(profile),
        node=_path(node),
        gpus=gpus,
        objective=objective,
        cluster=_path(cluster),
    )
    _check_values(plan_command, vars(options))
    use_simulator(_text(simulator_python), task)
    if output is not None:
        require_folder(Path(output))
    chosen = make_plan(options, planned_node(options))
    if output is not None:
        write_file(Path(output), dump_yaml(chosen.layout))
    return chosen


def train(
    layout: Layout | PathLike | None = None,
    *,
    task: str | None = None,
    algo: str | None = None,
    template: str | None = None,
    iterations: int | None = None,
    num_env: int | None = None,
    gmis_per_gpu: int | None = None,
    backend: str | None = None,
    seed: int | None = None,
    run_dir: PathLike | None = None,
    resume: PathLike | None = None,
    config: PathLike | None = None,
    rsl_rl_config: PathLike | None = None,
    restarts: int = 0,
    settings: Mapping[str, Any] | None = None,
    launcher: str = LOCAL,
    apply_mig: bool = False,
    simulator_python: PathLike | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> Run:
    """Train, or resume a run, as `gmi-drl train` does; arguments are its options. Call it in the main thread.

    Ctrl-C and SIGTERM are handled meanwhile: the first ends the training in order, with a checkpoint.

    Args:
        layout: A layout, or a layout file; None cuts this machine evenly.
        task: The task; None: `ant`, or the layout's.
        algo: The learner; None: the template's usual one.
        template: The template; None: `TCG_EX`.
        iterations: All iterations of the run; None: 500.
        num_env: Environments of each GMI; None: 256.
        gmis_per_gpu: GMIs of each device; None: one per core, on a GPU as few as the template needs.
        backend: What cuts devices; None: the layout's.
        seed: Seed of everything random; None: 0.
        run_dir: The folder of a new run; None: `runs/TASK-TIME`.
        resume: The folder of a run to resume.
        config: A configuration file, such as `config.yaml` of another run; `settings` count more.
        rsl_rl_config: A configuration of rsl_rl's runner.
        restarts: How many times to restart after a death.
        settings: Values of `config.yaml` by key, such as `{"learner.gamma": 0.98}` (`--set`).
        launcher: `local`, or `ray`.
        apply_mig: Create the MIG instances of the layout, and restore afterwards what was there.
        simulator_python: The Python in which Isaac Gym is installed.
        on_row: Called with every row of the metrics.

    Raises:
        UsageError: if arguments are wrong or contradict each other.
        LayoutMismatchError: if devices are not there or in use.
        GmiError: if a GMI fails; the message names it and its log. The last checkpoint is kept.
    """
    options = TrainOptions(
        layout=layout if isinstance(layout, Layout) else _path(layout),
        task=task,
        algo=algo,
        template=template,
        iterations=iterations,
        num_env=num_env,
        gmis_per_gpu=gmis_per_gpu,
        backend=backend,
        seed=seed,
        run_dir=_path(run_dir),
        resume=_path(resume),
        config=_path(config),
        rsl_rl_config=_path(rsl_rl_config),
        set=_as_set(settings),
        launcher=launcher,
        apply_mig=apply_mig,
        simulator_python=_text(simulator_python),
    )
    _check_values(train_command, vars(options) | {"restarts": restarts})
    return _run(options, restarts, on_row)


def _run(options: TrainOptions, restarts: int, on_row: Callable[[Row], None]) -> Run:
    job, checkpoint = begin(options)
    with supervisors_for(options.launcher, job.layout) as supervisors:
        if checkpoint is None:
            job = with_folder(job, options)
        outcome = launch(
            job,
            resume=checkpoint,
            apply_mig=options.apply_mig,
            supervisors=supervisors,
            restarts=restarts,
            on_row=on_row,
            on_restart=say,
            on_warning=say,
        )
    return Run(job.folder.path, outcome.state, outcome.iteration, outcome.checkpoint)


def _check_values(command: click.Command, values: Mapping[str, Any]) -> None:
    """Refuse numbers and words that the options of a command refuse, and whole numbers of another type than int."""
    for option in command.params:
        value = values.get(option.name or "")
        if value is not None and isinstance(option.type, click.IntRange | click.FloatRange | click.Choice):
            if isinstance(option.type, click.IntRange) and type(value) is not int:
                raise UsageError(f"{option.name}: {value!r} is a {type(value).__name__}: give an int")
            try:
                option.type.convert(value, option, None)
            except click.BadParameter as refused:
                raise UsageError(f"{option.name}: {refused.message}") from None


def _as_set(settings: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Settings as --set has them."""
    return tuple(f"{key}={_as_json(key, value)}" for key, value in (settings or {}).items())


def _as_json(key: str, value: object) -> str:
    try:
        return json.dumps(value)
    except TypeError:
        kind = type(value).__name__
        raise UsageError(f"settings: {key} is a {kind}: give a number, a text, true or false, or a list") from None


def _paths(given: PathLike | Sequence[PathLike] | None) -> tuple[Path, ...]:
    """None, one path or several."""
    if given is None:
        return ()
    return (Path(given),) if isinstance(given, Path | str) else tuple(map(Path, given))


def _path(given: PathLike | None) -> Path | None:
    return None if given is None else Path(given)


def _text(given: PathLike | None) -> str | None:
    return None if given is None else str(given)
