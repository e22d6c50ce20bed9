"""`python -m tools.reductions_page`: which reduction is fastest for which groups: measured, by the model, by the paper.

Reads the results of `gmi-drl bench reductions_2`, `reductions_3` and `reductions_4`, measures the speeds of the model,
and writes docs/reductions.md.
"""

import platform
import sys
from collections.abc import Mapping, Sequence
from statistics import median

from gmi_drl.bench.case import CURVES
from gmi_drl.bench.cases.reductions import CORES, NUMELS, SHAPES
from gmi_drl.bench.report import load_results
from gmi_drl.bench.result import Result
from gmi_drl.gmi.inventory import this_node
from gmi_drl.mapping import MappingList, even_mapping, mrr_obstacle, select_by_layout
from gmi_drl.profiler.speeds import measured_speeds
from gmi_drl.reductions import by_speed, legal_reductions
from gmi_drl.speeds import Speeds
from tools.checkout import ROOT, commit

PAGE = ROOT / "docs" / "reductions.md"
RESULTS = ROOT / "benchmarks" / "results"
NETWORKS = {"AT": 114_121, "HM": 286_822, "SH": 1_535_765}
"""Of Table 7: the weights of Ant, Humanoid and Shadow hand."""

TABLE_7 = {"2G2T": (2, 2), "2G3T": (2, 3), "4G4T": (4, 4)}
"""GPUs, and GMIs of each."""

HEAD = """# Which reduction, for which groups

Made by `python -m tools.reductions_page` at {commit} from committed results, on {cores} x {cpu}. Devices are described
ones of that host: their GMIs share its memory, links between them are the loopback interface, and where GMIs outnumber
the cores they take turns. Times are medians over the rounds, of one sum of so many float32 numbers.

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
    some = results["reductions_2"].machine
    text = HEAD.format(commit=commit(ROOT), cores=some.cores, cpu=some.cpu, speeds=speed_table(speeds))
    for processes, mapping in SHAPES.items():
        text += section(processes, mapping, results[f"reductions_{processes}"], speeds)
    PAGE.write_text(text + table_7(results["reductions_4"], speeds) + byte_table())
    return 0


def speed_table(speeds: Speeds) -> str:
    """Both numbers of each way."""
    lines = [
        f"| {way} | {1e6 * one.round_s:.1f} us | {one.bytes_per_second / 1e9:.2f} GB/s |" for way, one in speeds.items()
    ]
    return "\n".join(["| way | a round | bytes |", "|---|---|---|", *lines])


def section(processes: int, mapping: MappingList, result: Result, speeds: Speeds) -> str:
    """What was measured of a shape, what the model says of it, and how good its choice was."""
    times = {name: measured_ms(result, name) for name in result.samples}
    lines = [f"\n## {processes} processes, {[list(gmis) for gmis in mapping]}\n"]
    lines += [f"| reduction | {' | '.join(f'{numel:,}' for numel in NUMELS)} |", "|---|" + "---|" * len(NUMELS)]
    for name, row in times.items():
        modelled = [modelled_ms(name, mapping, numel, speeds) if processes <= CORES else None for numel in NUMELS]
        lines.append(f"| {name} | {' | '.join(map(cell, row, modelled))} |")
    alone = ": the model is of GMIs with cores of their own"
    modelled_too = ", and in brackets the model's" if processes <= CORES else alone
    lines.append(f"\nMeasured ms{modelled_too}.")
    lines.append(" ".join(judged(times, mapping, speeds)))
    return "\n".join(lines) + "\n"


def measured_ms(result: Result, side: str) -> list[float]:
    """Medians of the rounds, by length."""
    rounds = [sample.details[CURVES]["ms"] for sample in result.samples[side]]
    return [median(column) for column in zip(*rounds, strict=True)]


def modelled_ms(name: str, mapping: MappingList, numel: int, speeds: Speeds) -> float | None:
    """What the model says; None of a way that it knows no speed of."""
    known = by_speed(mapping, 4 * numel, speeds, "cpu", platform.machine())
    return next((1000 * seconds for seconds, method in known if method.name == name), None)


def cell(measured: float, modelled: float | None) -> str:
    """Both."""
    return f"{measured:.3g}" + (f" ({modelled:.3g})" if modelled is not None else "")


def judged(times: Mapping[str, Sequence[float]], mapping: MappingList, speeds: Speeds) -> list[str]:
    """For each length how far the model's choice is from the fastest, and what Algorithm 1 takes."""
    said = []
    for place, numel in enumerate(NUMELS):
        (_, choice), *_ = by_speed(mapping, 4 * numel, speeds, "cpu", platform.machine())
        fastest = min(times, key=lambda name: times[name][place])
        beyond = times[choice.name][place] / times[fastest][place] - 1
        chosen = f"At {numel:,} the model chooses {choice.name}"
        said.append(f"{chosen}, {beyond:.0%} beyond the fastest that was measured ({fastest}).")
    return [*said, f"By the layout alone, Algorithm 1, it is {select_by_layout(mapping)}."]


def table_7(result: Result, speeds: Speeds) -> str:
    """What the model says of the paper's layouts."""
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
    """What the model says and, of 2G2T, what was measured."""
    modelled = modelled_ms(name, mapping, numel, speeds)
    if modelled is None:
        return "not legal"
    if layout == "2G2T" and name in result.samples:
        return f"{modelled:.3g} ms ({measured_ms(result, name)[NUMELS.index(numel)]:.3g} ms measured)"
    return f"{modelled:.3g} ms"


def byte_table() -> str:
    """Totals of every layout of Table 7."""
    lines = []
    for layout, (devices, gmis) in TABLE_7.items():
        between = 2 * (devices - 1)
        rings = gmis * between + (2 * (gmis - 1) + gmis * (devices - 1) if gmis > 1 else 0)
        mrr = f"{rings} M" if mrr_obstacle(even_mapping(devices, gmis)) is None else "not legal"
        lines.append(f"| {layout} | {mrr} | {between} M | {between} M |")
    return BYTES_HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
