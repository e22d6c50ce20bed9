"""What holds a run up, from its rows: the shares of its phases, the time that is left, and what to try."""

from collections.abc import Mapping, Sequence

from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import ACT, LEARN, PHASE_NAMES, PHASES, SIMULATE, WAIT
from gmi_drl.run.worker_verdict import waits_of_rows, worker_verdict

RECENT = 20
"""Rows that count."""

MUCH = 0.5
"""The share of the time from which a phase is named."""

MUCH_WAITING = 0.2
"""The share of waiting from which it is named: GMIs that are alike wait little."""

ADVICE = {
    SIMULATE.name: "the simulator: more cores or GMIs, or fewer environments",
    ACT.name: "the policy's steps: more environments per GMI, or a smaller network",
    LEARN.name: "learning: fewer updates an iteration, a smaller network, or more GMIs",
}

NOTHING = "no phase takes more than half of the time"


def shares_of(phases: Mapping[str, float]) -> dict[str, float]:
    """The share of each phase, by its label; empty if nothing was measured."""
    total = sum(phases.get(name, 0.0) for name in PHASE_NAMES)
    return {phase.label: phases.get(phase.name, 0.0) / total for phase in PHASES} if total > 0 else {}


def recent_shares(rows: Sequence[Row]) -> dict[str, float]:
    """The shares over the last `RECENT` rows, as means over the GMIs."""
    last = [row for row in rows[-RECENT:] if all(isinstance(row.get(name), int | float) for name in PHASE_NAMES)]
    return shares_of({name: sum(row[name] for row in last) for name in PHASE_NAMES})


def verdict(rows: Sequence[Row]) -> str:
    """One line: what takes most of the time, and what to try; empty without rows.

    With actors and trainers on GMIs of their own it says which worker to add.
    """
    if waits := waits_of_rows(rows[-RECENT:]):
        return worker_verdict(waits)
    shares = recent_shares(rows)
    if not shares:
        return ""
    if shares[WAIT.label] >= MUCH_WAITING:
        slowest = _slowest(rows[-1])
        return f"{shares[WAIT.label]:.0%} waits for other GMIs{slowest}: gmi-drl plan divides by measuring"
    most = max(PHASES, key=lambda phase: shares[phase.label])
    if shares[most.label] < MUCH or most is WAIT:
        return NOTHING
    return f"{shares[most.label]:.0%} is {ADVICE[most.name]}"


def seconds_left(rows: Sequence[Row], iterations: int) -> float | None:
    """Seconds until the last iteration, by those of the last rows, with their evaluations; None if not known."""
    last = [row for row in rows[-RECENT:] if row.get("steps_per_second")]
    if not last or not last[-1]["iteration"] or not last[-1].get("env_steps"):
        return None
    each = last[-1]["env_steps"] / last[-1]["iteration"]
    seconds: float = sum(each / row["steps_per_second"] + (row.get("eval_s") or 0.0) for row in last) / len(last)
    left: float = (iterations - last[-1]["iteration"]) * seconds
    return max(0.0, left)


def _slowest(row: Row) -> str:
    """The GMI that waits least, as the others wait for it."""
    waits = {gmi: phases.get(WAIT.name) or 0.0 for gmi, phases in (row.get("gmis") or {}).items()}
    return f", most for GMI {min(waits, key=lambda gmi: waits[gmi])}" if len(waits) > 1 else ""
