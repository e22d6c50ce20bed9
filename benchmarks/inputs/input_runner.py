"""Runs a command of gmi-drl in this process, until it would start processes or measure."""

import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from gmi_drl.errors import GmiError

STARTS = (
    "gmi_drl.launch.training:stop_on_signals",
    "gmi_drl.launch.serving:serve",
    "gmi_drl.launch.task_info:_ask",
    "gmi_drl.launch.ray.client:ray_client",
    "gmi_drl.launch.ray.describe:described_cluster",
    "gmi_drl.launch.ray.cluster:connected",
    "gmi_drl.profiler.measured_plan:plan_here",
    "gmi_drl.profiler.measured_plan:explore",
    "gmi_drl.profiler.measured_plan:known_noise",
    "gmi_drl.profiler.measured_plan:known_speeds",
    "gmi_drl.profiler.decoupled_plan:plan_here",
    "gmi_drl.profiler.memory_check:_points_of_few",
    "gmi_drl.benchmarks.runner:run_case",
)
"""The functions of the package that start processes or measure, as `module:function`."""

LIMIT_S = 60
"""Seconds that a command may take, as it starts nothing."""


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class WouldStartError(GmiError):
    """Raised where the command would start processes or measure."""


def run_here(arguments: list[str], folder: Path) -> Said:
    """Run `gmi-drl ARGUMENTS` in a folder."""
    from gmi_drl.cli import main

    out, err = io.StringIO(), io.StringIO()
    with _as_it_was(folder), redirect_stdout(out), redirect_stderr(err), patch("sys.argv", ["gmi-drl", *arguments]):
        signal.alarm(LIMIT_S)
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except _TooSlow:
            code = -1
        finally:
            signal.alarm(0)
    return Said(code, out.getvalue(), err.getvalue())


class _TooSlow(BaseException):
    """The command has taken too long."""


@contextmanager
def _as_it_was(folder: Path) -> Iterator[None]:
    """Restore working directory, environment, signal handlers and patched functions after a `with` block."""
    before, environment = Path.cwd(), dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    showwarning, streams = warnings.showwarning, (sys.stdout, sys.stderr)
    replaced = [_replaced(place) for place in STARTS]
    os.chdir(folder)
    os.environ |= {"GMI_DRL_CACHE": str(folder / "cache"), "GMI_DRL_CLAIMS": str(folder / "claims")}
    signal.signal(signal.SIGALRM, _stop)
    for one in replaced:
        one.start()
    try:
        yield
    finally:
        for one in replaced:
            one.stop()
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        warnings.showwarning, (sys.stdout, sys.stderr) = showwarning, streams
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _replaced(place: str) -> "patch":  # type: ignore[valid-type]
    module, _, name = place.partition(":")

    def stop(*args: object, **more: object) -> None:
        raise WouldStartError(f"would start {place}")

    return patch.object(import_module(module), name, stop)


def _stop(number: int, frame: object) -> None:
    raise _TooSlow
