"""`gmi-drl play`."""

import re
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.local_task import open_task
from gmi_drl.cli.options import FiniteRange, format_option, simulator_option, use_simulator
from gmi_drl.cli.output import console, plain_table, print_json, say
from gmi_drl.config.task_names import ForeignTask, find_task
from gmi_drl.errors import UsageError
from gmi_drl.workload import UNLIMITED_STEPS

if TYPE_CHECKING:
    from gmi_drl.cli.pictures import Pictures
    from gmi_drl.roles.serving.player import Episode, EpisodePlayer
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.tasks import Task
    from gmi_drl.workload import TaskSpec

VIDEO_S = 10.0
MOST_S = 10**9
SIZE = "640x480"
MOST_PIXELS = 8192
SHOWN = 20
UNKNOWN_STEP_S = 0.1
"""Seconds of a step in the video of a simulator that does not tell them."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The video to write: FILE.mp4 or FILE.gif.")
@click.option("--num-env", type=click.IntRange(1, 4096), default=4, help="Environments; a video shows them as tiles.")
@click.option("--steps", type=click.IntRange(min=1), help="Control steps.  [default: one episode, or a video of 10 s]")
@click.option("--seconds", type=FiniteRange(0, MOST_S, min_open=True), help="Simulated time instead of --steps.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Seed of the environments and the noise.")
@click.option("--stochastic", is_flag=True, help="Act with the noise of training, not by the mean action.")
@click.option(
    "--untrained", is_flag=True, help="Play a policy that has learnt nothing; of our learners that of the run's start."
)
@click.option("--camera", help="The model's camera that films.  [default: its first]")
@click.option("--size", metavar="WxH", help=f"Pixels of the whole picture.  [default: {SIZE}]")
@simulator_option
@format_option
def play(run: Path, format: str, output: Path | None, num_env: int, seed: int, **options: Any) -> None:
    """Play the policy of a RUN: show the returns of its episodes, and write a video with -o.

    The newest checkpoint is played, also while the training goes on. Without -o no OpenGL is needed.
    """
    from gmi_drl.roles.serving.load_player import load_player
    from gmi_drl.roles.serving.player import require_task
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.video import check_video

    folder = RunFolder(run)
    layout, config = folder.read_setup()
    task_name = require_task(folder, layout)
    if output is None and not (options["camera"] is options["size"] is None):
        raise UsageError("--camera and --size are for a video: name its file with -o")
    use_simulator(options["simulator_python"], task_name)
    if output is not None:
        check_video(output, _size(options["size"] or SIZE))  # before the simulator and OpenGL start
    if is_foreign := isinstance(find_task(task_name), ForeignTask):
        _refuse_drawing(options["camera"], options["size"])
    films = is_foreign and output is not None
    with open_task(task_name, num_env, seed, settings=config.task, films=films) as task:
        steps = _steps(task.spec, options["steps"], options["seconds"], is_video=output is not None)
        how = {name: options[name] for name in ("stochastic", "untrained")}
        player = load_player(folder, config, task, seed=seed, **how)
        if output is None:
            _play(player, steps)
        else:
            size = _size(options["size"] or SIZE)
            with closing(_pictures(task, size, options["camera"])) as pictures:
                _film(player, steps, output, pictures)
        _report(folder, player, steps, output, format)


def _play(player: "EpisodePlayer", steps: int) -> None:
    for _ in range(steps):
        player.step()


def _film(player: "EpisodePlayer", steps: int, output: Path, pictures: "Pictures") -> None:
    from rich.console import Console
    from rich.progress import track

    from gmi_drl.run.video import check_video, open_video, stride_of

    step_s = player.task.spec.step_s or UNKNOWN_STEP_S
    check_video(output, pictures.size)
    stride = stride_of(step_s)
    is_shown = sys.stderr.isatty()
    with open_video(output, pictures.size, stride * step_s) as add:
        for step in track(range(steps), "Drawing", console=Console(stderr=True), transient=True, disable=not is_shown):
            if step % stride == 0:
                add(pictures.draw())
            player.step()


def _pictures(task: "Task", size: tuple[int, int], camera: str | None) -> "Pictures":
    """What draws a task: a renderer of our physics, or the other library's own pictures."""
    from gmi_drl.cli.pictures import OwnPictures, RenderedPictures
    from gmi_drl.tasks import SimTask

    if isinstance(task, SimTask):
        return RenderedPictures(task, size, camera)
    if not hasattr(task, "draw"):
        raise UsageError(f"{task.spec.name} cannot be drawn, as another simulator runs it: leave out -o")
    return OwnPictures(task)


def _refuse_drawing(camera: str | None, size: str | None) -> None:
    given = {"--camera": camera, "--size": size}
    if names := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"{', '.join(names)}: a video of another simulator has its own pictures: leave it out")


def _steps(spec: "TaskSpec", steps: int | None, seconds: float | None, is_video: bool) -> int:
    if steps is not None and seconds is not None:
        raise UsageError("--steps and --seconds cannot be given together")
    if steps is not None:
        return steps
    if seconds is None and not is_video:
        if spec.episode_steps >= UNLIMITED_STEPS:
            raise UsageError(f"episodes of {spec.name} have no limit: give a number of --steps")
        return spec.episode_steps
    if not spec.step_s:
        raise UsageError(f"{spec.name} does not say how long a step is: give --steps, not --seconds")
    return max(1, round((seconds or VIDEO_S) / spec.step_s))


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    width, height = (int(number) for number in match.groups()) if match else (0, 0)
    if not (0 < width <= MOST_PIXELS and 0 < height <= MOST_PIXELS):
        raise UsageError(f"--size {text}: expected WIDTHxHEIGHT in pixels, each up to {MOST_PIXELS}, e.g. 640x480")
    return width, height


def _report(folder: "RunFolder", player: "EpisodePlayer", steps: int, output: Path | None, format: str) -> None:
    """Print the episodes and the name of the video."""
    spec, running = player.task.spec, player.running()
    whole = [episode for episode in player.finished if episode.ended != "bad"]
    mean = _mean([episode.total for episode in whole]), _mean([float(episode.length) for episode in whole])
    if format == "json":
        document = {
            "run": str(folder.path),
            "task": spec.name,
            "iteration": player.iteration,
            "steps": steps,
            "seconds": steps * spec.step_s if spec.step_s else None,
            "video": str(output) if output else None,
            "episodes": len(player.finished),
            "return_mean": mean[0],
            "episode_length_mean": mean[1],
            "worlds": [_environment(player.finished, episode) for episode in running],
        }
        print_json("play", document)
        return
    seconds = f" ({steps * spec.step_s:.1f} s)" if spec.step_s else ""
    title = f"{folder.path}, iteration {player.iteration}: {spec.name}, {steps} steps{seconds}"
    console().print(title, markup=False)
    _print(player.finished, running)
    if whole:
        console().print(f"Mean of {len(whole)} finished: return {mean[0]:.1f}, length {mean[1]:.1f}")
    if output is not None:
        say(f"Wrote {output}")


def _environment(finished: list["Episode"], running: "Episode") -> dict[str, Any]:
    mine = [episode for episode in finished if episode.env == running.env]
    return {
        "finished": [{"return": e.total, "length": e.length, "ended": e.ended} for e in mine],
        "running": {"return": running.total, "length": running.length},
    }


def _print(finished: list["Episode"], running: list["Episode"]) -> None:
    episodes = sorted([*finished, *(episode for episode in running if episode.length)], key=lambda e: e.env)
    table = plain_table("environment", "return", "length", "ended")
    for episode in episodes[:SHOWN]:
        table.add_row(str(episode.env), f"{episode.total:.1f}", str(episode.length), episode.ended)
    console().print(table)
    if len(episodes) > SHOWN:
        console().print(f"... and {len(episodes) - SHOWN} more: --format json shows all")


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
