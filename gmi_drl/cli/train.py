"""`gmi-drl train`."""

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import rich_click as click

from gmi_drl.cli.layouts import check_applied, cut_by, make_layout, read_layout
from gmi_drl.cli.output import (
    apply_mig_option,
    backend_option,
    format_option,
    launcher_option,
    print_json,
    say,
    simulator_option,
)
from gmi_drl.cli.plans import DEFAULT_NUM_ENV
from gmi_drl.errors import UsageError
from gmi_drl.task_names import as_file_name, find_task, known_tasks
from gmi_drl.units import counted
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.launch.training import Outcome
    from gmi_drl.layout import Layout
    from gmi_drl.run.folder import RunFolder


@click.command()
@click.argument("layout", metavar="[LAYOUT]", required=False, type=click.Path(path_type=Path))
@click.option("--task", metavar="NAME", help=f"What to train: {known_tasks()}.  [default: ant]")
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
    help="Go on from the last checkpoint when a GMI or a node dies, so many times at most.",
)
@click.option("--set", multiple=True, metavar="KEY=VALUE", help="Set a value of config.yaml; repeatable.")
@launcher_option
@apply_mig_option
@simulator_option
@format_option
def train(format: str, apply_mig: bool, launcher: str, restarts: int, **options: Any) -> None:
    """Train on the GMIs of a LAYOUT file, or on this machine cut evenly.

    Ctrl-C saves a checkpoint and prints the line that goes on from it. A run is resized by resuming it with another
    LAYOUT or --gmis-per-gpu: all environments together must stay as many, the worlds start anew.
    """
    from gmi_drl.cli.live import TrainingView
    from gmi_drl.launch.launchers import agents_by
    from gmi_drl.launch.restarts import train_on as launch
    from gmi_drl.launch.signals import SecondSignal

    begin = _resume if options["resume"] else _begin
    layout, config, folder, checkpoint = begin(apply_mig=apply_mig, launcher=launcher, **options)
    with agents_by(launcher, layout) as agents, TrainingView(layout, config, folder, quiet=format == "json") as view:
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
                apply_mig=apply_mig,
                agents=agents,
                on_start=view.announce,
                on_row=view.show,
                on_warning=view.warn,
            )
        except SecondSignal as second:
            _leave(second.signal, folder)
    _tell(outcome, folder, format)
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)


def _begin(
    layout: Path | None,
    task: str | None,
    algo: str | None,
    template: str | None,
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str | None,
    run_dir: Path | None,
    rsl_rl_config: Path | None,
    apply_mig: bool,
    launcher: str,
    **rest: Any,
) -> tuple["Layout", "RunConfig", "RunFolder", None]:
    """A new run, whose folder is not made yet."""
    from gmi_drl.config import RunConfig, default_config
    from gmi_drl.launch.describe import task_spec
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.templates import TCG_EX, template_named, template_of

    if layout is not None:
        chosen = read_layout(layout, _decided(task, template, num_env, gmis_per_gpu))
        kind = algo or template_of(chosen).usual_learner
        _check_early(chosen.task or "", kind, _without_learner(**rest))
    else:
        named = template_named(template or TCG_EX.name)
        kind = algo or named.usual_learner
        _check_early(task or "ant", kind, _without_learner(**rest))
        chosen = make_layout(task or "ant", num_env or DEFAULT_NUM_ENV, gmis_per_gpu, named)
    chosen = layout_for(launcher, cut_by(chosen, backend))
    base = default_config(task_spec(chosen.task), kind) if chosen.task else RunConfig()  # without a task: refused below
    config = _configured(base, rsl_rl_config, **rest)
    check_applied(chosen, apply_mig)
    _check(chosen, config, launcher, apply_mig=apply_mig)
    folder = RunFolder(run_dir or Path("runs") / f"{as_file_name(chosen.task or '')}-{time.strftime('%Y%m%d-%H%M%S')}")
    return chosen, config, folder, None


def _decided(
    task: str | None, template: str | None, num_env: int | None, gmis_per_gpu: int | None
) -> dict[str, object]:
    """Options that say what a layout file says."""
    return {"--task": task, "--template": template, "--num-env": num_env, "--gmis-per-gpu": gmis_per_gpu}


def _check_early(task: str, kind: str, config: "RunConfig") -> None:
    """Refuse what is known without the sizes of the task: another's simulator takes minutes to start and tell them."""
    from gmi_drl.learners import LEARNERS
    from gmi_drl.task_names import ForeignTask
    from gmi_drl.task_settings import check_settings

    LEARNERS.find(kind).require()
    found = find_task(task) if task else None
    if isinstance(found, ForeignTask):  # ours are checked with their layout, which says whether there is a GPU
        check_settings(found, on_gpu=False, physics=config.physics, room=config.warp, tells_terms=config.reward_terms)


def _check(
    layout: "Layout", config: "RunConfig", launcher: str, *, apply_mig: bool, has_run_here: bool = False
) -> None:
    """Refuse what cannot be trained, or on this machine, if that is where it runs; another's agents refuse there."""
    from gmi_drl.gmi import require_possible
    from gmi_drl.launch.launchers import LOCAL

    if not has_run_here:
        _check_trainable(layout, config, is_here=launcher == LOCAL)
    if launcher == LOCAL:
        require_possible(layout, apply_mig=apply_mig)


def _check_trainable(layout: "Layout", config: "RunConfig", *, is_here: bool) -> None:
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.launch.describe import task_spec
    from gmi_drl.launch.training import check_trainable
    from gmi_drl.profiler.room import require_room

    check_trainable(layout, config)
    if not is_here:
        return
    _tell_physics(layout, config)
    require_room(layout, config, task_spec(layout.task or ""), this_node(), tell=say)


def _tell_physics(layout: "Layout", config: "RunConfig") -> None:
    """Say so where a GPU stands by while its worlds are simulated on CPU cores."""
    from gmi_drl.physics import has_warp
    from gmi_drl.workload import TASK_SPECS

    takes_warp = find_task(layout.task or "") in TASK_SPECS.values()
    has_gpu = any(device.kind == "gpu" for device in layout.devices)
    if takes_warp and has_gpu and config.physics is None and not has_warp():
        say("MuJoCo Warp is not installed, so CPU cores simulate: pip install 'gmi-drl[warp]'")


def _resume(
    resume: Path,
    layout: Path | None,
    task: str | None,
    algo: str | None,
    template: str | None,
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str | None,
    run_dir: Path | None,
    rsl_rl_config: Path | None,
    apply_mig: bool,
    launcher: str,
    **rest: Any,
) -> tuple["Layout", "RunConfig", "RunFolder", Path]:
    """The run in a folder, from its last checkpoint, on its own layout or another one with as many environments."""
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.run.checkpoint import list_checkpoints, read_index
    from gmi_drl.run.folder import RunFolder

    if run_dir is not None:
        raise UsageError("--run-dir and --resume cannot be given together: a resumed run stays in its folder")
    if rsl_rl_config is not None:
        raise UsageError(
            "--rsl-rl-config is for a new run: one that goes on has it, change it by --set learner.runner.KEY=VALUE"
        )
    folder = RunFolder(resume)
    chosen, before = folder.read_setup()
    learner, name = before.learner.kind, chosen.task
    config = _configured(before, **rest)
    _check_early(name or "", learner, config)
    saved = list_checkpoints(folder.checkpoints)
    if not saved:
        raise UsageError(f"{resume} has no complete checkpoint: begin it anew with --run-dir {resume}")
    index = read_index(saved[-1])
    if layout is not None:
        chosen = read_layout(layout, _decided(task, template, num_env, gmis_per_gpu))
    elif gmis_per_gpu is not None or num_env is not None:
        chosen = _resized(chosen, index["num_env"], num_env, gmis_per_gpu)
    chosen = layout_for(launcher, cut_by(chosen, backend))
    if algo not in (None, learner):
        raise UsageError(f"the run learns by {learner}: another --algo is another run")
    if template not in (None, chosen.template):
        raise UsageError(f"the run is by {chosen.template}: for another --template give a layout by it")
    if chosen.task != name or (task is not None and find_task(task).name != name):
        raise UsageError(f"the run trains {name}: another task is another run")
    check_applied(chosen, apply_mig)
    _check_same_run(index, before, config, chosen)
    _check(chosen, config, launcher, apply_mig=apply_mig, has_run_here=chosen.digest == index["layout"])
    if why := _why_anew(index, chosen):
        say(f"{why}: worlds begin anew")
    return chosen, config, folder, saved[-1]


def _check_same_run(index: dict[str, Any], before: "RunConfig", config: "RunConfig", layout: "Layout") -> None:
    """Refuse what would not be the same run any more."""
    total, done = index["num_env"], index["iteration"]
    if layout.num_env != total:
        raise UsageError(
            f"the run has {total} environments in all, this layout has {layout.num_env}: they must be as many"
        )
    if config.seed != before.seed:
        raise UsageError(f"the run began with seed {before.seed}: another seed is another run")
    if config.learner.networks != before.learner.networks:
        raise UsageError("the networks of the run have other layers or activations: these cannot go on from them")
    if done >= config.iterations:
        raise UsageError(f"the run has done {done} of {config.iterations} iterations: give more with --iterations")


def _why_anew(index: dict[str, Any], layout: "Layout") -> str | None:
    """Why the worlds of a checkpoint are of no use for this layout; None if they go on."""
    from gmi_drl.task_names import ForeignTask

    if layout.channels is not None:
        return f"Agents of {layout.template} save no worlds"
    if isinstance(find_task(layout.task or ""), ForeignTask):
        return f"The simulator of {layout.task} gives no state away"
    if layout.digest == index["layout"]:
        return None
    saved, now = sum(name.startswith("gmi-") for name in index["parts"]), len(layout.gmis)
    differs = f"{counted(saved, 'GMI')}, now {now}" if saved != now else "or it is of an earlier version of gmi-drl"
    return f"The layout is not the one of the checkpoint ({differs})"


def _resized(layout: "Layout", total: int, num_env: int | None, gmis_per_gpu: int | None) -> "Layout":
    """An even layout of this machine with `total` environments."""
    from gmi_drl.templates import template_of

    assert layout.task is not None
    template = template_of(layout)
    if layout.channels is not None:
        remedy = f"make a layout with `gmi-drl plan --template {template.name}`, and resume the run on it"
        raise UsageError(f"--num-env, --gmis-per-gpu: who acts and who trains is the layout's to say: {remedy}")
    count = len(make_layout(layout.task, 1, gmis_per_gpu, template).with_role("simulator"))
    if num_env is None and total % count:
        raise UsageError(f"the run's {total} environments cannot be shared evenly by {count} GMIs")
    return make_layout(layout.task, num_env or total // count, gmis_per_gpu, template, layout.backend)


def _configured(base: "RunConfig", rsl_rl_config: Path | None = None, **given: Any) -> "RunConfig":
    """The configuration with what the command line sets, also within a file of rsl_rl's."""
    from gmi_drl.config import apply_settings
    from gmi_drl.learners import RslRlConfig
    from gmi_drl.learners.rsl_rl import read_over

    settings = _settings(**given)
    if any(setting.partition("=")[0].strip() in ("learner", "learner.kind") for setting in settings):
        raise UsageError("--set learner.kind: --algo says what learns, and learner.KEY=VALUE sets one of its values")
    if rsl_rl_config is None:
        return apply_settings(base, settings)
    if not isinstance(base.learner, RslRlConfig):
        raise UsageError(f"--rsl-rl-config is for --algo rsl_rl, not for {base.learner.kind}")
    return apply_settings(base, settings, f"{rsl_rl_config} with --set", read_over(base.learner, rsl_rl_config))


def _without_learner(**given: Any) -> "RunConfig":
    """What the command line sets, but for the learner's section, which begins with what suits the task."""
    from gmi_drl.config import RunConfig, apply_settings

    return apply_settings(RunConfig(), [one for one in _settings(**given) if not one.lstrip().startswith("learner")])


def _settings(iterations: int | None, seed: int | None, set: tuple[str, ...], **rest: Any) -> list[str]:
    """Options that are short for settings, then the settings themselves."""
    short = {"iterations": iterations, "seed": seed}
    return [f"{key}={value}" for key, value in short.items() if value is not None] + list(set)


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


def _leave(number: signal.Signals, folder: "RunFolder") -> NoReturn:
    from gmi_drl.run.checkpoint import list_checkpoints

    saved = list_checkpoints(folder.checkpoints)
    remedy = f"go on after iteration {int(saved[-1].name)} with: gmi-drl train --resume" if saved else "begin anew in"
    say(f"gmi-drl: ended at once; {remedy} {folder.path}")
    raise SystemExit(128 + number)
