"""What `gmi-drl train` makes of its options, and what it refuses before anything starts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmi_drl.cli.output import say
from gmi_drl.errors import UsageError
from gmi_drl.task_names import find_task

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.layout import Layout


def configured(base: "RunConfig", rsl_rl_config: Path | None = None, **given: Any) -> "RunConfig":
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


def without_learner(**given: Any) -> "RunConfig":
    """What the command line sets, but for the learner's section, which begins with what suits the task."""
    from gmi_drl.config import RunConfig, apply_settings

    return apply_settings(RunConfig(), [one for one in _settings(**given) if not one.lstrip().startswith("learner")])


def _settings(iterations: int | None, seed: int | None, set: tuple[str, ...], **rest: Any) -> list[str]:
    """Options that are short for settings, then the settings themselves."""
    short = {"iterations": iterations, "seed": seed}
    return [f"{key}={value}" for key, value in short.items() if value is not None] + list(set)


def decided(task: str | None, template: str | None, num_env: int | None, gmis_per_gpu: int | None) -> dict[str, object]:
    """Options that say what a layout file says."""
    return {"--task": task, "--template": template, "--num-env": num_env, "--gmis-per-gpu": gmis_per_gpu}


def check_early(task: str, kind: str, config: "RunConfig") -> None:
    """Refuse what is known without the sizes of the task: another's simulator takes minutes to start and tell them."""
    from gmi_drl.learners import LEARNERS
    from gmi_drl.task_names import ForeignTask
    from gmi_drl.task_settings import check_settings

    LEARNERS.find(kind).require()
    found = find_task(task) if task else None
    if isinstance(found, ForeignTask):  # ours are checked with their layout, which says whether there is a GPU
        check_settings(found, on_gpu=False, physics=config.physics, room=config.warp, tells_terms=config.reward_terms)


def check(layout: "Layout", config: "RunConfig", launcher: str, *, apply_mig: bool, has_run_here: bool = False) -> None:
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
