"""`gmi-drl train`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.layouts import check_applied, cut_by, make_layout, read_layout
from gmi_drl.cli.make_plan import DEFAULT_NUM_ENV
from gmi_drl.cli.output import (
    apply_mig_option,
    backend_option,
    env_arg_option,
    format_option,
    launcher_option,
    print_json,
    say,
    simulator_option,
)
from gmi_drl.cli.train.checks import Given, check, check_early, configured, without_learner
from gmi_drl.cli.train.resume import resumed
from gmi_drl.config.task_names import as_file_name, known_tasks, with_arguments
from gmi_drl.errors import UsageError
from gmi_drl.units import counted
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.launch.supervisor import Outcome
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder


@click.command()
@click.argument("layout", metavar="[LAYOUT]", required=False, type=click.Path(path_type=Path))
@click.option("--task", metavar="NAME", help=f"What to train: {known_tasks()}.  [default: ant]")
@env_arg_option
@click.option("--algo", metavar="NAME", help="What learns: ppo (ours), a3c, rsl_rl, or a package's.  [default: ppo]")
@click.option(
    "--template", metavar="NAME", help="How roles lie on GMIs: TCG_EX, decoupled, or a package's.  [default: TCG_EX]"
)
@click.option("--iterations", type=click.IntRange(min=1), help="Iterations in all.  [default: 500]")
@click.option(
    "--num-env",
    type=click.IntRange(1, MOST_ENVIRONMENTS),
    help=f"Environments of each GMI.  [default: {DEFAULT_NUM_ENV}]",
)
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="GMIs of each device.  [default: one per core]")
@backend_option("the layout's")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of everything random.  [default: 0]")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/TASK-TIME]")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with the run in this folder.")
@click.option(
    "--rsl-rl-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration of rsl_rl's runner, such as params/agent.yaml; our settings else.",
)
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Go on when a GMI or a node dies, so many times at most: from the last checkpoint, or, where only an agent of "
    "asynchronous training on cores of one machine is missing, without a stop.",
)
@click.option("--set", multiple=True, metavar="KEY=VALUE", help="Set a value of config.yaml; repeatable.")
@launcher_option
@apply_mig_option
@simulator_option
@format_option
def train(format: str, restarts: int, task: str | None, env_arg: tuple[str, ...], **options: Any) -> None:
    """Train on the GMIs of a LAYOUT file, or on this machine cut evenly.

    Ctrl-C saves a checkpoint and prints the line that goes on from it. A run is resized by resuming it with another
    LAYOUT or --gmis-per-gpu: all environments together must stay as many, the worlds start anew.
    """
    from gmi_drl.cli.live import TrainingView
    from gmi_drl.launch.launchers import agents_by
    from gmi_drl.launch.restarts import train_on as launch
    from gmi_drl.launch.signals import EndedAtOnce

    if env_arg and task is None:
        raise UsageError("--env-arg is for the environments of a --task: layouts and runs have it in their task's name")
    given = Given(task=task and with_arguments(task, env_arg), **options)
    layout, config, folder, checkpoint = _begin(given) if given.resume is None else resumed(given.resume, given)
    with (
        agents_by(given.launcher, layout) as agents,
        TrainingView(layout, config, folder, quiet=format == "json") as view,
    ):
        if checkpoint is None:
            folder.create()
        try:
            outcome = launch(
                layout,
                config,
                folder,
                restarts=restarts,
                tell=view.warn,
                resume=checkpoint,
                apply_mig=given.apply_mig,
                agents=agents,
                on_start=view.announce,
                on_row=view.show,
                on_warning=view.warn,
            )
        except EndedAtOnce:
            _tell_end(config, folder)
            raise
    _tell(outcome, folder, format)
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)


def _begin(given: Given) -> tuple["Layout", "RunConfig", "RunFolder", None]:
    """A new run, whose folder is not made yet."""
    from gmi_drl.config.run_config import RunConfig, default_config
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.templates import TCG_EX, template_named, template_of

    if given.layout is not None:
        chosen = read_layout(given.layout, given.decided)
        kind = given.algo or template_of(chosen).usual_learner
        check_early(chosen.task or "", kind, without_learner(given), given)
        base = default_config(task_spec(chosen.task), kind) if chosen.task else RunConfig()  # without: refused below
        config = configured(base, given)
    else:
        named, task = template_named(given.template or TCG_EX.name), given.task or "ant"
        kind = given.algo or named.usual_learner
        check_early(task, kind, without_learner(given), given)
        config = configured(default_config(task_spec(task), kind), given)
        num_env = given.num_env or DEFAULT_NUM_ENV
        chosen = make_layout(task, num_env, given.gmis_per_gpu, named, given.backend, config.learner)
    chosen = layout_for(given.launcher, cut_by(chosen, given.backend))
    check_applied(chosen, given.apply_mig)
    check(chosen, config, given.launcher, apply_mig=given.apply_mig)
    usual = Path("runs") / f"{as_file_name(chosen.task or '')}-{time.strftime('%Y%m%d-%H%M%S')}"
    return chosen, config, RunFolder(given.run_dir or usual), None


def _tell(outcome: "Outcome", folder: "RunFolder", format: str) -> None:
    """What was written and what to do next."""
    if format == "json":
        checkpoint = str(outcome.checkpoint) if outcome.checkpoint else None
        document = {"state": outcome.state, "iteration": outcome.iteration, "checkpoint": checkpoint}
        print_json("train", {"run": str(folder.path), **document})
    elif outcome.state == "stopped":
        remedy = f"Go on with: gmi-drl train --resume {folder.path}"
        say(f"Stopped after iteration {outcome.iteration}, saved {outcome.checkpoint}. {remedy}")
    else:
        click.echo(
            f"Done: {folder.path} holds metrics.jsonl and {outcome.checkpoint}. Next: gmi-drl status {folder.path}"
        )


def _tell_end(config: "RunConfig", folder: "RunFolder") -> None:
    """Of a training that was ended at once: how to go on."""
    from gmi_drl.run.checkpoint import list_checkpoints

    saved = list_checkpoints(folder.checkpoints)
    iteration = int(saved[-1].name) if saved else 0
    remedy = f"go on after iteration {iteration} with: gmi-drl train --resume" if saved else "begin anew in"
    if iteration >= config.iterations:
        remedy = f"all {counted(config.iterations, 'iteration')} are done and saved in"
    say(f"gmi-drl: ended at once; {remedy} {folder.path}")
