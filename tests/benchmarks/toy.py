"""Cases that take no time: sides that return numbers from a list."""

from contextlib import contextmanager
from itertools import cycle

from gmi_drl.benchmarks.case import Case, Sample
from gmi_drl.benchmarks.machine import Machine

OURS, THEIRS = (4.0, 2.0, 3.0), (1.0, 1.0, 2.0)


def toy_case(sides=None, **more):
    """`ours` and `theirs` in steps/s, unless told otherwise; `case.open.log` lists what happened."""
    columns = sides or {"ours": OURS, "theirs": THEIRS}
    log = []

    @contextmanager
    def open_sides(quick):
        log.append(f"open, quick {quick}")
        yield {name: side(name, cycle(values)) for name, values in columns.items()}
        log.append("closed")

    def side(name, values):
        def measure():
            log.append(name)
            return Sample(next(values), {"copy_s": 0.002, "seed": 1, "note": "text"})

        return measure

    open_sides.log = log
    defaults = {"name": "toy", "claim": "A toy | for tests.", "unit": "steps/s", "open": open_sides, "repeats": 3}
    return Case(**(defaults | more))


def toy_machine(**more):
    facts = {
        "date": "2026-11-21T03:01:04+00:00",
        "cpu": "Abacus",
        "cores": 2,
        "memory_bytes": 2**30,
        "gpus": (),
        "load_before": (0.0, 0.0, 0.0),
        "load_after": (1.0, 0.5, 0.0),
        "busy": 0.01,
        "versions": {"torch": "2.13.0"},
        "commit": "abc1234",
    }
    return Machine(**(facts | more))
