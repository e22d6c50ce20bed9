"""`gmi-drl status`."""

from pathlib import Path
from typing import Any

import rich_click as click

from gmi_drl.cli.options import format_option
from gmi_drl.cli.output import console, plain_table, print_json
from gmi_drl.errors import UsageError
from gmi_drl.run import RUNS

ASYNCHRONOUS = (
    "training_frames_per_second",
    "predictions_per_second",
    "rows",
    "rows_p95",
    "answer_p50_s",
    "answer_p99_s",
    "version_age_s",
)
"""Numbers of a row that only runs with actors and trainers on GMIs of their own have."""


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--runs-dir", type=click.Path(path_type=Path), help=f"The folder that holds the runs.  [default: {RUNS}]")
@format_option
def status(run: Path | None, runs_dir: Path | None, format: str) -> None:
    """Show the state of a RUN, or of all in the runs folder, and of your replay servers on this machine.

    The runs of a sweep are listed, too.
    """
    from gmi_drl.cli.replay.show import own_servers, print_servers
    from gmi_drl.run.folder import RunFolder

    if run is not None and runs_dir is not None:
        raise UsageError("RUN names one run, --runs-dir a folder of runs: give one of them")
    if runs_dir is not None and not runs_dir.is_dir():
        raise UsageError(f"--runs-dir {runs_dir}: no such folder")
    where = runs_dir or RUNS
    if run is not None:
        RunFolder(run).read_setup()  # raises if this is no run
        folders = [run]
    else:
        folders = run_folders(where)
    rows = [_describe(RunFolder(folder)) for folder in folders]
    servers, silent = own_servers() if run is None else ({}, {})
    if format == "json":
        print_json("status", {"runs": rows, "replay_servers": servers, "silent_replay_servers": silent})
        return
    if rows:
        _print(rows)
    else:
        console().print(f"No runs in {where}. Start one with: gmi-drl train", markup=False)
    if servers:
        print_servers(servers)
    for address, why in silent.items():
        console().print(f"replay server {address} tells nothing: {why}", markup=False)


def run_folders(where: Path) -> list[Path]:
    """The runs in a folder, those of its sweeps, too, newest last."""
    files = [*where.glob("*/layout.yaml"), *where.glob("*/*/layout.yaml")]
    return sorted((file.parent for file in files), key=lambda path: path.stat().st_mtime)


def _describe(folder: Any) -> dict[str, Any]:
    from gmi_drl.run.metrics import tail
    from gmi_drl.run.verdict import RECENT, verdict

    rows = tail(folder.metrics_file, RECENT)
    last = rows[-1] if rows else {}
    saved = folder.resumable()
    shown = ("iteration", "env_steps", "steps_per_second", "return_mean", "episode_length_mean")
    state, speed, frames = folder.read_state(), last.get("steps_per_second"), folder.frame_skip()
    return {
        "run": str(folder.path),
        "state": state["state"],
        "message": state["message"],
        "host": state["host"],
        **{name: last.get(name) for name in shown},
        "frames_per_second": frames * speed if frames > 1 and speed is not None else None,
        **{name: last[name] for name in ASYNCHRONOUS if name in last},
        "verdict": verdict(rows),
        "checkpoint": str(saved[-1]) if saved else None,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    from gmi_drl.units import human_count, quoted

    table = plain_table("run", "state", "iteration", "env steps", "steps/s", "return")
    for row in rows:
        mean = row["return_mean"]
        counts = ["-" if row[name] is None else human_count(row[name]) for name in ("env_steps", "steps_per_second")]
        table.add_row(
            escape(row["run"]),
            escape(f"running on {row['host']}") if row["state"] == "running" and row["host"] else row["state"],
            str(row["iteration"] or 0),
            *counts,
            "-" if mean is None else f"{mean:.1f}",
        )
    console().print(table)
    for row in rows:
        if row["frames_per_second"] is not None:
            console().print(f"{row['run']}: {human_count(row['frames_per_second'])} frames/s", markup=False)
    for row in rows if len(rows) == 1 else []:
        if row["verdict"]:
            console().print(row["verdict"], markup=False)
        if row["message"]:
            console().print(row["message"], markup=False)
        if row["state"] in ("stopped", "died", "failed") and row["checkpoint"]:
            command = f"gmi-drl train --resume {quoted(row['run'])}"
            console().print(f"Go on from {row['checkpoint']} with: {command}", markup=False)
