"""How a plan that was run is shown: what was foretold stands beside what was measured, in 80 columns."""

import io

from rich.console import Console

from gmi_drl.cli.plan.document import plan_document
from gmi_drl.cli.plan.tables import best_first, candidate_table, layout_tree, notes, point_table
from gmi_drl.config.learners import PPOConfig
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.scheduler import plan_measured, profile_grid
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import TCG, TCG_EX
from gmi_drl.workload import TASK_SPECS

CORES = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
GPUS = Node(name="g", gpus=Gpus(model="H100-SXM5-80GB", count=1), cpu=Cpu(cores=8, memory_gib=64))


def point(gmis, num_env, speed, backend="process"):
    row = {"steps_per_second": speed, "memory_bytes": 2**28}
    return ProfilePoint(gmis_per_gpu=gmis, num_env=num_env, backend=backend, runnable=True, **row)


TWO, ONE, LATER = point(2, 1024, 12_600.0), point(1, 2048, 21_000.0), point(2, 512, 11_500.0)
FASTER = point(2, 1024, 12_700.0, "mps")


def ran(node, *points, template=TCG_EX):
    """All but `LATER` ran together at 24000 steps/s; what is known of `ONE` is from that run."""
    known = NoiseScale(samples=23_000) if template is TCG_EX else None
    profile = Profile(task="ant", learner="ppo", node="m", points=points, noise=known)
    confirmed = {one.cut: 24_000.0 for one in points if one is not LATER}
    grid = profile_grid(profile, node, PPOConfig().horizon)
    more = {"template": template, "confirmed": confirmed, "from_run": [ONE.cut]}
    return plan_measured(TASK_SPECS["ant"], PPOConfig(), node, profile, grid, **more)


def shown(plan, hourly=None, width=80):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(candidate_table(plan, hourly))
    return console.export_text()


def test_what_was_expected_stands_beside_what_ran_with_the_error():
    plan = ran(CORES, TWO, ONE, LATER, template=TCG)
    told = {row.split()[1]: row.split()[4:] for row in shown(plan).splitlines()[3:]}
    assert told == {"1024": ["25.2k", "24.0k", "+5.0%"], "2048": ["21.0k", "24.0k"], "512": ["23.0k"]}
    assert "error: expected, by equation 2, over ran together, less 1" in notes(plan, CORES)
    documents = {one["num_env"]: one["error"] for one in plan_document(plan, None, explain=False)["candidates"]}
    assert round(documents.pop(1024), 9) == 0.05 and documents == {2048: None, 512: None}


def test_where_nothing_was_foretold_or_nothing_ran_there_is_no_error():
    for plan in ran(CORES, ONE), ran(CORES, LATER):
        assert "error" not in shown(plan) and not any(line.startswith("error") for line in notes(plan, CORES))
    assert "with communication" in shown(ran(CORES, LATER), width=120)


def test_no_number_is_cut_in_80_columns():
    for plan in ran(CORES, TWO, ONE, LATER), ran(GPUS, TWO, FASTER, ONE, LATER):
        text = shown(plan)
        assert max(map(len, text.splitlines())) <= 80 and "useful" in text
        for candidate in plan.candidates:
            cells = (candidate.expected, candidate.steps_per_second, candidate.useful_steps_per_second)
            assert all(f" {cell / 1000:.1f}k" in text for cell in cells), (cells, text)


def test_titles_give_way_to_numbers_where_the_numbers_alone_fit():
    titles = "backend", "GMIs per device", "environments each", "samples per update", "memory of a GMI"
    titles = *titles, "expected", "ran together", "error", "useful"
    rows = [
        ["capped mps", gmis, "16384", "16.8M", "1023.9 MiB", "999.9k", "998.8k", "+123.4%", "997.7k"]
        for gmis in ("8", "16", "64")
    ]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(best_first(titles, rows))
    *_, first, second, third = console.export_text().splitlines()
    assert [line.split() for line in (first, second, third)] == [" ".join(row).split() for row in rows]


def test_texts_in_brackets_are_shown_as_they_are():
    """Rich takes `[true]` for a style, and stumbles over `[/gpu]`."""
    given = Profile(
        task='gymnasium:X{"gates": [true]}',
        learner="ppo",
        node="m",
        points=(ONE, ProfilePoint(gmis_per_gpu=4, num_env=8, runnable=False, reason="no [true] room in [/gpu]")),
    )
    layout = ran(CORES, ONE).layout
    devices = tuple(device.model_copy(update={"node": "n[true]"}) for device in layout.devices)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(point_table(given), layout_tree(layout.model_copy(update={"task": given.task, "devices": devices})))
    text = " ".join(console.export_text().split())
    assert "no [true] room in [/gpu]" in text and f"{given.task}: " in text and "n[true]: cpu 0" in text, text
