"""`python -m tools.reductions_page`: write docs/reductions.md, which reductions are fastest.

It compares the results of `gmi-drl bench reductions_1_1` and the like with the planner's model, whose speeds it
measures, and with the paper's Algorithm 1.
"""

import platform
import sys
from collections.abc import Mapping, Sequence
from statistics import median

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.components.reductions import CORES, NUMELS, SHAPES, mapping_of, name_of
from gmi_drl.benchmarks.report import load_results
from gmi_drl.benchmarks.result import Result
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.speeds import Speeds
from gmi_drl.layout.mapping import MappingList, even_mapping, mrr_obstacle, select_by_layout, size_of
from gmi_drl.layout.reductions import by_speed, legal_reductions
from gmi_drl.profiler.speeds import measured_speeds
from tools.checkout import ROOT, commit

PAGE = ROOT / "docs" / "reductions.md"
RESULTS = ROOT / "benchmarks" / "results"
NETWORKS = {"AT": 114_121, "HM": 286_822, "SH": 1_535_765}
"""The numbers of weights in Table 7: Ant, Humanoid and Shadow hand."""

TABLE_7 = {"2G2T": (2, 2), "2G3T": (2, 3), "4G4T": (4, 4)}
"""GPUs, and GMIs of each GPU."""

HEAD = """# Which reduction, for which groups

Made by `python -m tools.reductions_page` at {commit} from committed results, on {cores} x {cpu}.

Devices are described ones of that host: their GMIs share its memory, links between them are the loopback interface, and
where GMIs outnumber the cores they take turns. Times are medians over the rounds, of one sum of so many float32
numbers. gloo's threads are bound to the core of their rank or, in a row of its own, free on all cores: with as many
ranks as cores none can be left idle for them.

The model's speeds, measured between two GMIs of a core each:

{speeds}
"""

TABLE_7_HEAD = """## Table 7 of the paper

What one sum takes by the model at these speeds, **modelled, not measured**, but for what is marked: 2G2T was run by
four processes on two cores. The paper's GPUs are none of these cores: what carries over is who is chosen by the layout
alone, and the bytes. MPR-shm needs a host whose GMIs all share memory, which is so here.

| network | layout | Algorithm 1 | {methods} |
|---|---|---|{rules}|
"""

BYTES_HEAD = """
Bytes that go between devices for a sum of M bytes, all links together, as the transport counts them
(`tests/comm/reductions/test_routes.py`):

| layout | MRR | HAR | SHARD |
|---|---|---|---|
"""


def main() -> int:
    """Write the page."""
    node = this_node()
    speeds, results = measured_speeds(node), load_results(RESULTS)
    some = results[name_of(SHAPES[0])].machine
    text = HEAD.format(commit=commit(ROOT), cores=some.cores, cpu=some.cpu, speeds=speed_table(speeds))
    for shape in SHAPES:
        text += section(mapping_of(shape), results[name_of(shape)], speeds)
    PAGE.write_text(text + table_7(results[name_of((2, 2))], speeds) + byte_table())
    return 0


def speed_table(speeds: Speeds) -> str:
    """A table of the model's two numbers for each way that data go."""
    lines = [
        f"| {way} | {1e6 * one.round_s:.1f} us | {one.bytes_per_second / 1e9:.2f} GB/s |" for way, one in speeds.items()
    ]
    return "\n".join(["| way | a round | bytes |", "|---|---|---|", *lines])


def section(mapping: MappingList, result: Result, speeds: Speeds) -> str:
    """The section of a shape: the times measured and modelled, and how good the model's choice was."""
    own_cores = size_of(mapping) <= CORES
    times = {name: measured_ms(result, name) for name in result.samples}
    lines = [f"\n## {size_of(mapping)} processes, {mapping}\n"]
    lines += [f"| reduction | {' | '.join(f'{numel:,}' for numel in NUMELS)} |", "|---|" + "---|" * len(NUMELS)]
    for name, row in times.items():
        modelled = [modelled_ms(name, mapping, numel, speeds) if own_cores else None for numel in NUMELS]
        lines.append(f"| {name} | {' | '.join(map(cell, row, modelled))} |")
    told = ", and in brackets the model's" if own_cores else ": the model is of GMIs with cores of their own"
    lines.append(f"\nMeasured ms{told}. {judged(times, mapping, speeds)}")
    return "\n".join(lines) + "\n"


def measured_ms(result: Result, side: str) -> list[float]:
    """The measured milliseconds by length: medians of the rounds."""
    rounds = [sample.details[CURVES]["ms"] for sample in result.samples[side]]
    return [median(column) for column in zip(*rounds, strict=True)]


def modelled_ms(name: str, mapping: MappingList, numel: int, speeds: Speeds) -> float | None:
    """The milliseconds of the model; None for a way whose speed is unknown."""
    known = by_speed(mapping, 4 * numel, speeds, "cpu", platform.machine())
    return next((1000 * seconds for seconds, method in known if method.name == name), None)


def cell(measured: float, modelled: float | None) -> str:
    """Measured and modelled milliseconds."""
    return f"{measured:.3g}" + (f" ({modelled:.3g})" if modelled is not None else "")


def judged(times: Mapping[str, Sequence[float]], mapping: MappingList, speeds: Speeds) -> str:
    """How much slower the model's choices are than the fastest, and the choice of Algorithm 1."""
    choices = [by_speed(mapping, 4 * numel, speeds, "cpu", platform.machine())[0][1].name for numel in NUMELS]
    slowest = max(times[name][place] / min(row[place] for row in times.values()) for place, name in enumerate(choices))
    how = "which was the fastest" if slowest == 1 else f"at most {slowest - 1:.0%} slower than the fastest"
    said = f"The model chooses {' and '.join(dict.fromkeys(choices))} for these lengths, {how}"
    return f"{said}; by the layout alone, Algorithm 1, it is {select_by_layout(mapping)}."


def table_7(result: Result, speeds: Speeds) -> str:
    """The model's times for the paper's layouts."""
    methods = [method.name for method in legal_reductions(even_mapping(2, 2), "cpu", platform.machine())]
    methods = [name for name in methods if modelled_ms(name, even_mapping(2, 2), 1000, speeds) is not None]
    text = "\n" + TABLE_7_HEAD.format(methods=" | ".join(methods), rules="---|" * (len(methods) - 1) + "---")
    for network, numel in NETWORKS.items():
        for layout, (devices, gmis) in TABLE_7.items():
            mapping = even_mapping(devices, gmis)
            cells = [table_7_cell(name, mapping, numel, layout, result, speeds) for name in methods]
            text += f"| {network} | {layout} | {select_by_layout(mapping)} | {' | '.join(cells)} |\n"
    return text


def table_7_cell(name: str, mapping: MappingList, numel: int, layout: str, result: Result, speeds: Speeds) -> str:
    """The model's time and, for 2G2T, the measured one."""
    modelled = modelled_ms(name, mapping, numel, speeds)
    if modelled is None:
        return "not legal"
    if layout == "2G2T" and name in result.samples:
        return f"{modelled:.3g} ms ({measured_ms(result, name)[NUMELS.index(numel)]:.3g} ms measured)"
    return f"{modelled:.3g} ms"


def byte_table() -> str:
    """A table of the bytes that each layout of Table 7 moves in all."""
    lines = []
    for layout, (devices, gmis) in TABLE_7.items():
        between = 2 * (devices - 1)
        rings = gmis * between + (2 * (gmis - 1) + gmis * (devices - 1) if gmis > 1 else 0)
        mrr = f"{rings} M" if mrr_obstacle(even_mapping(devices, gmis)) is None else "not legal"
        lines.append(f"| {layout} | {mrr} | {between} M | {between} M |")
    return BYTES_HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
