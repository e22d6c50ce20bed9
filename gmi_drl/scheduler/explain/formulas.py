"""The formulas of a plan, filled in for a candidate, with the names and numbers of the paper."""

from dataclasses import dataclass

from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import LINK, MEMORY, Speeds
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.mapping import (
    MappingList,
    har_seconds,
    mpr_seconds,
    mrr_seconds,
    select_by_layout,
    shortest,
    size_of,
)
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import Basis, samples_per_update, unmeasured_communication
from gmi_drl.scheduler.exploration import SATURATION_THRESHOLD, STANDARD_ERRORS, saturation
from gmi_drl.scheduler.memory import SPARE, MemoryModel
from gmi_drl.scheduler.price import cost_per_billion_steps
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import devices_of, mapping_of
from gmi_drl.templates.cost import Communication, by_host
from gmi_drl.templates.paper_model import reduction_bytes
from gmi_drl.units import GIB, counted, human_bytes, human_count, human_gib, human_money


@dataclass(frozen=True)
class Formula:
    """A formula with numbers.

    Args:
        name: What it computes, and its source.
        lines: The formula, then its steps; each line equals the one before.
        remark: What follows from it.
    """

    name: str
    lines: tuple[str, ...] = ()
    remark: str = ""


def saturation_of(point: ProfilePoint, profile: Profile) -> Formula:
    """Sat between a point and the next smaller one (Algorithm 2, lines 15 to 17)."""
    name = "Saturation of a GMI (Algorithm 2, lines 15 to 19)"
    smaller = [
        other
        for other in profile.points
        if other.runnable and other.cut.division == point.cut.division and other.num_env < point.num_env
    ]
    if not smaller:
        return Formula(name, remark=f"{point.num_env} environments are the fewest that were tried: nothing to compare")
    before = max(smaller, key=lambda other: other.num_env)
    if not (before.memory_bytes and point.memory_bytes):
        return Formula(name, remark="memory was not measured, so any gain of speed is worth it")
    formula = "Sat = (T'/T - 1) / (M'/M - 1)"
    speeds = f"({human_count(point.steps_per_second)} / {human_count(before.steps_per_second)} - 1)"
    sizes = f"({human_bytes(point.memory_bytes)} / {human_bytes(before.memory_bytes)} - 1)"
    found = saturation(before, point)
    at_most = saturation(before, point, STANDARD_ERRORS)
    verdict = "saturated" if at_most < SATURATION_THRESHOLD else "not saturated"
    noise = f"; within the noise at most {at_most:.2f}" if at_most != found else ""
    remark = f"from {before.num_env} to {point.num_env} environments: {verdict}, alpha = {SATURATION_THRESHOLD}{noise}"
    return Formula(name, (formula, f"{speeds} / {sizes}", f"{found:.2f}"), remark)


def estimate_of(candidate: Candidate, num_devices: int) -> Formula:
    """The speed of all GMIs if each runs as the measured one did (Algorithm 2, line 23)."""
    point = candidate.point
    return Formula(
        "Estimate (Algorithm 2, line 23)",
        (
            "devices x GMIs per device x steps/s of one GMI",
            f"{num_devices} x {point.gmis_per_gpu} x {human_count(point.steps_per_second)}",
            f"{human_count(candidate.projected)} steps/s",
        ),
    )


def throughput_of(candidate: Candidate, basis: Basis) -> Formula:
    """The predicted throughput: equation 2 for serving, 3 for training."""
    point, horizon = candidate.point, basis.learner.horizon
    mapping = mapping_of(point.cut, basis.node)
    iteration_s = point.num_env * horizon / point.steps_per_second if point.steps_per_second else float("inf")
    waits_s = unmeasured_communication(basis.communication(point.backend), basis.node, mapping)
    serves = basis.template.purpose == "serving"
    number, times = (2, "T_s + T_a") if serves else (3, "T_s + T_a + T_t")
    measured_with = "" if serves or not waits_s else "COM/BW is what the measured GMIs did not wait for already"
    return Formula(
        f"Throughput (equation {number})",
        (
            f"GMIs x environments x steps / ({times} + COM/BW)",
            f"{size_of(mapping)} x {point.num_env} x {horizon} / ({in_ms(iteration_s)} + {in_ms(waits_s)})",
            f"{human_count(candidate.expected)} steps/s",
        ),
        _phases(point, measured_with),
    )


def uneven_of(candidate: Candidate, basis: Basis) -> Formula:
    """The predicted throughput of GPU models that are cut in different ways."""
    horizon, point = basis.learner.horizon, candidate.point
    counts = basis.node.used_counts
    parts = [(counts[model], one) for model, one in candidate.by_model]
    speed = f"{human_count(candidate.expected)} steps/s"
    if basis.template.purpose == "serving":
        return Formula(
            "Throughput of unlike GPUs (equation 2)",
            (
                "sum of GPUs x GMIs x steps/s of one GMI",
                " + ".join(f"{n} x {one.gmis_per_gpu} x {human_count(one.steps_per_second)}" for n, one in parts),
                speed,
            ),
            "nothing waits for another, so each model takes its fastest cut",
        )
    iteration_s = point.num_env * horizon / point.steps_per_second
    waits_s = samples_per_update(candidate.cut, basis.node, basis.learner) / candidate.expected - iteration_s
    environments = " + ".join(f"{count} x {one.gmis_per_gpu} x {one.num_env}" for count, one in parts)
    return Formula(
        "Throughput of unlike GPUs (equation 3)",
        (
            "sum of GPUs x GMIs x environments x steps / (longest T_s + T_a + T_t + COM/BW)",
            f"({environments}) x {horizon} / ({in_ms(iteration_s)} + {in_ms(waits_s)})",
            speed,
        ),
        f"each model takes the cut with the most environments that iterates in {in_ms(iteration_s)}",
    )


def efficiency_of(candidate: Candidate, basis: Basis) -> list[Formula]:
    """The useful steps per second; empty if the efficiency is not known."""
    noise, speed = basis.profile.noise, candidate.steps_per_second
    if noise is None or candidate.efficiency is None:
        return []
    batch = human_count(samples_per_update(candidate.cut, basis.node, basis.learner))
    return [
        Formula(
            "What steps teach (McCandlish et al. 2018, equation 2.7)",
            (
                "steps/s / (1 + samples per update / gradient noise scale)",
                f"{human_count(speed)} / (1 + {batch} / {human_count(noise.samples)})",
                f"{human_count(candidate.efficiency * speed)} useful steps/s",
            ),
            f"gradient noise scale: {noise.described}",
        )
    ]


def memory_of(point: ProfilePoint, model: MemoryModel | None) -> Formula:
    """The memory of a GMI by its model."""
    name = "Memory of a GMI (a line through what was measured)"
    if model is None:
        return Formula(name, remark="not known: it takes two points with unlike numbers of environments")
    return Formula(
        name,
        (
            "fixed + per environment x environments",
            f"{human_bytes(model.fixed_bytes)} + {human_bytes(model.bytes_per_env)} x {point.num_env}",
            human_bytes(model(point.num_env)),
        ),
        f"measured: {human_bytes(point.memory_bytes)}",
    )


def room_on_gpu(point: ProfilePoint, node: Node) -> list[Formula]:
    """The memory of the GMIs of a GPU, compared with what a plan may use; empty if it is not known."""
    if not point.memory_bytes or (size := node.gpu_memory_gib) is None:
        return []
    return [_room("Room on a GPU", point.gmis_per_gpu, point.memory_bytes, size)]


def room_on_host(point: ProfilePoint, node: Node) -> list[Formula]:
    """What GMIs take of the host, against what a plan may give them."""
    on_host = point.host_bytes or (0 if node.num_gpus else point.memory_bytes)
    gmis = devices_of(node)[0] * point.gmis_per_gpu
    return [_room("Room on the host", gmis, on_host, node.cpu.memory_gib)] if on_host else []


def communication_of(cut: AnyCut, basis: Basis) -> list[Formula]:
    """What gradients cost: Table 5, Table 2 and the alpha-beta model; nothing where nothing is sent."""
    communication, mapping = basis.communication(cut.backend), mapping_of(cut, basis.node)
    n = size_of(mapping)
    if not communication.reduces or n == 1:
        return [Formula("Communication (Table 4: TCG, COM = 0)" if not communication.reduces else "One GMI: COM = 0")]
    size = communication.bucket_bytes
    table_5 = Formula(
        "Size of communication (Table 5, TCG_EX)",
        (
            "COM = sums per iteration x 2 (n - 1) M_p / n",
            f"{communication.reduces} x 2 x {n - 1} x {human_bytes(size)} / {n}",
            f"{human_bytes(reduction_bytes(size, n, communication.reduces))} of each GMI",
        ),
    )
    return [table_5, _table_2(mapping, communication), _alpha_beta(mapping, communication)]


def cost_of(candidate: Candidate, hourly: float) -> Formula:
    """The price of a billion steps."""
    speed = candidate.steps_per_second
    return Formula(
        "Cost of a billion steps",
        (
            "price per hour / 3600 s / steps/s x 10^9",
            f"{human_money(hourly)} / 3600 s / {human_count(speed)} x 10^9",
            human_money(cost_per_billion_steps(hourly, speed)),
        ),
    )


def _table_2(mapping: MappingList, communication: Communication) -> Formula:
    g, t, size = len(mapping), max(map(len, mapping)), communication.bucket_bytes
    speeds = communication.known_speeds(mapping)
    strategy = select_by_layout(mapping)
    known = speeds if {MEMORY, LINK} <= speeds.keys() else {}
    if not known:
        return Formula(f"One sum by {strategy} (Algorithm 1, Table 2)", remark="its bandwidths were not measured")
    b_1, b_2 = known[MEMORY].bytes_per_second, known[LINK].bytes_per_second
    M_p, B_1, B_2 = human_bytes(size), f"{human_bytes(b_1)}/s", f"{human_bytes(b_2)}/s"
    formula, numbers, seconds = {
        "MPR": (
            "2 (g t - 1) M_p / (g t B_1)",
            f"2 x {g * t - 1} x {M_p} / ({g * t} x {B_1})",
            mpr_seconds(g, t, size, b_1),
        ),
        "MRR": (
            "2 (g - 1) (t + 1) M_p / (g B_2)",
            f"2 x {g - 1} x {t + 1} x {M_p} / ({g} x {B_2})",
            mrr_seconds(g, t, size, b_2),
        ),
        "HAR": (
            "2 (g - 1) M_p / (g B_2) + 2 (t - 1) M_p / (t B_1)",
            f"2 x {g - 1} x {M_p} / ({g} x {B_2}) + 2 x {t - 1} x {M_p} / ({t} x {B_1})",
            har_seconds(g, t, size, b_1, b_2),
        ),
    }[strategy]
    whose = "each" if shortest(mapping) == t else "the largest"
    remark = f"the paper's choice by the layout alone: g = {counted(g, 'device')}, t = {t} of {whose}"
    return Formula(f"One sum by {strategy} (Algorithm 1, Table 2)", (formula, numbers, in_ms(seconds)), remark)


def _alpha_beta(mapping: MappingList, communication: Communication) -> Formula:
    """The alpha-beta model for the reduction that the plan takes, the fastest by this model."""
    method, speeds = communication.method(mapping), communication.known_speeds(mapping)
    met = by_host(mapping, communication.devices_by_host)
    legs = [leg for leg in method.legs(met) if leg.rounds]
    name = f"One sum by {method.name} (alpha-beta model)"
    if any(leg.way not in speeds for leg in legs):
        assumed = f"COM/BW = {in_ms(communication.seconds(mapping))} is that of memory between cores"
        return Formula(name, remark=f"its speed was not measured: {assumed}")
    terms = [
        f"{leg.rounds} x {in_ms(speeds[leg.way].round_s)} + {leg.share:.3g} x {human_bytes(communication.bucket_bytes)}"
        f" / {human_bytes(speeds[leg.way].bytes_per_second)}/s"
        for leg in legs
    ]
    seconds = method.seconds(met, communication.bucket_bytes, speeds)
    return Formula(
        name,
        ("rounds x alpha + share x M_p / BW, for each way", " + ".join(terms), in_ms(seconds)),
        f"ways: {' and '.join(dict.fromkeys(leg.way for leg in legs))}, by {_source(communication, speeds)}; "
        f"{communication.reduces} sums per iteration: COM/BW = {in_ms(communication.seconds(mapping))}",
    )


def _source(communication: Communication, speeds: Speeds) -> str:
    return "measured speeds" if speeds is communication.speeds else "usual speeds between cores"


def _phases(point: ProfilePoint, remark: str) -> str:
    if point.phases is None:
        return remark
    phases = point.phases
    parts = f"T_s {in_ms(phases.sim_s)}, T_a {in_ms(phases.act_s)}, T_t {in_ms(phases.learn_s + phases.sync_s)}"
    return f"measured: {parts}" + (f"; {remark}" if remark else "")


def _room(name: str, gmis: int, each: int, size_gib: float) -> Formula:
    room = (1 - SPARE) * size_gib * GIB
    return Formula(
        name,
        (f"{counted(gmis, 'GMI')} x {human_bytes(each)}", human_bytes(gmis * each)),
        f"{'fits' if gmis * each <= room else 'too much for'} {1 - SPARE:.0%} of {human_gib(size_gib)}: "
        f"{human_bytes(room)}",
    )


def in_ms(seconds: float) -> str:
    """In milliseconds, with three digits or all before the point."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{1000 * seconds:.0f} ms"
