"""`gmi-drl serve`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.layouts import check_apply_mig, make_layout, read_layout, with_backend
from gmi_drl.cli.make_plan import DEFAULT_NUM_ENV, IMAGES_NUM_ENV, usual_num_env
from gmi_drl.cli.options import (
    apply_mig_option,
    backend_option,
    format_option,
    launcher_option,
    simulator_option,
    use_simulator,
)
from gmi_drl.cli.output import console, plain_table, print_json, say
from gmi_drl.cli.replay.calls import token_of, token_option
from gmi_drl.errors import UsageError
from gmi_drl.run.phases import ACT, SIMULATE, WAIT
from gmi_drl.units import counted, human_count
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.launch.served import Served, ServedGMI
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder

SHOWN = 16
WIDE = 100
"""Columns from which the seconds of each phase and the times of control steps are shown for each GMI, too."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("layout", metavar="[LAYOUT]", required=False, type=click.Path(path_type=Path))
@click.option("--steps", type=click.IntRange(min=1), required=True, help="Control steps of each environment.")
@click.option(
    "--num-env",
    type=click.IntRange(1, MOST_ENVIRONMENTS),
    help=f"Environments of each GMI.  [default: {DEFAULT_NUM_ENV}, of images {IMAGES_NUM_ENV}]",
)
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="GMIs of each device.  [default: one per core or GPU]")
@backend_option("the layout's")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Seed of the environments and the noise.")
@click.option("--stochastic", is_flag=True, help="Act with the noise of training, not by the mean action.")
@click.option(
    "--experience",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write observations, actions and rewards of all GMIs to this new folder: safetensors files, a dataset.",
)
@click.option(
    "--into",
    metavar="HOST:PORT/TABLE",
    help="Send observations, actions and rewards of all GMIs into a table of a replay server.",
)
@token_option
@launcher_option
@apply_mig_option
@simulator_option
@format_option
def serve(
    run: Path,
    layout: Path | None,
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str | None,
    launcher: str,
    experience: Path | None,
    into: str | None,
    token_file: Path | None,
    simulator_python: str | None,
    format: str,
    **options: Any,
) -> None:
    """Run the policy of a RUN on all GMIs of a LAYOUT file, or of this machine cut evenly, without learning.

    `gmi-drl plan --template serving` makes such a layout. The result has steps/s, returns, and the time of a control
    step. The run is not changed. Ctrl-C ends early and prints the result of what was done so far.
    """
    from gmi_drl.cli.train.checks import warn_physics
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.launch.launchers import LOCAL, layout_for, supervisors_for
    from gmi_drl.launch.serving import require_one_machine, servable
    from gmi_drl.launch.serving import serve as launch
    from gmi_drl.launch.signals import EndedAtOnce
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.profiler.memory_check import require_room
    from gmi_drl.roles.serving.player import require_policy
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.templates import TCG

    if token_file is not None and into is None:
        raise UsageError("--token-file is the token of the replay server of --into: name it, or leave it out")
    folder = RunFolder(run)
    trained, config = folder.read_setup()
    task = require_policy(folder, trained, config)
    use_simulator(simulator_python, task, is_here=launcher == LOCAL)
    if layout is not None:
        chosen = read_layout(layout, {"--num-env": num_env, "--gmis-per-gpu": gmis_per_gpu})
    else:
        count = num_env or usual_num_env(task_spec(task, config.task))
        chosen = make_layout(task, count, gmis_per_gpu, TCG, played=config.task)
    chosen = layout_for(launcher, with_backend(chosen, backend))
    servable(chosen, folder)
    check_apply_mig(chosen, options["apply_mig"])
    require_one_machine(experience, is_local=launcher == LOCAL)
    if launcher == LOCAL:
        warn_physics(chosen, config)
        require_room(chosen, config, task_spec(task, config.task), this_node(), tell=say)
    sent = {"into": into, "token": token_of(token_file)} if into is not None else {}
    announce = partial(_announce, chosen, is_usual=layout is None and num_env is None)
    try:
        with supervisors_for(launcher, chosen) as agents:
            options |= {"experience": experience, "on_start": announce, **sent}
            served = launch(chosen, folder, supervisors=agents, **options)
    except EndedAtOnce:
        say("gmi-drl: ended at once")
        raise
    _report(served, folder, task, format)
    if experience is not None and format == "table":
        say(f"Wrote {experience}. Read it with gmi_drl.replay.ExperienceDataset({str(experience)!r}).")
    if into is not None and format == "table":
        say(f"Sent to {into}.")
    if served.signal is not None:
        raise SystemExit(128 + served.signal)


def _announce(layout: "Layout", *, is_usual: bool) -> None:
    """Print that serving has begun, and which option sets the number of environments if none did."""
    each = f": {layout.gmis[0].num_env} each (--num-env)" if is_usual else ""
    gmis = counted(len(layout.gmis), "GMI")
    say(f"Serving {layout.task} on {gmis} with {counted(layout.num_env, 'environment')}{each}")


def _report(served: "Served", folder: "RunFolder", task: str, format: str) -> None:
    """Print speed and episodes, of all GMIs together and of each."""
    from gmi_drl.cli.live_table import usage_text

    names = ("episodes", "return_sum", "length_sum", "bad")
    sums = {name: sum(getattr(gmi, name) for gmi in served.gmis.values()) for name in names}
    if format == "json":
        document = {
            "run": str(folder.path),
            "task": task,
            "iteration": served.iteration,
            "state": "stopped" if served.signal else "done",
            "env_steps": sum(gmi.env_steps for gmi in served.gmis.values()),
            "steps_per_second": served.steps_per_second,
            **_means(sums),
            "latency_ms": served.latencies.milliseconds(),
            "policies": {name: _means(sums) for name, sums in served.policies.items()},
            "devices": served.devices,
            "gmis": {str(gmi_id): _document(gmi) for gmi_id, gmi in served.gmis.items()},
        }
        print_json("serve", document)
        return

    speed = human_count(served.steps_per_second)
    console().print(f"{folder.path}, iteration {served.iteration}: {task}, {speed} steps/s in all", markup=False)
    for device, values in served.devices.items():
        console().print(f"{device}: {usage_text(values)}", markup=False)
    _print(served)
    if latency := served.latencies.milliseconds():
        times = ", ".join(f"{name} {ms:.3g}" for name, ms in latency.items())
        console().print(f"A control step of all environments of a GMI took, in ms: {times}", markup=False)
    for name, own in {"": sums, **served.policies}.items():
        means = _means(own)
        if means["episodes"]:
            told = f"return {means['return_mean']:.1f}, length {means['episode_length_mean']:.1f}"
            who = f"{name}: mean" if name else "Mean"
            console().print(f"{who} of {means['episodes']} finished: {told}", markup=False)
    if served.signal is not None:
        say("Stopped before all steps were done.")


def _means(sums: Mapping[str, float]) -> dict[str, float | None]:
    """What is told of sums over episodes."""
    episodes = sums["episodes"]
    return {
        "episodes": episodes,
        "return_mean": sums["return_sum"] / episodes if episodes else None,
        "episode_length_mean": sums["length_sum"] / episodes if episodes else None,
        "bad": sums["bad"],
    }


def _document(gmi: "ServedGMI") -> dict[str, Any]:
    numbers = (
        "num_env",
        "steps",
        "steps_per_second",
        "sim_s",
        "act_s",
        "sync_s",
        "episodes",
        "return_sum",
        "length_sum",
        "bad",
    )
    return {**{name: getattr(gmi, name) for name in numbers}, "latency_ms": gmi.latencies.milliseconds()}


def _print(served: "Served") -> None:
    out, waits = console(), any(gmi.sync_s for gmi in served.gmis.values())
    wide = out.width >= WIDE
    phases = [f"{phase.label} s" for phase in (SIMULATE, ACT, *([WAIT] if waits else []))] if wide else []
    times = ("p50 ms", "p95", "p99", "max") if wide else ()
    table = plain_table("GMI", "environments", "steps", "steps/s", *phases, *times, "episodes", "return", "length")
    for gmi_id, gmi in list(served.gmis.items())[:SHOWN]:
        means = (gmi.return_sum / gmi.episodes, gmi.length_sum / gmi.episodes) if gmi.episodes else ()
        latency = gmi.latencies.milliseconds() or {}
        table.add_row(
            *(str(gmi_id), str(gmi.num_env), str(gmi.steps), human_count(gmi.steps_per_second)),
            *[f"{seconds:.2f}" for seconds in (gmi.sim_s, gmi.act_s, gmi.sync_s)][: len(phases)],
            *([f"{ms:.3g}" for ms in latency.values()] or [""] * len(times))[: len(times)],
            *(str(gmi.episodes), *(f"{mean:.1f}" for mean in means)),
        )
    out.print(table)
    if len(served.gmis) > SHOWN:
        out.print(f"... and {len(served.gmis) - SHOWN} more: --format json shows all")
