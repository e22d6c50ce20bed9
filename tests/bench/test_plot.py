import struct

import pytest
from bench.toy import toy_case

from gmi_drl.bench.case import CURVES, Sample
from gmi_drl.bench.plot import plot
from gmi_drl.bench.runner import run_case

pytest.importorskip("matplotlib", reason="needs the extra [plots]")


def size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_samples_are_drawn(tmp_path):
    plot(run_case(toy_case(), repeats=3), tmp_path / "toy.png")
    assert min(size(tmp_path / "toy.png")) > 200


def test_curves_are_drawn_one_picture_per_x(tmp_path):
    from contextlib import contextmanager

    @contextmanager
    def open_sides(quick):
        curves = {"steps": [1, 2, 4], "seconds": [0.5, 1.0, 2.0], "return": [0.0, 3.0, 5.0]}
        yield {"ours": lambda: Sample(5.0, {CURVES: curves})}

    plot(run_case(toy_case(open=open_sides), repeats=2), tmp_path / "toy.png")
    width, height = size(tmp_path / "toy.png")
    assert width > 2 * height
