"""How plans of agents and trainers apart are shown: as other plans are."""

import io
from dataclasses import replace

from rich.console import Console

from gmi_drl.cli.plan.document import plan_document
from gmi_drl.cli.plan.split_tables import ERROR, division_notes, division_table
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import Plan
from gmi_drl.scheduler.agent_trainer_split import Division
from gmi_drl.templates import DECOUPLED
from gmi_drl.workload import TASK_SPECS

NODE = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
BEST = Division(Cut(2, 64), agents=1, trainers=1, produced=12_600.0, learnt=31_000.0, confirmed=12_000.0)
OTHER = Division(Cut(2, 128), agents=1, trainers=1, produced=13_000.0, learnt=33_000.0)


def plan_of(*ways):
    return Plan(DECOUPLED.lay_out(TASK_SPECS["ant"], NODE, ways[0].cut), learner="a3c", divisions=ways)


def shown(plan, hourly=None):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(division_table(plan, hourly))
    return console.export_text()


def test_what_was_expected_of_both_sides_stands_beside_what_ran_with_the_error():
    plan = plan_of(BEST, OTHER)
    text = shown(plan)
    first, second = (line.split() for line in text.splitlines()[-2:])
    assert first == ["1", "1", "64", "12.6k", "31.0k", "12.6k", "12.0k", "+5.0%"]
    assert second == ["1", "1", "128", "13.0k", "33.0k", "13.0k"]
    assert "steps/s of all GMIs" in text and max(map(len, text.splitlines())) <= 80
    assert division_notes(plan, NODE, None) == ["the layout takes 2 of 2 cores", ERROR]


def test_where_nothing_ran_there_is_no_error():
    plan = plan_of(replace(BEST, confirmed=None), OTHER)
    assert "error" not in shown(plan) and division_notes(plan, NODE, None) == ["the layout takes 2 of 2 cores"]


def test_programs_and_those_who_pay_get_the_same():
    plan = plan_of(BEST, OTHER)
    first, second = plan_document(plan, 3.6, explain=False)["divisions"]
    assert (first["gmis_per_gpu"], first["num_env"], first["agents"], first["trainers"]) == (2, 64, 1, 1)
    assert (first["expected"], first["confirmed"], round(first["error"], 9)) == (12_600.0, 12_000.0, 0.05)
    assert (second["confirmed"], second["error"]) == (None, None)
    assert (first["steps_per_second"], second["steps_per_second"]) == (12_000.0, second["expected"])
    assert division_notes(plan, NODE, 3.6)[-1].startswith("a billion steps cost 83.33, at 3.60 an hour")
    assert round(first["cost_per_billion_steps"], 3) == 83.333 and "83.33" in shown(plan, hourly=3.6)
