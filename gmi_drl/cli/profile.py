"""`gmi-drl profile`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from gmi_drl.cli.make_plan import usual_num_env
from gmi_drl.cli.options import (
    FiniteRange,
    algo_option,
    backend_option,
    env_arg_option,
    format_option,
    named_backend,
    played_as,
    simulator_option,
    task_set_option,
    use_simulator,
)
from gmi_drl.cli.output import console, print_json, require_folder, say, write_file
from gmi_drl.cli.plan.tables import point_table
from gmi_drl.cli.plan_options import refuse
from gmi_drl.config.task_names import known_tasks, with_arguments
from gmi_drl.errors import UsageError
from gmi_drl.units import quoted
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.profiler.measured_plan import Exploration
    from gmi_drl.workload import TaskSpec


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, separated by commas."""

    name = "n,n,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse the text into ascending numbers without duplicates."""
        words = str(value).split(",")
        if not all(word.strip().isdecimal() and 1 <= int(word) <= MOST_ENVIRONMENTS for word in words):
            self.fail(f"{value!r} is not a list of numbers from 1 on, such as 128,256", param, ctx)
        return tuple(sorted({int(word) for word in words}))


@click.command()
@click.option("--task", metavar="NAME", default="ant", help=f"The task that is measured: {known_tasks()}.")
@env_arg_option
@task_set_option
@algo_option()
@click.option(
    "--template",
    type=click.Choice(["workers"]),
    help="Measure what one core does of simulating, answering and learning, with one --num-env, for plans of this"
    " template.",
)
@click.option(
    "--gmis-per-gpu",
    type=Numbers(),
    help="Numbers of GMIs per device to measure.  [default: from 1 up to 10, as cores and the backend allow]",
)
@click.option(
    "--num-env",
    type=Numbers(),
    help="Numbers of environments per GMI to measure.  [default: 128 to 16384, doubling; on a GPU to 65536]",
)
@backend_option()
@click.option(
    "--budget",
    type=FiniteRange(min=1),
    metavar="SECONDS",
    help="Time for measuring; what does not fit is left out.  [default: no limit]",
)
@click.option(
    "--noise", is_flag=True, help="Measure the gradient noise scale, too, which `plan --objective learning` needs."
)
@click.option("--fresh", is_flag=True, help="Measure again what was measured before.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("profile.json"),
    help="The profile file to write.",
)
@simulator_option
@format_option
def profile(
    task: str,
    env_arg: tuple[str, ...],
    set: tuple[str, ...],
    algo: str | None,
    template: str | None,
    gmis_per_gpu: tuple[int, ...] | None,
    num_env: tuple[int, ...] | None,
    backend: str | None,
    budget: float | None,
    noise: bool,
    fresh: bool,
    output: Path,
    simulator_python: str | None,
    format: str,
) -> None:
    """Measure the speed of a training on this machine with many numbers of GMIs and environments; write a profile file.

    `gmi-drl plan --profile` chooses from it, here or on another machine. Each measurement is remembered at once: after
    an interruption the same command continues.
    """
    from gmi_drl import scheduler
    from gmi_drl.config.learners import OUR_PPO
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.launch.task_info import usual_config
    from gmi_drl.layout.cut import Cut
    from gmi_drl.profiler.budget import budget_of
    from gmi_drl.profiler.measured_plan import explore, known_noise, known_speeds
    from gmi_drl.scheduler.profile import dump_profile
    from gmi_drl.templates import devices_of, require_division

    require_folder(output)
    use_simulator(simulator_python, task)
    named = with_arguments(task, env_arg)
    spec, config = usual_config(named, algo or OUR_PPO.name, played_as(named, set))
    node = this_node()
    for count in num_env or ():
        spec.require_whole_worlds(count)
    if template:
        points: dict[str, object] = {"--gmis-per-gpu": gmis_per_gpu, "--backend": backend}
        points |= {"--noise": noise or None, "--fresh": fresh or None}
        refuse(f"--template {template} measures one core", points)
        _profile_workers(spec, config, num_env, budget, set, output, format)
        return
    way, (_, most) = named_backend(backend), devices_of(node)
    horizon = config.learner.horizon
    sizes = gmis_per_gpu or [cut.gmis_per_gpu for cut in scheduler.search_grid(node, horizon, backends=(way,))]
    if beyond := [size for size in sizes if size > most]:
        raise UsageError(f"--gmis-per-gpu {','.join(map(str, beyond))}: a device of {node.name} takes {most} at most")
    for size in sizes:
        require_division(node, Cut(size, 1, way))
    num_envs = {size: num_env or scheduler.num_envs_of(node, spec, config.physics) for size in sizes}
    wanted = scheduler.with_caps(scheduler.grid_of(num_envs, way))
    limit = budget_of(math.inf if budget is None else budget, spec, config, node, say)
    speeds = known_speeds(spec, config, node, wanted, limit, fresh=fresh, tell=say)
    scale = known_noise(spec, config, node, limit, fresh=fresh, tell=say) if noise else None
    found = explore(spec, config, node, wanted, limit, lambda *_: speeds, exhaustive=True, fresh=fresh, tell=say)
    known = {"speeds": speeds or None, "noise": scale}
    write_file(output, dump_profile(found.profile.model_copy(update=known)))
    _report(found, set, output, format)


def _profile_workers(
    spec: "TaskSpec",
    config: "RunConfig",
    num_envs: tuple[int, ...] | None,
    budget: float | None,
    settings: tuple[str, ...],
    output: Path,
    format: str,
) -> None:
    """Measure one core for plans of workers."""
    from gmi_drl.config.learners import OUR_PPO
    from gmi_drl.profiler.worker_rates import profile_here, rates_told
    from gmi_drl.scheduler.worker_rates import dump_worker_profile

    if num_envs and len(num_envs) > 1:
        raise UsageError("--template workers measures one number of environments: give one --num-env")
    measured = profile_here(spec, config, num_envs[0] if num_envs else usual_num_env(spec), budget or math.inf, say)
    write_file(output, dump_worker_profile(measured))
    if format == "json":
        print_json("profile-workers", {"profile_file": str(output), **measured.model_dump(mode="json", by_alias=True)})
        return
    console().print(rates_told(measured), markup=False, soft_wrap=True)
    by = () if measured.learner == OUR_PPO.name else ("--algo", measured.learner)
    _tell_next(output, settings, "--template", "workers", "--task", measured.task, *by, "--cluster", "FILE")


def _report(found: "Exploration", settings: tuple[str, ...], output: Path, format: str) -> None:
    """Print what was measured, what was left out, and the next command."""
    from gmi_drl.scheduler.cut_list import listed

    if format == "json":
        points = [point.model_dump(mode="json") for point in found.profile.points]
        capped, uncapped = (
            [(cut.gmis_per_gpu, cut.num_env) for cut in found.unmeasured if cut.capped is are] for are in (True, False)
        )
        told = {"profile_file": str(output), "points": points, "unmeasured": uncapped, "unmeasured_capped": capped}
        print_json("profile-run", told)
        return
    console().print(point_table(found.profile))
    if found.unmeasured:
        left = listed(found.unmeasured, (point.cut for point in found.profile.points))
        console().print(f"not measured for want of time (GMIs per device x environments): {left}", markup=False)
    _tell_next(output, settings, "--task", found.profile.task)


def _tell_next(output: Path, settings: tuple[str, ...], *options: str) -> None:
    """Print the command that plans by a profile, to copy, with the --set of the measured task."""
    again = (word for setting in settings for word in ("--set", setting))
    command = " ".join(map(quoted, ("gmi-drl", "plan", *options, *again, "--profile", output)))
    console().print(f"Wrote {output}. Next: {command}", markup=False, soft_wrap=True)
