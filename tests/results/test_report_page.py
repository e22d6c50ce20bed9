import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import product

import pytest
from conftest import tiny_config, tiny_layout
from test_comparison import run_of, write_run

from gmi_drl.benchmarks.result import write_result
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.launch.sweep.sweep_file import Sweep, make_trials, write_sweep
from gmi_drl.results.report import charts
from gmi_drl.results.report.charts import chart, nice_ticks, phase_bars, phase_timeline, thinned
from gmi_drl.results.report.layout_drawing import MOST_GMIS, layout_drawing
from gmi_drl.results.report.page import page
from gmi_drl.run.run_data import read_run
from tests.benchmarks.toy import toy_case

VOID = {"meta", "br", "img"}


class Tags(HTMLParser):
    """Checks that all elements are closed, and collects addresses."""

    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.names = [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        self.names.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_has_everything_in_it_and_loads_nothing(tmp_path):
    film = tmp_path / "a.gif"
    film.write_bytes(b"GIF89a")
    write_run(tmp_path / "run", run_of([1, 2]))
    runs = [run_of([1, 2, 3]), run_of([2, 3, 4], tf32=True)]
    text = page(runs, film)
    tags = Tags(text)
    assert tags.addresses == ["data:image/gif;base64,R0lGODlh"] and {"svg", "polyline", "details"} <= tags.names
    assert not re.search(r"https?://", text) and "default-src 'none'" in text
    assert "tf32=True (1)" in text and "gmi-drl train run0/layout.yaml --algo ppo --config run0/config.yaml" in text


@pytest.mark.parametrize("text", [b"", b'{"torch": "2.', b"\xff\x00", b"[1]"])
def test_versions_that_are_broken_are_told_on_the_page(tmp_path, text):
    write_run(tmp_path / "run", run_of([1, 2]))
    (tmp_path / "run" / "versions.json").write_bytes(text)
    assert "not known: versions.json is broken or not there" in page([read_run(tmp_path / "run")])


def test_rows_without_environment_steps_are_not_drawn(tmp_path):
    run = run_of([1, 2])
    write_run(tmp_path / "run", run)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3}\n{"iteration": 4, "env_steps": null}\n')
    read = read_run(tmp_path / "run")
    assert read.rows == run.rows and "<svg" in page([read])


def test_phases_that_are_not_known_count_as_none(tmp_path):
    run = run_of([1, 2])
    rows = [row | {"sim_s": None, "gmis": {"0": {"sim_s": None, "learn_s": 1.0}}} for row in run.rows]
    write_run(tmp_path / "run", replace(run, rows=rows))
    assert "GMI 0" in page([read_run(tmp_path / "run")])


def test_a_page_of_results_has_each_measurement_and_loads_nothing(tmp_path, command_line):
    result = run_case(toy_case(reference="the paper: 1.9x", limits="Only a <toy>."), repeats=3)
    write_result(result, tmp_path / "toy.json")
    code, _, err = command_line("report", tmp_path / "toy.json", tmp_path / "toy.json", "-o", tmp_path / "page.html")
    assert code == 0 and "about 2 results" in err
    text = (tmp_path / "page.html").read_text()
    tags = Tags(text)
    assert tags.addresses == [] and not re.search(r"https?://", text) and "default-src 'none'" in text
    assert text.count("<circle") == 2 * 6 and "2.00x" in text and "gmi-drl bench toy --repeats 3" in text
    assert "A toy | for tests." in text and "Only a &lt;toy&gt;." in text and "the paper: 1.9x" in text


def test_results_and_runs_have_pages_of_their_own(tmp_path, command_line):
    write_result(run_case(toy_case(), repeats=1), tmp_path / "toy.json")
    code, _, err = command_line("report", tmp_path / "toy.json", tmp_path / "run")
    assert code == 2 and f"{tmp_path / 'run'}: a page is about runs or about results" in err
    code, _, err = command_line("report", tmp_path / "toy.json", "--film", "a.gif")
    assert code == 2 and "--film a.gif: is for runs" in err


def test_many_runs_are_shown_by_configuration():
    text = page([run_of([1, 2, seed], seed=seed) for seed in range(9)])
    assert text.count("<h2>") == 1 and "Return, mean over seeds" in text and "interquartile mean, 95 % interval" in text


def test_each_configuration_has_a_row_and_a_curve_however_many_settings_differ():
    names = ("tf32", "iterations", "checkpoint_every", "hang_s")
    values = list(product((False, True), (8, 9), (2, 4), (60, 70)))
    text = page([run_of([1, 2], **dict(zip(names, row, strict=True))) for row in values])
    curves = json.loads(unescape(re.search(r'data-curves="(.*?)"', text)[1]))["curves"]
    assert len(curves) == len(values) and all(f"<td>{number}: " in text for number in range(1, len(values) + 1))
    assert all(f"{name}=" in text for name in names)


def test_names_cannot_break_the_page():
    curves = {"<script>alert('1')</script>": [(0, 1), (1, 2)]}
    text = chart('"</figure>', curves, "steps")
    Tags(text)
    assert "<script>" not in text
    data = json.loads(unescape(re.search(r'data-curves="(.*?)"', text)[1]))
    assert data["curves"][0]["points"] == [[0, 1], [1, 2]]


def test_curves_of_few_points_and_none():
    assert chart("t", {"a": []}, "x") == "" and "<circle" in chart("t", {"a": [(1, 1)]}, "x")
    assert len(thinned([(x, x) for x in range(1000)])) <= 300 and thinned([(1, 2), (2, 4)]) == [(1, 2), (2, 4)]


@pytest.mark.parametrize("bounds", [(0, 1), (-3.2, 7.9), (5, 5), (0, 0), (1e6, 1.00001e6), (0.001, 0.002)])
def test_ticks_enclose_the_values(bounds):
    ticks = nice_ticks(*bounds)
    assert ticks[0] <= bounds[0] and ticks[-1] >= bounds[1] and 2 <= len(ticks) <= 8


def test_phases_are_bars_of_one_scale():
    text = phase_bars({"GMI 0": {"sim_s": 0.01, "learn_s": 0.03}, "GMI 1": {"sim_s": 0.02}})
    assert text.count("<rect") == 8 and "GMI 0, learn: 30.0 ms" in text and "up to 40 ms" in text
    assert phase_bars({}) == "" and phase_bars({"GMI 0": {}}) == ""


def near(corners, expected):
    return all(corner == pytest.approx(place, abs=0.1) for corner, place in zip(corners, expected, strict=True))


def test_shares_of_phases_are_areas_one_on_another():
    # A quarter simulates and the rest learns, then half and half: the border goes from 25 % to 50 % of the height.
    text = phase_timeline([(0, {"sim_s": 1, "learn_s": 3}), (5, {}), (100, {"sim_s": 2, "learn_s": 2})], "env steps")
    areas = [
        [tuple(map(float, corner.split(","))) for corner in found.split()]
        for found in re.findall(r'polygon style="[^"]*" points="([^"]*)"', text)
    ]
    top, bottom = charts.TOP, charts.HEIGHT - charts.BOTTOM
    left, right = charts.LEFT, charts.WIDTH - charts.RIGHT
    border = [(left, bottom - (bottom - top) / 4), (right, bottom - (bottom - top) / 2)]
    assert near(areas[0], [*border, (right, bottom), (left, bottom)])
    assert near(areas[2], [(left, top), (right, top), *reversed(border)])
    assert phase_timeline([(0, {"sim_s": 1})], "") == "" and phase_timeline([], "") == ""


def test_a_layout_is_drawn_with_its_roles():
    text = layout_drawing(tiny_layout())
    Tags(text)
    assert text.count("GMI 0") == text.count("GMI 1") == 1 and "8 envs, core 1" in text and "2 GMIs, 16 env" in text
    (device,) = tiny_layout().devices
    many = device.model_copy(update={"gmis": device.gmis * 40})
    assert f"{80 - MOST_GMIS} more GMIs" in layout_drawing(tiny_layout().model_copy(update={"devices": (many,)}))


def test_the_command_takes_runs_and_sweeps(command_line, tmp_path):
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    trials = make_trials([0, 1], {})
    write_sweep(sweep, Sweep(trials=trials))
    code, _, err = command_line("report", sweep)
    assert code == 2 and "no training of this sweep has a row" in err
    write_run(sweep / trials[0].name, run_of([1, 2]))
    write_run(tmp_path / "run", run_of([1, 2], seed=5))
    code, out, err = command_line("report", sweep, tmp_path / "run", "run", "-o", "page.html")
    assert (code, out) == (0, "") and "Wrote page.html about 2 runs" in err
    Tags((tmp_path / "page.html").read_text())
    assert str(tiny_config().iterations) in (tmp_path / "page.html").read_text()


def test_films_that_are_none_are_refused(command_line, tmp_path):
    write_run(tmp_path / "run", run_of([1]))
    for film in ("a.gif", "run"):
        code, _, err = command_line("report", tmp_path / "run", "--film", film)
        assert code == 2 and "expected an .mp4 or .gif file that is there" in err
