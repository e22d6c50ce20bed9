"""`gmi-drl train --resume`: what a run goes on with."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmi_drl.cli.layouts import check_applied, cut_by, make_layout, read_layout
from gmi_drl.cli.output import say
from gmi_drl.cli.train.checks import Given, check, check_early, configured
from gmi_drl.config.task_names import find_task
from gmi_drl.errors import UsageError
from gmi_drl.units import counted

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder

FLOAT32 = 1e-6
"""Our learners hold the learning rate in this precision, relatively, and tell it so in metrics."""


def resumed(run: Path, given: Given) -> tuple["Layout", "RunConfig", "RunFolder", Path]:
    """The run in a folder, from its last checkpoint, on its own layout or another one with as many environments."""
    from gmi_drl.config.run_config import values_of
    from gmi_drl.config.settings import places_of
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.run.checkpoint import list_checkpoints, read_index
    from gmi_drl.run.folder import RunFolder

    if given.run_dir is not None:
        raise UsageError("--run-dir and --resume cannot be given together: a resumed run stays in its folder")
    if given.rsl_rl_config is not None:
        raise UsageError(
            "--rsl-rl-config is for a new run: one that goes on has it, change it by --set learner.runner.KEY=VALUE"
        )
    folder = RunFolder(run)
    chosen, before = folder.read_setup()
    learner, name = before.learner.kind, chosen.task
    if name is None:
        raise UsageError(f"{run}: its layout names no task: nothing to go on with")
    config = configured(before, given)
    check_early(name, learner, config, given)
    saved = list_checkpoints(folder.checkpoints)
    if not saved:
        raise UsageError(f"{run} has no complete checkpoint: begin it anew with --run-dir {run}")
    index = read_index(saved[-1])
    if given.layout is not None:
        chosen = read_layout(given.layout, given.decided)
    elif given.gmis_per_gpu is not None or given.num_env is not None:
        chosen = _resized(chosen, config, index["num_env"], given)
    chosen = layout_for(given.launcher, cut_by(chosen, given.backend))
    if given.algo not in (None, learner):
        raise UsageError(f"the run learns by {learner}: another --algo is another run")
    if given.template not in (None, chosen.template):
        raise UsageError(f"the run is by {chosen.template}: for another --template give a layout by it")
    if chosen.task != name or (given.task is not None and find_task(given.task).name != name):
        raise UsageError(f"the run trains {name}: another task is another run")
    check_applied(chosen, given.apply_mig)
    _check_same_run(index, before, config, places_of(values_of(given.settings)), chosen, folder)
    check(chosen, config, given.launcher, apply_mig=given.apply_mig, has_run_here=chosen.digest == index["layout"])
    if why := _why_anew(index, chosen):
        say(f"{why}: worlds begin anew")
    return chosen, config, folder, saved[-1]


def _check_same_run(
    index: dict[str, Any],
    before: "RunConfig",
    config: "RunConfig",
    given: Iterable[str],
    layout: "Layout",
    folder: "RunFolder",
) -> None:
    """Refuse what would not be the same run any more, and what it could not take (`given`: places of settings)."""
    from gmi_drl.config.settings import refused_changes

    total, done = index["num_env"], index["iteration"]
    if layout.num_env != total:
        raise UsageError(
            f"the run has {total} environments in all, this layout has {layout.num_env}: they must be as many"
        )
    if refused := refused_changes(before, config, given, _adapted(index, config, folder)):
        raise UsageError("; ".join(refused))
    if done >= config.iterations:
        raise UsageError(f"the run has done {done} of {config.iterations} iterations: give more with --iterations")


def _adapted(index: dict[str, Any], config: "RunConfig", folder: "RunFolder") -> str | None:
    """Why `Checkpointer.restore` would ignore the learning rate of a configuration; None if the run goes on with it."""
    from gmi_drl.run.metrics import read_metrics

    began, done = index["learning_rate"], index["iteration"]
    if config.learner.learning_rate != began or done == 0:
        return None
    rows = [row for row in read_metrics(folder.metrics_file) if row["iteration"] == done]
    now = rows[-1].get("learning_rate") if rows else None
    if not isinstance(now, int | float):
        return f"the run began with {began:g} and may have adapted it, which its metrics do not tell"
    is_same = math.isclose(now, began, rel_tol=FLOAT32)
    return None if is_same else f"the run began with {began:g} and goes on with {now:.3g}, to which it has adapted it"


def _why_anew(index: dict[str, Any], layout: "Layout") -> str | None:
    """Why the worlds of a checkpoint are of no use for this layout; None if they go on."""
    from gmi_drl.config.task_names import ForeignTask

    if layout.channels is not None:
        return f"Agents of {layout.template} save no worlds"
    if isinstance(find_task(layout.task or ""), ForeignTask):
        return f"The simulator of {layout.task} gives no state away"
    if layout.digest == index["layout"]:
        return None
    saved, now = sum(name.startswith("gmi-") for name in index["parts"]), len(layout.gmis)
    differs = f"{counted(saved, 'GMI')}, now {now}" if saved != now else "or it is of an earlier version of gmi-drl"
    return f"The layout is not the one of the checkpoint ({differs})"


def _resized(layout: "Layout", config: "RunConfig", total: int, given: Given) -> "Layout":
    """An even layout of this machine with `total` environments."""
    from gmi_drl.templates import template_of

    assert layout.task is not None
    template = template_of(layout)
    if layout.channels is not None:
        remedy = f"make a layout with `gmi-drl plan --template {template.name}`, and resume the run on it"
        raise UsageError(f"--num-env, --gmis-per-gpu: who acts and who trains is the layout's to say: {remedy}")
    count = len(make_layout(layout.task, 1, given.gmis_per_gpu, template).with_role("simulator"))
    if given.num_env is None and total % count:
        raise UsageError(f"the run's {total} environments cannot be shared evenly by {count} GMIs")
    num_env, backend = given.num_env or total // count, given.backend or layout.backend
    return make_layout(layout.task, num_env, given.gmis_per_gpu, template, backend, config.learner)
