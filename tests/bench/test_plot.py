import struct

import pytest
from bench.toy import toy_case

from gmi_drl.bench.case import CURVES, DOUBLINGS, Sample
from gmi_drl.bench.plot import draw, plot
from gmi_drl.bench.runner import run_case

pytest.importorskip("matplotlib", reason="needs the extra [plots]")


def size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_samples_are_drawn(tmp_path):
    plot(run_case(toy_case(), repeats=3), tmp_path / "toy.png")
    assert min(size(tmp_path / "toy.png")) > 200


def test_curves_over_doublings_are_drawn_at_their_own_points(tmp_path):
    from contextlib import contextmanager

    @contextmanager
    def open_sides(quick):
        curves = {f"environments {DOUBLINGS}": [128, 256, 512], "steps/s": [3.0, 4.0, 3.5]}
        yield {name: lambda: Sample(4.0, {CURVES: curves}) for name in ("ant", "humanoid")}

    result = run_case(toy_case(open=open_sides, compared=False), repeats=1)
    figure = draw(result)
    (axis,) = figure.axes
    assert axis.get_xscale() == "log" and axis.get_xlabel() == "environments"
    assert axis.lines[1].get_xdata().tolist() == [128, 256, 512]


def test_curves_are_drawn_one_picture_per_x(tmp_path):
    from contextlib import contextmanager

    @contextmanager
    def open_sides(quick):
        curves = {"steps": [1, 2, 4], "seconds": [0.5, 1.0, 2.0], "return": [0.0, 3.0, 5.0]}
        yield {"ours": lambda: Sample(5.0, {CURVES: curves})}

    plot(run_case(toy_case(open=open_sides), repeats=2), tmp_path / "toy.png")
    width, height = size(tmp_path / "toy.png")
    assert width > 2 * height
