"""The checks of `gmi-drl train` before anything starts."""

from typing import TYPE_CHECKING

from gmi_drl.cli.layouts import warn_untried
from gmi_drl.cli.options import use_simulator
from gmi_drl.cli.output import say
from gmi_drl.cli.train.options import TrainOptions
from gmi_drl.config.task_names import find_task

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.launch.job import TrainingJob
    from gmi_drl.layout.layout import Layout


def check_early(task: str, kind: str, config: "RunConfig", options: TrainOptions) -> None:
    """Refuse what can be refused without the sizes of the task, as other simulators take minutes to start for them.

    Also sets the interpreter of `--simulator-python`, in which such a simulator would start.
    """
    from gmi_drl.config.learners import LEARNERS
    from gmi_drl.config.task_names import ForeignTask
    from gmi_drl.config.task_settings import check_settings
    from gmi_drl.launch.launchers import LOCAL

    LEARNERS.find(kind).require()
    use_simulator(options.simulator_python, task, is_here=options.launcher == LOCAL)
    found = find_task(task) if task else None
    if isinstance(found, ForeignTask):  # our own are checked later, with a layout: it may have a GPU
        check_settings(
            found,
            on_gpu=False,
            physics=config.physics,
            room=config.warp,
            tells_terms=config.reward_terms,
            settings=config.task,
        )


def check(job: "TrainingJob", launcher: str, *, apply_mig: bool, has_run_here: bool = False) -> None:
    """Refuse a training that this machine cannot run; with Ray each node checks for itself.

    Prints what has no effect or is untried, but not for a layout that has run here before.
    """
    from gmi_drl.gmi import require_possible
    from gmi_drl.launch.launchers import LOCAL

    layout = job.layout
    if job.config.tf32 and all(device.kind == "cpu" for device in layout.devices):
        say("tf32 has no effect here: cores compute in float32")
    if launcher == LOCAL:
        _check_replay_server(job.config)
        _check_bf16(job)
        if not has_run_here:
            _check_room(job)
        require_possible(layout, apply_mig=apply_mig)
    if not has_run_here:
        warn_untried(layout)


def _check_replay_server(config: "RunConfig") -> None:
    """Refuse a table of a replay server that is not there, or that the learner cannot learn from."""
    from gmi_drl.config.learners import OffPolicyConfig

    if isinstance(config.learner, OffPolicyConfig) and config.learner.replay.server is not None:
        from gmi_drl.roles.replay.server_check import check_server

        check_server(config.learner)


def _check_bf16(job: "TrainingJob") -> None:
    """Refuse bfloat16 on cores that would emulate it. Of a GPU its GMIs know."""
    from gmi_drl.errors import MachineError
    from gmi_drl.gmi.inventory.cores import NO_BF16, has_bf16

    on_cores = any(device.kind == "cpu" for device in job.layout.devices)
    if on_cores and job.config.learner.network.bf16 and not has_bf16():
        raise MachineError(NO_BF16)


def _check_room(job: "TrainingJob") -> None:
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.profiler.memory_check import require_room

    warn_physics(job.layout, job.config)
    require_room(job.layout, job.config, job.task, this_node(), tell=say)


def warn_physics(layout: "Layout", config: "RunConfig") -> None:
    """Print a hint if the layout has GPUs but its environments are simulated on CPU cores."""
    from gmi_drl.config.task_settings import missing_warp

    has_gpu = any(device.kind == "gpu" for device in layout.devices)
    if hint := missing_warp(find_task(layout.task or ""), on_gpu=has_gpu, physics=config.physics):
        say(hint)
