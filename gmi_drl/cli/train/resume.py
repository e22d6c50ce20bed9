"""`gmi-drl train --resume`: with which layout, configuration and checkpoint a run goes on."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmi_drl.cli.layouts import check_apply_mig, make_layout, read_layout, with_backend
from gmi_drl.cli.output import say
from gmi_drl.cli.train.checks import check, check_early
from gmi_drl.cli.train.options import TrainOptions, apply_options
from gmi_drl.config.task_names import find_task
from gmi_drl.errors import UsageError
from gmi_drl.run import RUNS
from gmi_drl.units import counted, quoted

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.launch.job import TrainingJob
    from gmi_drl.layout.layout import Layout

LATEST = "latest"
"""In place of a run, the newest one in `RUNS`."""

FLOAT32 = 1e-6
"""The relative precision of learning rates in metrics: our learners hold them as float32."""


def run_of(given: Path) -> Path:
    """The run folder of `--resume`: as given, or the run in `runs/` that was started or ended last.

    Raises:
        UsageError: if there is no run.
    """
    if str(given) != LATEST or given.exists():
        return given
    states = sorted(RUNS.glob("*/state.json"), key=lambda file: file.stat().st_mtime)
    if not states:
        raise UsageError(f"--resume {LATEST}: there is no run in {RUNS}: name its folder")
    say(f"Resuming {states[-1].parent}")
    return states[-1].parent


def resume_run(run: Path, options: TrainOptions) -> tuple["TrainingJob", Path]:
    """The job that resumes a run, and the run's last checkpoint.

    Raises:
        UsageError: if there is nothing to resume, or the options would make it another run.
    """
    from gmi_drl.config.run_config import policy_config, values_of
    from gmi_drl.config.settings import places_of, refused_changes
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.run.checkpoint import list_checkpoints, read_index
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.metrics import read_metrics

    if options.run_dir is not None:
        raise UsageError("--run-dir and --resume cannot be given together: a resumed run stays in its folder")
    if options.config is not None:
        raise UsageError("--config is for a new run: change values of the one that this run has with --set KEY=VALUE")
    if options.rsl_rl_config is not None:
        raise UsageError(
            "--rsl-rl-config is for a new run: change the one that this run has with --set learner.runner.KEY=VALUE"
        )
    folder = RunFolder(run)
    was, before = folder.read_setup()
    chosen, learner, name = was, before.learner.kind, was.task
    if name is None:
        raise UsageError(f"{run} cannot be resumed: its layout names no task")
    config = apply_options(before, options)
    check_early(name, learner, config, options)
    saved = folder.resumable()
    if not saved and any(list_checkpoints(one.checkpoints) for one in folder.learning):
        raise UsageError(f"{run} has no iteration that all of its policies have saved: begin a new run")
    if not saved:
        raise UsageError(f"{run} has no complete checkpoint: start it anew with --run-dir {quoted(run)}")
    index = read_index(saved[-1])
    if options.layout is not None:
        chosen = read_layout(options.layout, options.decided)
    elif options.gmis_per_gpu is not None or options.num_env is not None:
        chosen = _resized(chosen, config, index["num_env"], options)
    chosen = layout_for(options.launcher, with_backend(chosen, options.backend))
    if options.algo not in (None, learner):
        raise UsageError(f"the run learns by {learner}: for another --algo start a new run")
    if options.template not in (None, chosen.template):
        raise UsageError(f"the layout has the template {chosen.template}: for another --template give a LAYOUT by it")
    if chosen.task != name or (options.task is not None and find_task(options.task).name != name):
        raise UsageError(f"the run trains {name}: for another task start a new run")
    check_apply_mig(chosen, options.apply_mig)
    places, rows = list(places_of(values_of(options.settings))), read_metrics(folder.metrics_file)
    if not before.policies:
        _check_same_run(index, before, config, places, chosen, rows)
    elif refused := refused_changes(before, config, places):
        raise UsageError("; ".join(refused))
    job = resolve(chosen, config, folder)
    for policy in job.policies:
        own = [row["policies"][policy.name] for row in rows if policy.name in row.get("policies", {})]
        of_policy = read_index(policy.folder.checkpoints / saved[-1].name)
        _check_same_run(of_policy, policy_config(before, policy.name), policy.config, places, policy.layout, own)
    seen = job.policies[0].layout if job.policies else chosen
    check(job, options.launcher, apply_mig=options.apply_mig, has_run_here=seen.digest == index["layout"])
    if why := _why_anew(index, chosen):
        say(f"{why}: environments start anew")
    if told := _rings_told(before, was, index, chosen):
        say(told)
    return job, saved[-1]


def _check_same_run(
    index: dict[str, Any],
    before: "RunConfig",
    config: "RunConfig",
    chosen_places: Iterable[str],
    layout: "Layout",
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Refuse a layout or configuration with which it would be another run.

    Args:
        index: Of the checkpoint.
        before: The configuration of the run so far.
        config: The one to go on with.
        chosen_places: Of the settings that the command line gives.
        layout: The layout to go on with.
        rows: Of the run so far.

    Raises:
        UsageError: with what must stay the same.
    """
    from gmi_drl.config.settings import refused_changes

    total, done = index["num_env"], index["iteration"]
    if layout.num_env != total:
        raise UsageError(
            f"the run has {total} environments in all and this layout {layout.num_env}: the numbers must be equal"
        )
    if refused := refused_changes(before, config, chosen_places, _adapted(index, config, rows)):
        raise UsageError("; ".join(refused))
    if done >= config.iterations:
        raise UsageError(f"the run has done {done} of {config.iterations} iterations: raise them with --iterations")


def _adapted(index: dict[str, Any], config: "RunConfig", rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Why the run goes on with another learning rate than its configuration has; None if with that one.

    An adaptive learner changes its rate, and `Checkpointer.restore` takes the changed one.
    """
    began, done = index["learning_rate"], index["iteration"]
    if config.learner.learning_rate != began or done == 0:
        return None
    last = [row for row in rows if row["iteration"] == done]
    now = last[-1].get("learning_rate") if last else None
    if not isinstance(now, int | float):
        return f"the run began with {began:g} and may have adapted it: its metrics do not show that"
    is_same = math.isclose(now, began, rel_tol=FLOAT32)
    return None if is_same else f"the run began with {began:g} and goes on with {now:.3g}, to which it has adapted it"


def _why_anew(index: dict[str, Any], layout: "Layout") -> str | None:
    """Why the environments of a checkpoint cannot go on in this layout; None if they can."""
    from gmi_drl.config.task_names import ForeignTask

    if layout.channels is not None:
        return f"A checkpoint of {layout.template} holds no environments"
    if isinstance(find_task(layout.task or ""), ForeignTask):
        return f"The simulator of {layout.task} cannot save its state"
    if layout.digest == index["layout"]:
        return None
    saved, now = sum(name.startswith("gmi-") for name in index["parts"]), len(layout.gmis)
    differs = f"{counted(saved, 'GMI')}, now {now}" if saved != now else "or it is of an earlier version of gmi-drl"
    return f"The layout is not that of the checkpoint ({differs})"


def _rings_told(before: "RunConfig", was: "Layout", index: dict[str, Any], layout: "Layout") -> str | None:
    """How rings of replay go on otherwise than as they were; None if they go on so, or the learner has none."""
    from gmi_drl.config.learners import OffPolicyConfig

    if not isinstance(before.learner, OffPolicyConfig):
        return None
    if not before.learner.replay.saved:
        return "The checkpoint holds none (learner.replay.saved: false): the rings of replay begin empty"
    if layout.digest == index["layout"] or before.learner.replay.server is not None:
        return None
    is_dealt = len(layout.nodes) == 1 and (layout.channels is None) == (was.channels is None)
    by = "are dealt out anew, by environments" if layout.channels is None else "are dealt out anew, by rollouts"
    how = by if is_dealt else "begin empty"
    return f"The layout is not that of the checkpoint: the rings of replay {how}"


def _resized(layout: "Layout", config: "RunConfig", total: int, options: TrainOptions) -> "Layout":
    """This machine cut evenly, with `total` environments, as --gmis-per-gpu and --num-env ask."""
    from gmi_drl.templates import template_of

    assert layout.task is not None
    template = template_of(layout)
    if layout.channels is not None:
        remedy = f"make a layout with `gmi-drl plan --template {template.name}`, and resume the run on it"
        raise UsageError(f"--num-env, --gmis-per-gpu: the layout decides which GMIs act and which train: {remedy}")
    count = len(make_layout(layout.task, 1, options.gmis_per_gpu, template, played=config.task).with_role("simulator"))
    if options.num_env is None and total % count:
        raise UsageError(f"the run's {total} environments cannot be divided evenly among {count} GMIs")
    num_env, backend = options.num_env or total // count, options.backend or layout.backend
    return make_layout(layout.task, num_env, options.gmis_per_gpu, template, backend, config.learner, config.task)
