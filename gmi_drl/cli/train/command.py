"""`gmi-drl train`."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.make_plan import DEFAULT_NUM_ENV, IMAGES_NUM_ENV
from gmi_drl.cli.options import (
    algo_option,
    apply_mig_option,
    backend_option,
    env_arg_option,
    format_option,
    launcher_option,
    simulator_option,
)
from gmi_drl.cli.output import print_json, say, starting
from gmi_drl.cli.train.begin import begin, with_folder
from gmi_drl.cli.train.options import TrainOptions
from gmi_drl.config.task_names import find_task, known_tasks, with_arguments
from gmi_drl.errors import GmiDiedError, GmiError, UsageError
from gmi_drl.units import counted, quoted
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.launch.supervisor import Outcome
    from gmi_drl.run.folder import RunFolder


@click.command()
@click.argument("layout", metavar="[LAYOUT|TASK]", required=False)
@click.option("--task", metavar="NAME", help=f"The task to train: {known_tasks()}.  [default: ant]")
@env_arg_option
@algo_option()
@click.option(
    "--template",
    metavar="NAME",
    help="Which roles each GMI has: TCG_EX, decoupled, workers, or one of another package.  [default: TCG_EX]",
)
@click.option("--iterations", type=click.IntRange(min=1), help="The total number of iterations.  [default: 500]")
@click.option(
    "--num-env",
    type=click.IntRange(1, MOST_ENVIRONMENTS),
    help=f"Environments of each GMI.  [default: {DEFAULT_NUM_ENV}, of images {IMAGES_NUM_ENV}]",
)
@click.option(
    "--gmis-per-gpu",
    type=click.IntRange(min=1),
    help="GMIs of each device: of each GPU, or of all cores. With workers, actors have the cores beside GPUs.  "
    "[default: one per core, on a GPU as few as the template needs]",
)
@backend_option("the layout's")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of everything random.  [default: 0]")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/TASK-TIME]")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Resume the run in this folder; latest: that in runs/ which was started or ended last.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A config.yaml, such as that of another run; what it leaves out has the usual value.",
)
@click.option(
    "--rsl-rl-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A configuration of rsl_rl's runner, such as params/agent.yaml.  [default: our settings]",
)
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Restart at most N times after a GMI or a node died, from the last checkpoint. If only an actor or policy "
    "worker, or an agent of asynchronous training, on cores died, it alone is started again; the others do not stop.",
)
@click.option("--set", multiple=True, metavar="KEY=VALUE", help="Set a value of config.yaml. Repeatable.")
@click.option(
    "--logger",
    multiple=True,
    metavar="NAME",
    help="Write metrics there, too: tensorboard, wandb, trackio, csv, one of another package, or none. Repeatable.  "
    "[default: tensorboard, if it is installed]",
)
@launcher_option
@apply_mig_option
@simulator_option
@format_option
def train(
    format: str, restarts: int, layout: str | None, task: str | None, env_arg: tuple[str, ...], **others: Any
) -> None:
    """Train on the GMIs of a LAYOUT file, or on this machine cut evenly. `train TASK` means `train --task TASK`.

    Ctrl-C saves a checkpoint and prints the command that resumes the run. To resize a run, resume it with another
    LAYOUT or --gmis-per-gpu: the total number of environments must stay the same, and their episodes start anew.
    """
    if layout is not None and _is_task(layout):
        if task is not None:
            raise UsageError(f"{layout} and --task {task} both name a task: leave one out")
        layout, task = None, layout
    if env_arg and task is None:
        raise UsageError("--env-arg needs a --task: in layouts and runs the arguments are part of the task's name")
    file = None if layout is None else Path(layout)
    options = TrainOptions(layout=file, task=task and with_arguments(task, env_arg), **others)
    with starting(quiet=format == "json"):
        # imported only now: this takes a second, in which the terminal already says that something happens
        from gmi_drl.cli.live import TrainingView
        from gmi_drl.launch.launchers import supervisors_for
        from gmi_drl.launch.signals import EndedAtOnce
        from gmi_drl.launch.training import train as launch

        job, checkpoint = begin(options)
    if checkpoint is not None:
        say(f"Going on after iteration {int(checkpoint.name)} of {job.config.iterations}")
    with ExitStack() as life:
        agents = life.enter_context(supervisors_for(options.launcher, job.layout))
        if checkpoint is None:
            job = with_folder(job, options)
        folder = job.folder
        view = life.enter_context(TrainingView(job.layout, job.config, folder, quiet=format == "json"))
        try:
            outcome = launch(
                job,
                restarts=restarts,
                on_restart=view.warn,
                resume=checkpoint,
                apply_mig=options.apply_mig,
                supervisors=agents,
                on_start=view.announce,
                on_row=view.show,
                on_warning=view.warn,
            )
        except EndedAtOnce:
            _report_abort(job.config, folder)
            raise
        except GmiError as error:
            _add_remedy(error, folder)
            raise
    _report(outcome, folder, format)
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)


def _is_task(layout: str) -> bool:
    """Whether what stands in place of a LAYOUT file is no file but the name of a task, which a folder may have, too.

    Raises:
        UsageError: if it is neither, and its name is not that of a file.
    """
    is_folder = os.path.isdir(layout)
    if os.path.exists(layout) and not is_folder:  # which is false for names that are too long for a file
        return False
    try:
        find_task(layout)
    except UsageError as error:
        if is_folder or Path(layout).suffix or Path(layout).parent.name:
            return False
        raise UsageError(f"{layout}: no such file, and {error}") from None
    return True


def _report(outcome: "Outcome", folder: "RunFolder", format: str) -> None:
    """Print how the training ended, where its files are, and the next command."""
    if format == "json":
        checkpoint = str(outcome.checkpoint) if outcome.checkpoint else None
        document = {"state": outcome.state, "iteration": outcome.iteration, "checkpoint": checkpoint}
        print_json("train", {"run": str(folder.path), **document})
    elif outcome.state == "stopped":
        remedy = f"Resume it with: gmi-drl train --resume {quoted(folder.path)}"
        say(f"Stopped after iteration {outcome.iteration}, saved {outcome.checkpoint}. {remedy}")
    else:
        command = f"gmi-drl status {quoted(folder.path)}"
        click.echo(f"Done: {folder.path} holds metrics.jsonl and {outcome.checkpoint}. Next: {command}")


def _add_remedy(error: GmiError, folder: "RunFolder") -> None:
    """Add to the error of a run that has begun how to resume it, and after a death how it resumes by itself."""
    saved = folder.resumable()
    if folder.read_state()["state"] != "failed" or not saved:
        return
    more = ", or with --restarts 3 to let it resume by itself" if isinstance(error, GmiDiedError) else ""
    command = f"gmi-drl train --resume {quoted(folder.path)}"
    error.add_note(f"Resume it after iteration {int(saved[-1].name)} with: {command}{more}")


def _report_abort(config: "RunConfig", folder: "RunFolder") -> None:
    """Print how to resume a training that was ended without saving."""
    saved = folder.resumable()
    iteration = int(saved[-1].name) if saved else 0
    command = f"gmi-drl train --resume {quoted(folder.path)}"
    remedy = f"resume from iteration {iteration} with: {command}" if saved else f"nothing is saved in {folder.path}"
    if iteration >= config.iterations:
        remedy = f"all {counted(config.iterations, 'iteration')} are done and saved in {folder.path}"
    say(f"gmi-drl: ended at once; {remedy}")
