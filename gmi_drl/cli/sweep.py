"""`gmi-drl sweep`."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.options import algo_option, env_arg_option, format_option
from gmi_drl.cli.output import console, plain_table, print_json, say
from gmi_drl.cli.train.begin import begin
from gmi_drl.cli.train.command import train
from gmi_drl.cli.train.options import TrainOptions
from gmi_drl.config.task_names import as_file_name, with_arguments
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.run import RUNS
from gmi_drl.run.new_folder import first_free
from gmi_drl.units import counted, human_seconds, quoted
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.launch.sweep.sweep_file import Search, Sweep, Trial
    from gmi_drl.launch.sweep.table import Line
    from gmi_drl.launch.sweep.trial_process import Ended

PASSED_ON = ("task", "algo", "iterations", "num_env", "gmis_per_gpu", "config", "rsl_rl_config")
"""Options that each training gets, too."""

FILES = ("config", "rsl_rl_config")
"""Those of them that name a file."""

COMBINATIONS = 20
"""That a search tries unless --trials says otherwise."""

OF_TRAININGS = (*PASSED_ON, "env_arg", "stop_early", "search", "trials", "launcher")
OF_NEW_SWEEPS = (*OF_TRAININGS, "seeds", "set", "at_once", "sweep_dir", "command")


@click.command()
@click.option("--task", metavar="NAME", help="The task to train.  [default: ant]")
@env_arg_option
@algo_option()
@click.option("--seeds", metavar="LIST", help="Seeds of each combination, such as 0-15 or 0,3,5-7.  [default: 0-2]")
@click.option("--set", multiple=True, metavar="KEY=V,V,...", help="Values of a setting to try. Repeatable: all pairs.")
@click.option(
    "--search",
    multiple=True,
    metavar="KEY=LOW..HIGH",
    help="Let Optuna choose a setting's values: LOW..HIGH, LOW..HIGH:log, or V,V,... Repeatable. Extra [sweep].",
)
@click.option("--trials", type=click.IntRange(min=1), help="Combinations that --search tries.  [default: 20]")
@click.option("--iterations", type=click.IntRange(min=1), help="Iterations of each training.  [default: 500]")
@click.option("--num-env", type=click.IntRange(1, MOST_ENVIRONMENTS), help="Environments of each GMI.")
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="GMIs of each training.  [default: 1]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="A config.yaml for all trainings.")
@click.option("--rsl-rl-config", type=click.Path(path_type=Path), metavar="FILE", help="As that of `train`.")
@click.option("--command", metavar="TEXT", help="Run this program instead; {seed}, {name} and {KEY} are filled in.")
@click.option("--at-once", type=click.IntRange(min=1), help="Trials side by side.  [default: measured]")
@click.option("--stop-early", is_flag=True, help="Stop trainings whose best return is below the median of others.")
@click.option("--sweep-dir", type=click.Path(path_type=Path), help="Its folder.  [default: runs/sweep-TASK-TIME]")
@click.option("--resume", type=click.Path(path_type=Path), metavar="DIR", help="Go on with the sweep in this folder.")
@click.option(
    "--launcher",
    type=click.Choice(["local", "ray"]),
    help="Run trainings on this machine, or on the nodes of the Ray cluster that runs.  [default: local]",
)
@format_option
def sweep(format: str, resume: Path | None, **options: Any) -> None:
    """Train with many seeds and settings, several trainings side by side on this machine or on a Ray cluster.

    How many is measured for about a minute, so that all are done soonest. Each training is a usual run in a folder of
    its own, with equal cores, whatever else runs. A sweep that was stopped or killed goes on with --resume.
    """
    from gmi_drl.launch.signals import EndedAtOnce, stop_on_signals
    from gmi_drl.launch.sweep.run_sweep import Listener, run_sweep
    from gmi_drl.launch.sweep.sweep_file import read_sweep
    from gmi_drl.launch.sweep.table import results

    if resume is not None and (given := [name for name in OF_NEW_SWEEPS if options[name] not in (None, (), False)]):
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"{named}: a resumed sweep has its own: leave it out")
    begun = nullcontext((resume, read_sweep(resume))) if resume is not None else _new_sweep(options)
    with stop_on_signals() as request, begun as (folder, what):
        say(f"Sweep of {counted(what.total, 'trial')} in {folder}")
        try:
            is_done = run_sweep(folder, what, request, Listener(say, _Progress(folder, what)))
        except EndedAtOnce:
            say(f"Ended at once. Go on with: gmi-drl sweep --resume {quoted(folder)}")
            raise
    lines = results(folder, read_sweep(folder))
    if format == "json":
        print_json("sweep", {"sweep": str(folder), "done": is_done, "results": [line.document for line in lines]})
    else:
        _print(lines, folder)
    if not is_done and request.signal is not None:
        say(f"Stopped. Go on with: gmi-drl sweep --resume {quoted(folder)}")
        raise SystemExit(128 + request.signal)
    if failed := sum(line.failed for line in lines):
        say(f"{counted(failed, 'trial')} failed. Try again with: gmi-drl sweep --resume {quoted(folder)}")
        raise SystemExit(GmiError.exit_code)


def _usual(options: dict[str, Any]) -> Path:
    """The usual name of a new sweep's folder."""
    what = "command" if options["command"] is not None else options["task"] or "ant"
    return RUNS / f"sweep-{as_file_name(what)}-{time.strftime('%Y%m%d-%H%M%S')}"


def _new(options: dict[str, Any], folder: Path, written: list[Path]) -> "Sweep":
    """A new sweep, checked, and written into its folder as `sweep.json`. `written` gets the files as they are made."""
    from gmi_drl.launch.sweep.search import extremes, with_next
    from gmi_drl.launch.sweep.sweep_file import (
        Sweep,
        make_trials,
        read_seeds,
        read_sweep,
        read_values,
        write_sweep,
    )
    from gmi_drl.launch.sweep.trial_process import check_command

    command, passed, values = options["command"], dict(options), read_values(options["set"])
    seeds = read_seeds(options["seeds"] or "0-2")
    trials, search = make_trials(seeds, values), _search(options, values, seeds)
    if search is not None:
        trials = tuple(
            trials[0].model_copy(update={"settings": {**search.fixed, **ends}}) for ends in extremes(search.ranges)
        )
    if command is not None:
        if given := [name for name in OF_TRAININGS if options[name] not in (None, (), False)]:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise UsageError(f"{named}: is for trainings of ours, not for a --command: leave it out")
        check_command(command, trials)
    else:
        task = with_arguments(options["task"] or "ant", options["env_arg"])
        passed |= {"task": task, "gmis_per_gpu": options["gmis_per_gpu"] or 1}
        arguments = _arguments(passed)
        for trial in {tuple(trial.settings.items()): trial for trial in trials}.values():
            _check(arguments, trial)
    made = Sweep(
        command=command,
        trials=trials if search is None else (),
        at_once=options["at_once"],
        launcher=options["launcher"] or "local",
        stop_early=options["stop_early"],
        search=search,
    )
    if search is not None:
        made = with_next(folder, made)
    _claim(folder, written)
    arguments = _arguments(passed | _copied(passed, folder, written))
    write_sweep(folder, made.model_copy(update={"arguments": arguments}))
    return read_sweep(folder)


@contextmanager
def _new_sweep(options: dict[str, Any]) -> Iterator[tuple[Path, "Sweep"]]:
    """The folder of a new sweep, that of `--sweep-dir` or one that no other start has, and the sweep in it.

    Nothing is left of a sweep that is refused before a trial or a measurement has begun, or ended before it is written.
    """
    given: Path | None = options["sweep_dir"]
    wanted = given or _usual(options)
    missing = [path for path in (given, *wanted.parents) if path and not path.exists()]
    folder = given or first_free(wanted)
    if given is None:
        missing.insert(0, folder)
    written, is_whole = list[Path](), False
    try:
        made = _new(options, folder, written)
        is_whole = True
        yield folder, made
    except BaseException as error:
        if not is_whole or isinstance(error, GmiError | OSError):
            _remove(folder, written)
            for path in missing:
                with suppress(OSError):  # others have written there meanwhile
                    path.rmdir()
        raise


def _claim(folder: Path, written: list[Path]) -> None:
    """Make the folder if it is missing, and in it an empty `sweep.json`, which no other start then makes there.

    Raises:
        UsageError: if it is a file, or has files.
    """
    from gmi_drl.launch.sweep.run_sweep import LOCK
    from gmi_drl.launch.sweep.sweep_file import FILE

    if not (folder.is_dir() and any(folder.iterdir())):
        with suppress(FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FILE).touch(exist_ok=False)
            written += [folder / FILE, folder / LOCK]
            return
    remedy = f"go on with --resume {quoted(folder)}, or " if (folder / FILE).exists() else ""
    what = "is not empty" if folder.is_dir() else "is a file"
    raise UsageError(f"{folder} {what}: {remedy}choose another --sweep-dir")


def _remove(folder: Path, written: list[Path]) -> None:
    """Remove what this start has written, unless a trial or a measurement has begun, or another process goes on."""
    from gmi_drl.launch.sweep.run_sweep import locked_sweep

    with suppress(GmiError, OSError):
        if written and not any(path.is_dir() for path in folder.iterdir()):
            with locked_sweep(folder):
                for path in written:
                    path.unlink(missing_ok=True)


def _search(options: dict[str, Any], values: dict[str, list[str]], seeds: list[int]) -> "Search | None":
    """What --search and --trials ask for; None without --search."""
    from gmi_drl.launch.sweep.search import count_of, read_ranges
    from gmi_drl.launch.sweep.sweep_file import MOST_TRIALS, Search

    if not options["search"]:
        if options["trials"] is not None:
            raise UsageError("--trials: is for --search; without it all combinations are tried: leave it out")
        return None
    ranges = read_ranges(options["search"])
    for key, several in values.items():
        if key in ranges or len(several) > 1:
            raise UsageError(f"--set {key}: it has one value beside --search: name its values with --search {key}=...")
    fixed = {key: value for key, (value,) in values.items()}
    possible = count_of(ranges)
    combinations = options["trials"] or int(min(COMBINATIONS, possible))
    if combinations > possible:
        raise UsageError(f"--trials {combinations}: --search has {possible:.0f} combinations: give that or less")
    if combinations * len(seeds) > MOST_TRIALS:
        raise UsageError(f"{combinations} combinations x {len(seeds)} seeds: at most {MOST_TRIALS} trials")
    return Search(ranges=ranges, fixed=fixed, seeds=tuple(seeds), combinations=combinations)


def _arguments(options: dict[str, Any]) -> tuple[str, ...]:
    """The options of `train` that all trials have."""
    given = {name: options[name] for name in PASSED_ON if options[name] is not None}
    return tuple(word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value)))


def _copied(options: dict[str, Any], folder: Path, written: list[Path]) -> dict[str, Path]:
    """The files of options, copied into the sweep's folder: later trials get what the first ones got, from anywhere."""
    files: dict[str, Path] = {name: options[name] for name in FILES if options[name] is not None}
    copies = {name: folder.absolute() / f"{name}{file.suffix}" for name, file in files.items()}
    written += copies.values()
    for name, file in files.items():
        shutil.copyfile(file, copies[name])
    return copies


def _check(arguments: tuple[str, ...], trial: "Trial") -> None:
    """Refuse what `train` would refuse, before anything runs."""
    settings = [word for key, value in trial.settings.items() for word in ("--set", f"{key}={value}")]
    parsed = train.make_context("train", [*arguments, "--seed", str(trial.seed), *settings]).params
    begin(TrainOptions(**{name: parsed[name] for name in TrainOptions.__dataclass_fields__}))


class _Progress:
    """Prints a line for each trial that has ended, with the time that the others need."""

    def __init__(self, folder: Path, sweep: "Sweep") -> None:
        from gmi_drl.launch.sweep.trial_process import read_ended

        self.folder, self.total = folder, sweep.total
        before = [read_ended(folder, trial) for trial in sweep.trials]
        self.before = sum(ended is not None and not ended.has_failed for ended in before)
        self.ended = 0

    def __call__(self, trial: "Trial", ended: "Ended", busy_s: float) -> None:
        """Print the line, by the seconds in which trials have run."""
        self.ended += 1
        left = self.total - self.before - self.ended
        rest = human_seconds(busy_s / self.ended * left)
        how = "stopped early" if ended.early else _failure(self.folder, trial, ended) if ended.has_failed else "done"
        more = f"; about {rest} left" if left else ""
        say(f"{trial.name}: {how} ({self.before + self.ended} of {self.total}{more})")


def _failure(folder: Path, trial: "Trial", ended: "Ended") -> str:
    from gmi_drl.launch.sweep.trial_process import last_line, log_file

    return f"FAILED with exit code {ended.exit_code} ({last_line(folder, trial)}): see {log_file(folder, trial)}"


def _print(lines: list["Line"], folder: Path) -> None:
    """Print the table, best first."""
    has_returns = any(line.returns for line in lines)
    table = plain_table("settings", "done", *(("median return", "least", "most") if has_returns else ()))
    for line in lines:
        settings = ", ".join(f"{key}={value}" for key, value in line.settings.items()) or "(as usual)"
        counts = f"{line.done} of {line.total}"
        counts += f", {line.early} early" if line.early else ""
        counts += f", {line.failed} failed" if line.failed else ""
        values = [line.median, min(line.returns.values(), default=None), max(line.returns.values(), default=None)]
        cells = ["-" if value is None else f"{value:.1f}" for value in values] if has_returns else []
        table.add_row(settings, counts, *cells)
    console().print(table, markup=False)
    if lines[0].best:
        say(f"The best is {lines[0].best}. Next: gmi-drl compare {quoted(folder)}/*seed*")
