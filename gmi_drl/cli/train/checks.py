"""What `gmi-drl train` makes of its options, and what it refuses before anything starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.layouts import tell_untried
from gmi_drl.cli.output import say, use_simulator
from gmi_drl.config.task_names import find_task
from gmi_drl.errors import UsageError

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout


@dataclass(frozen=True)
class Given:
    """What a command line says of the training that it begins or resumes, as the options of `gmi-drl train`."""

    layout: Path | None
    task: str | None
    algo: str | None
    template: str | None
    iterations: int | None
    num_env: int | None
    gmis_per_gpu: int | None
    backend: str | None
    seed: int | None
    run_dir: Path | None
    resume: Path | None
    rsl_rl_config: Path | None
    set: tuple[str, ...]
    launcher: str
    apply_mig: bool
    simulator_python: str | None

    @property
    def decided(self) -> dict[str, object]:
        """Options that say what a layout file says."""
        return {
            "--task": self.task,
            "--template": self.template,
            "--num-env": self.num_env,
            "--gmis-per-gpu": self.gmis_per_gpu,
        }

    @property
    def settings(self) -> list[str]:
        """Options that are short for settings, then the settings themselves."""
        short = {"iterations": self.iterations, "seed": self.seed}
        return [f"{key}={value}" for key, value in short.items() if value is not None] + list(self.set)


def configured(base: "RunConfig", given: Given) -> "RunConfig":
    """The configuration with what the command line sets, also within a file of rsl_rl's."""
    from gmi_drl.config.learners import RslRlConfig
    from gmi_drl.config.learners.rsl_rl import read_over
    from gmi_drl.config.run_config import apply_settings, values_of
    from gmi_drl.config.settings import places_of, without_effect

    settings, file = given.settings, given.rsl_rl_config
    if any(setting.partition("=")[0].strip() in ("learner", "learner.kind") for setting in settings):
        raise UsageError("--set learner.kind: --algo says what learns, and learner.KEY=VALUE sets one of its values")
    if isinstance(base.learner, RslRlConfig):
        settings = [_of_the_run(setting) for setting in settings]
    elif file is not None:
        raise UsageError(f"--rsl-rl-config is for --algo rsl_rl, not for {base.learner.kind}")
    over = read_over(base.learner, file) if isinstance(base.learner, RslRlConfig) and file else {}
    config = apply_settings(base, settings, f"{file} with --set" if file else "--set", over)
    if idle := without_effect(config, places_of(values_of(settings))):
        raise UsageError(f"--set: {'; '.join(idle)}: leave it out")
    if file is not None and over:
        runner = over["learner"]["runner"]
        said = {"learner.runner": {key: value for key, value in runner.items() if value not in (None, False, "", [])}}
        tell_idle(file, without_effect(config, places_of(said)))
    return config


def _of_the_run(setting: str) -> str:
    """A setting with the run's own key, where rsl_rl's is given (`learner.runner.max_iterations`)."""
    from gmi_drl.config.learners.rsl_rl_keys import of_the_run

    key, is_equal, value = setting.partition("=")
    return of_the_run(key.strip()) + is_equal + value


def tell_idle(file: Path, idle: list[str]) -> None:
    """Say what users of rsl_rl have in their files and no run of ours reads."""
    for line in idle:
        say(f"{file}: no effect here: {line}")


def without_learner(given: Given) -> "RunConfig":
    """What the command line sets, but for the learner's section, which begins with what suits the task."""
    from gmi_drl.config.run_config import RunConfig, apply_settings

    return apply_settings(RunConfig(), [one for one in given.settings if not one.lstrip().startswith("learner")])


def check_early(task: str, kind: str, config: "RunConfig", given: Given) -> None:
    """Refuse what is known without the sizes of the task: another's simulator takes minutes to start and tell them.

    Takes the interpreter of `--simulator-python`, in which that simulator would start.
    """
    from gmi_drl.config.learners import LEARNERS
    from gmi_drl.config.task_names import ForeignTask
    from gmi_drl.config.task_settings import check_settings
    from gmi_drl.launch.launchers import LOCAL

    LEARNERS.find(kind).require()
    use_simulator(given.simulator_python, task, is_here=given.launcher == LOCAL)
    found = find_task(task) if task else None
    if isinstance(found, ForeignTask):  # ours are checked with their layout, which says whether there is a GPU
        check_settings(found, on_gpu=False, physics=config.physics, room=config.warp, tells_terms=config.reward_terms)


def check(layout: "Layout", config: "RunConfig", launcher: str, *, apply_mig: bool, has_run_here: bool = False) -> None:
    """Refuse what cannot be trained, or on this machine, if that is where it runs; another's agents refuse there.

    What has no effect or is untried is told, but not again of a layout that has run here.
    """
    from gmi_drl.gmi import require_possible
    from gmi_drl.launch.launchers import LOCAL

    if config.tf32 and all(device.kind == "cpu" for device in layout.devices):
        say("tf32 has no effect here: cores compute in float32")
    if not has_run_here:
        _check_trainable(layout, config, is_here=launcher == LOCAL)
    if launcher == LOCAL:
        require_possible(layout, apply_mig=apply_mig)
    if not has_run_here:
        tell_untried(layout)


def _check_trainable(layout: "Layout", config: "RunConfig", *, is_here: bool) -> None:
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.launch.training import check_trainable
    from gmi_drl.profiler.memory_check import require_room

    check_trainable(layout, config)
    if not is_here:
        return
    tell_physics(layout, config)
    require_room(layout, config, task_spec(layout.task or ""), this_node(), tell=say)


def tell_physics(layout: "Layout", config: "RunConfig") -> None:
    """Say so where a GPU stands by while its worlds are simulated on CPU cores."""
    from gmi_drl.config.task_settings import missing_warp

    has_gpu = any(device.kind == "gpu" for device in layout.devices)
    if told := missing_warp(find_task(layout.task or ""), on_gpu=has_gpu, physics=config.physics):
        say(told)
