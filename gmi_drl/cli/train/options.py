"""The options of `gmi-drl train` that decide what is trained, and the configuration that they make.

`command.py` declares all options, and has those that decide how it runs, such as `--restarts`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.output import say
from gmi_drl.errors import UsageError

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout


NO_LOGGER = "none"
"""The name by which --logger turns all writers off."""


@dataclass(frozen=True)
class TrainOptions:
    """The options of `gmi-drl train` that decide what is trained or resumed, as given."""

    layout: "Path | Layout | None"
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
    config: Path | None
    rsl_rl_config: Path | None
    set: tuple[str, ...]
    launcher: str
    apply_mig: bool
    simulator_python: str | None
    logger: tuple[str, ...] = ()

    @property
    def decided(self) -> dict[str, object]:
        """Options that decide what a layout file decides, by their names."""
        return {
            "--task": self.task,
            "--template": self.template,
            "--num-env": self.num_env,
            "--gmis-per-gpu": self.gmis_per_gpu,
        }

    @property
    def settings(self) -> list[str]:
        """KEY=VALUE of options that set a value of the configuration, then of --set.

        Raises:
            UsageError: if --logger names writers and none.
        """
        short = {"iterations": self.iterations, "seed": self.seed}
        names = [] if self.logger == (NO_LOGGER,) else dict.fromkeys(self.logger or ())
        if NO_LOGGER in names:
            raise UsageError(f"--logger {NO_LOGGER} turns all others off: leave it or them out")
        writers = [f"writers=[{', '.join(names)}]"] if self.logger else []
        return [f"{key}={value}" for key, value in short.items() if value is not None] + writers + list(self.set)


def apply_options(base: "RunConfig", options: TrainOptions) -> "RunConfig":
    """The configuration `base` with what --config, --rsl-rl-config and --set change in it.

    Raises:
        UsageError: if a setting is unknown, does not fit the learner, or has no effect.
    """
    from gmi_drl.config.learners import RslRlConfig
    from gmi_drl.config.learners.rsl_rl import read_over
    from gmi_drl.config.run_config import apply_settings, over_file, values_of
    from gmi_drl.config.settings import places_of, without_effect

    settings, file = options.settings, options.rsl_rl_config
    if options.config is not None:
        base = over_file(base, options.config)
    if any(setting.partition("=")[0].strip() in ("learner", "learner.kind") for setting in settings):
        raise UsageError("--set learner.kind: --algo chooses the algorithm, learner.KEY=VALUE sets one of its values")
    if isinstance(base.learner, RslRlConfig):
        settings = [_with_our_key(setting) for setting in settings]
    elif file is not None:
        raise UsageError(f"--rsl-rl-config is for --algo rsl_rl, not for {base.learner.kind}")
    over = read_over(base.learner, file) if isinstance(base.learner, RslRlConfig) and file else {}
    config = apply_settings(base, settings, f"{file} with --set" if file else "--set", over)
    if idle := without_effect(config, places_of(values_of(settings))):
        raise UsageError(f"--set: {'; '.join(idle)}: leave it out")
    if file is not None and over:
        runner = over["learner"]["runner"]
        file_values = {
            "learner.runner": {key: value for key, value in runner.items() if value not in (None, False, "", [])}
        }
        warn_idle(file, without_effect(config, places_of(file_values)))
    return config


def _with_our_key(setting: str) -> str:
    """KEY=VALUE with our key for a key of rsl_rl that means the same, such as `learner.runner.max_iterations`."""
    from gmi_drl.config.learners.rsl_rl_keys import of_the_run

    key, is_equal, value = setting.partition("=")
    return of_the_run(key.strip()) + is_equal + value


def warn_idle(file: Path, idle: list[str]) -> None:
    """Print the lines of a file of rsl_rl's that have no effect here."""
    for line in idle:
        say(f"{file}: no effect here: {line}")


def run_settings(options: TrainOptions) -> "RunConfig":
    """The default configuration with the options' settings, but not the learner's: its defaults depend on the task."""
    from gmi_drl.config.run_config import RunConfig, apply_settings, over_file

    base = RunConfig() if options.config is None else over_file(RunConfig(), options.config, without=("learner",))
    return apply_settings(base, [one for one in options.settings if not one.lstrip().startswith("learner")])
