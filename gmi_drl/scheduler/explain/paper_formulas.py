"""Predicts by the paper's cost model how shared GMIs compare with dedicated ones, by this machine's numbers."""

from dataclasses import asdict

from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import Basis
from gmi_drl.scheduler.explain.formulas import Formula, in_ms
from gmi_drl.scheduler.explain.paper_terms import KEPT, Known, Needs, known_terms
from gmi_drl.templates import TCG, TCG_EX
from gmi_drl.templates.paper_model import Solution, Terms, even_bandwidth, gain, penalty, tcg, tcg_ex, tdg, tdg_ex
from gmi_drl.units import human_bytes, human_count

COLOCATED = (TCG.name, TCG_EX.name)
"""Templates whose GMIs have all roles, as the model assumes for measured terms."""


def paper_terms(candidate: Candidate, basis: Basis) -> Known | None:
    """The terms of the paper's model for a candidate; None if the model does not apply.

    It does not apply to unlike GPUs, to several hosts, and to templates other than `COLOCATED`.
    """
    communication = basis.communication(candidate.cut.backend)
    if candidate.by_model or communication.hosts > 1 or basis.template.name not in COLOCATED:
        return None
    return known_terms(basis.profile, candidate.point.cut, basis.node, basis.task, basis.learner, communication.reduces)


def solutions(terms: Terms, *, serves: bool) -> tuple[Solution, Solution]:
    """The dedicated and the colocated solution: of Table 4 for serving, of Table 5 for training."""
    return (tdg(terms), tcg(terms)) if serves else (tdg_ex(terms), tcg_ex(terms))


def paper_formulas(candidate: Candidate, basis: Basis) -> list[Formula]:
    """Equation 1, and Table 4 or 5 with equation 2 or 3, filled in as a prediction; empty if it does not apply."""
    known, serves = paper_terms(candidate, basis), basis.template.purpose == "serving"
    if known is None:
        return []
    first = [] if known.needs is None else _equation_1(known.needs, known.terms)
    names = "TCG over TDG (Table 4, equation 2)" if serves else "TCG_EX over TDG_EX (Table 5, equation 3)"
    if known.terms is None:
        return [*first, Formula(names, remark=f"not predicted: {known.lacking}")]
    dedicated, colocated = solutions(known.terms, serves=serves)
    source = "measured" if known.speeds_measured else "usual between cores, not measured"
    more = f"{penalty(colocated, dedicated) + 1:.2f}x its resources"
    remark = (
        f"a prediction: {dedicated.name} was not run; {colocated.name} takes {more}; BW is "
        f"{human_bytes(known.terms.BW)}/s, {source}"
    )
    if even := even_bandwidth(colocated, dedicated):
        remark += f"; by ways slower than {human_bytes(even)}/s {colocated.name} wins"
    speeds = f"{human_count(colocated.steps_per_second)} / {human_count(dedicated.steps_per_second)}"
    ratio = Formula(names, ("steps/s / steps/s", speeds, f"{gain(colocated, dedicated):.2f}x"), remark)
    return [
        *first,
        _resource(dedicated, known.terms, serves),
        _speed(dedicated, known.terms, serves),
        _speed(colocated, known.terms, serves, _beside(candidate, colocated)),
        ratio,
    ]


def paper_document(candidate: Candidate, basis: Basis) -> dict[str, object] | None:
    """The prediction as JSON: the terms, a row of the table for each solution, their ratio. None as in `paper_terms`.

    `lacking` says why there are no terms; `bandwidth_measured` whether BW was measured.
    """
    known = paper_terms(candidate, basis)
    if known is None:
        return None
    needs, terms = known.needs, known.terms
    rows = solutions(terms, serves=basis.template.purpose == "serving") if terms else None
    return {
        "dominant": needs.resource if needs else None,
        "compute_part": needs.compute if needs else None,
        "memory_part": needs.memory if needs else None,
        "lacking": known.lacking or None,
        "bandwidth_measured": known.speeds_measured,
        "terms": asdict(terms) if terms else None,
        "solutions": {row.name: asdict(row) for row in rows} if rows else None,
        "penalty": penalty(rows[1], rows[0]) if rows else None,
        "gain": gain(rows[1], rows[0]) if rows else None,
        "even_bandwidth": even_bandwidth(rows[1], rows[0]) if rows else None,
    }


def _equation_1(needs: Needs, terms: Terms | None) -> list[Formula]:
    if needs.compute is None or needs.memory is None:
        return []
    sizes = f"{needs.compute:.2f} {'<' if needs.compute < needs.memory else '>='} {needs.memory:.2f}"
    trains = f", R_t {terms.R_t:.2f}" if terms and terms.T_t else ""
    roles = f"; R_s {terms.R_s:.2f}, R_a {terms.R_a:.2f}{trains} of a device" if terms else ""
    return [
        Formula(
            "Dominant resource (equation 1)",
            ("R_SM / R_SMperGPU >= R_Mem / R_MemPerGPU", sizes, str(needs.resource)),
            f"R_SM: the smallest of the measured shares that keeps {KEPT:.0%} of the rate of one GMI per device with "
            f"{needs.alone.num_env} environments{roles}",
        )
    ]


def _resource(dedicated: Solution, terms: Terms, serves: bool) -> Formula:
    parts = [("T_s R_s", f"{in_ms(terms.T_s)} x {terms.R_s:.2f}")]
    parts.append(("T_a alpha R_a", f"{in_ms(terms.T_a)} x {terms.alpha:.2f} x {terms.R_a:.2f}"))
    if not serves:
        parts.append(("T_t beta R_t", f"{in_ms(terms.T_t)} x {terms.beta:.2f} x {terms.R_t:.2f}"))
    letters, numbers = (" + ".join(column) for column in zip(*parts, strict=True))
    return Formula(
        f"Resource size of {dedicated.name} (Table {4 if serves else 5})",
        (
            f"({letters}) / ({_times(serves)})",
            f"({numbers}) / {in_ms(dedicated.iteration_s)}",
            f"{dedicated.resource:.2f} of a device",
        ),
        "alpha: 1 / simulators that can take turns at an agent" + ("" if serves else "; beta: at a trainer"),
    )


def _speed(solution: Solution, terms: Terms, serves: bool, remark: str = "") -> Formula:
    moved_s = solution.moved_bytes / terms.BW
    return Formula(
        f"Throughput of {solution.name} (Table {4 if serves else 5}, equation {2 if serves else 3}), a prediction",
        (
            f"R_all / R x environments x steps / ({_times(serves)} + COM/BW)",
            f"{terms.R_all:.0f} / {solution.resource:.2f} x {terms.num_env} x {terms.m} / "
            f"({in_ms(solution.iteration_s)} + {in_ms(moved_s)})",
            f"{human_count(solution.steps_per_second)} steps/s",
        ),
        f"COM = {_com(solution, serves)} = {human_bytes(solution.moved_bytes)} of each GMI" + remark,
    )


def _beside(candidate: Candidate, colocated: Solution) -> str:
    """The measured speed and the error of the prediction, if GMIs of this size ran."""
    if candidate.confirmed is None or candidate.point.gmis_per_gpu != round(1 / colocated.resource):
        return ""
    error = colocated.steps_per_second / candidate.confirmed - 1
    return f"; measured: {human_count(candidate.confirmed)} steps/s, error {error:+.1%}"


def _com(solution: Solution, serves: bool) -> str:
    if serves:
        return "m x environments x (2 S + A + W)" if solution.name == "TDG" else "0"
    gradients = "sums x 2 (n - 1) M_p / n"
    return f"m x environments x (S + A + W) + M_p + {gradients}" if solution.name == "TDG_EX" else gradients


def _times(serves: bool) -> str:
    return "T_s + T_a" if serves else "T_s + T_a + T_t"
