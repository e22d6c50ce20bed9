import struct
from contextlib import contextmanager

import pytest

from gmi_drl.benchmarks.case import CURVES, DOUBLINGS, Sample
from gmi_drl.benchmarks.plot import draw, draw_panels, plot
from gmi_drl.benchmarks.runner import run_case
from tests.benchmarks.toy import toy_case

pytest.importorskip("matplotlib", reason="needs the extra [plots]")


def size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_samples_are_drawn(tmp_path):
    plot(run_case(toy_case(), repeats=3), tmp_path / "toy.png")
    assert min(size(tmp_path / "toy.png")) > 200


def run_with(curves, repeats, sides=("ours",)):
    @contextmanager
    def open_sides(quick):
        yield {name: lambda: Sample(4.0, {CURVES: curves}) for name in sides}

    return run_case(toy_case(open=open_sides, compared=False), repeats=repeats)


def test_curves_over_doublings_are_drawn_at_their_own_points():
    curves = {f"environments {DOUBLINGS}": [128, 256, 512], "steps/s": [3.0, 4.0, 3.5]}
    (axis,) = draw(run_with(curves, 1, sides=("ant", "humanoid"))).axes
    assert axis.get_xscale() == "log" and axis.get_xlabel() == "environments"
    assert axis.lines[1].get_xdata().tolist() == [128, 256, 512]


def test_curves_are_drawn_one_picture_per_x(tmp_path):
    curves = {"steps": [1, 2, 4], "seconds": [0.5, 1.0, 2.0], "return": [0.0, 3.0, 5.0]}
    plot(run_with(curves, 2), tmp_path / "toy.png")
    width, height = size(tmp_path / "toy.png")
    assert width > 2 * height


def test_several_results_are_drawn_in_panels_of_their_first_curves():
    result = run_with({"steps": [1, 2, 4], "seconds": [0.5, 1.0, 2.0], "return": [0.0, 3.0, 5.0]}, 2)
    panels = draw_panels({"ant": result, "humanoid": result}).axes
    assert [panel.get_title() for panel in panels] == ["ant, 2 seeds", "humanoid, 2 seeds"]
    assert [panel.get_xlabel() for panel in panels] == ["steps", "steps"]
    assert panels[0].lines[-1].get_ydata()[-1] == 5.0
