import json
import re
from dataclasses import replace

import pytest
from conftest import untrained_run

from gmi_drl.cli import play as command
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS, UNLIMITED_STEPS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Of the ant, left as it is by every test."""
    with untrained_run(tmp_path_factory.mktemp("runs") / "run", "ant") as folder:
        yield folder.path


def test_returns_are_told_without_any_opengl(command_line, run, monkeypatch):
    monkeypatch.setattr("gmi_drl.tasks.sim.offscreen.open_context", lambda *size: pytest.fail("nothing is to be drawn"))
    code, out, err = command_line("play", run, "--num-env", 3, "--steps", 30, "--format", "json")
    document = json.loads(out)
    assert (code, err, document["schema"]) == (0, "", "gmi-drl/play/1")
    assert (document["task"], document["iteration"], document["steps"], document["video"]) == ("ant", 2, 30, None)
    assert document["seconds"] == pytest.approx(0.5)
    lengths = [[e["length"] for e in (*world["finished"], world["running"])] for world in document["worlds"]]
    assert len(lengths) == 3 and all(sum(world) == 30 for world in lengths)


def test_the_seed_decides_and_people_get_a_table(command_line, run):
    arguments = ("play", run, "--seconds", 0.2, "--seed")
    tables = [command_line(*arguments, seed)[1] for seed in (1, 1, 2)]
    assert tables[0] == tables[1] != tables[2]
    assert re.search(r"iteration 2: ant, 12 steps \(0.2 s\)", tables[0].replace("\n", ""))
    assert len(re.findall(r"^\d .*running", tables[0], re.MULTILINE)) == 4
    _, untrained, _ = command_line(*arguments, 1, "--untrained", "--stochastic")
    assert "iteration 0: ant" in untrained.replace("\n", "")


@pytest.mark.parametrize("name", ["ant.gif", "ant.mp4"])
def test_a_video_shows_every_second_step(command_line, run, tmp_path, opengl, name):
    arguments = ("--num-env", 2, "--steps", 6, "--size", "64x32", "--camera", "side")
    code, _, err = command_line("play", run, "-o", name, *arguments)
    assert (code, err) == (0, f"Wrote {name}\n")
    assert frames_of(tmp_path / name) == (3, (64, 32))


def frames_of(path):
    if path.suffix == ".gif":
        from PIL import Image

        with Image.open(path) as file:
            return file.n_frames, file.size
    import av

    with av.open(str(path)) as file:
        frames = list(file.decode(video=0))
    return len(frames), (frames[0].width, frames[0].height)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", 3, "--seconds", 1), "--steps and --seconds cannot be given together"),
        (("-o", "a.avi"), "a video ends in .mp4 or .gif"),
        (("-o", "a.mp4", "--size", "65x64"), "65x64: the width and height of an MP4 must be even"),
        (("-o", "a.gif", "--size", "64"), "--size 64: expected WIDTHxHEIGHT"),
        (("-o", "a.gif", "--size", "0x9"), "--size 0x9: expected WIDTHxHEIGHT"),
        (("-o", "a.gif", "--camera", "top"), "no camera 'top'; there are: side"),
        (("-o", "a.gif", "--size", "1x1"), "4 environments do not fit into 1 x 1 pixels"),
    ],
)
def test_mistakes_are_exit_2(command_line, run, arguments, message):
    code, out, err = command_line("play", run, *arguments)
    assert (code, out) == (2, "") and message in err


def test_a_wrong_name_of_a_video_is_told_before_the_simulator_starts(command_line, run, monkeypatch):
    monkeypatch.setattr("gmi_drl.cli.play.open_task", None)
    assert command_line("play", run, "-o", "a.avi")[0] == 2


def test_no_run_is_exit_2(command_line):
    code, _, err = command_line("play", "nowhere")
    assert code == 2 and "nowhere is not a run folder" in err


def test_without_opengl_a_video_is_exit_4(command_line, run, monkeypatch):
    def fail(width, height):
        raise MachineError("no OpenGL works here: install libosmesa6")

    monkeypatch.setattr("gmi_drl.tasks.sim.renderer.open_context", fail)
    code, _, err = command_line("play", run, "-o", "a.gif")
    assert code == 4 and "libosmesa6" in err


class Foreign:
    """A task that is not ours."""

    def __init__(self, *args, **more):
        self.task = make(*args, **more)

    def __getattr__(self, name):
        return getattr(self.task, name)


def test_tasks_that_draw_themselves_are_not_drawn(run, monkeypatch, command_line):
    monkeypatch.setattr("gmi_drl.tasks.make", Foreign)
    code, _, err = command_line("play", run, "-o", "a.gif", "--steps", 2)
    assert code == 2 and "as another simulator runs it: leave out -o" in err
    assert command_line("play", run, "--steps", 2)[0] == 0


def test_by_default_an_episode_is_played_or_ten_seconds_filmed():
    ant = TASK_SPECS["ant"]
    assert command._steps(ant, None, None, is_video=False) == 1000
    assert command._steps(ant, None, None, is_video=True) == 600
    assert command._steps(ant, None, 0.001, is_video=True) == 1


def test_a_task_without_limit_or_time_asks_for_steps():
    endless, timeless = replace(TASK_SPECS["ant"], episode_steps=UNLIMITED_STEPS), replace(TASK_SPECS["ant"], step_s=0)
    with pytest.raises(UsageError, match=r"ant have no limit.*--steps"):
        command._steps(endless, None, None, is_video=False)
    with pytest.raises(UsageError, match="give --steps, not --seconds"):
        command._steps(timeless, None, 2.0, is_video=False)
    assert command._steps(timeless, 7, None, is_video=False) == 7
