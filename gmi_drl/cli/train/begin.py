"""What the options of `gmi-drl train` ask for: the job of a new run, or of one that is resumed."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.layouts import check_apply_mig, make_layout, read_layout, with_backend
from gmi_drl.cli.make_plan import usual_num_env
from gmi_drl.cli.train.checks import check, check_early
from gmi_drl.cli.train.options import TrainOptions, apply_options, run_settings
from gmi_drl.cli.train.resume import resume_run, run_of
from gmi_drl.config.task_names import as_file_name
from gmi_drl.run import RUNS
from gmi_drl.run.new_folder import first_free

if TYPE_CHECKING:
    from gmi_drl.launch.job import TrainingJob


def begin(options: TrainOptions) -> tuple["TrainingJob", Path | None]:
    """The checked job, and the checkpoint that it goes on from; None for a new run, whose folder is not created yet.

    Raises:
        GmiError: if the options contradict each other, or this machine cannot run them.
    """
    if options.resume is not None:
        return resume_run(run_of(options.resume), options)
    return _new_run(options), None


def with_folder(job: "TrainingJob", options: TrainOptions) -> "TrainingJob":
    """The job of a new run with its folder made: that of `--run-dir`, or one that no other start has.

    Raises:
        GmiError: if it holds something else, or cannot be written.
    """
    if options.run_dir is None:
        from gmi_drl.run.folder import RunFolder

        job = job.within(RunFolder(first_free(job.folder.path)))
    job.folder.create()
    return job


def _new_run(options: TrainOptions) -> "TrainingJob":
    """The job of a new run, whose folder is not created yet."""
    from gmi_drl.config.run_config import RunConfig, default_config
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.templates import TCG_EX, template_named, template_of

    if options.layout is not None:
        chosen = read_layout(options.layout, options.decided)
        kind = options.algo or template_of(chosen).usual_learner
        early = run_settings(options)
        check_early(chosen.task or "", kind, early, options)
        base = (
            default_config(task_spec(chosen.task, early.task), kind) if chosen.task else RunConfig()
        )  # without a task: refused below
        config = apply_options(base, options)
    else:
        named, task = template_named(options.template or TCG_EX.name), options.task or "ant"
        kind = options.algo or named.usual_learner
        early = run_settings(options)
        check_early(task, kind, early, options)
        spec = task_spec(task, early.task)
        config = apply_options(default_config(spec, kind), options)
        num_env = options.num_env or usual_num_env(spec)
        chosen = make_layout(task, num_env, options.gmis_per_gpu, named, options.backend, config.learner, config.task)
    chosen = layout_for(options.launcher, with_backend(chosen, options.backend))
    check_apply_mig(chosen, options.apply_mig)
    usual = RUNS / f"{as_file_name(chosen.task or '')}-{time.strftime('%Y%m%d-%H%M%S')}"
    was_there = options.run_dir is not None and os.path.exists(options.run_dir)
    job = resolve(chosen, config, RunFolder(options.run_dir or usual, was_there=was_there))
    check(job, options.launcher, apply_mig=options.apply_mig)
    return job
