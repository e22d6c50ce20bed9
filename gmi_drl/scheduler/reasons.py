"""Writes the reasons of a plan: sentences for people."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gmi_drl.config.learners import OUR_PPO
from gmi_drl.layout.backends import BACKENDS
from gmi_drl.layout.cut import AnyCut, Cut
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.cut_list import listed
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.objective import Objective, worth
from gmi_drl.scheduler.profile import Profile
from gmi_drl.units import counted, human_bytes, human_count


@dataclass(frozen=True)
class Learns:
    """The learner, for the reasons.

    Args:
        kind: The kind of learner.
        samples: The samples per update of a cut.
        noise: The gradient noise scale; None if not known.
        objective: What the plan maximises.
    """

    kind: str
    samples: Callable[[AnyCut], int]
    noise: NoiseScale | None
    objective: Objective


def reasons_for(
    best: Candidate,
    candidates: Sequence[Candidate],
    profile: Profile,
    num_devices: int,
    learns: Learns | None,
    unmeasured: Sequence[Cut],
    doubt: str | None = None,
) -> list[str]:
    """The choice, the next best, a comparison with one GMI per device, and what is not known.

    Args:
        best: The choice.
        candidates: All candidates, best first.
        profile: The profile with their points.
        num_devices: Devices that are cut alike.
        learns: The learner; None if nothing is learnt.
        unmeasured: Points for which there was no time.
        doubt: A sentence about speeds between devices that are not known; None if they are.
    """
    others = [candidate for candidate in candidates if candidate is not best]
    measured = f"{counted(len(candidates), 'runnable point')} of {profile.node}"
    lines = [
        f"chosen from {measured}: {_described(best, num_devices)}",
        *([] if learns is None else _measured_with(profile.learner, learns.kind)),
        *([f"note of the profile: {profile.note}"] if profile.note else []),
        *(f"next best: {_described(other, num_devices)}" for other in others[:1]),
        *_against_backends(best, candidates, num_devices),
        _against_solo(best, candidates, num_devices, "steps" if learns is None else learns.objective),
        _certainty(best),
        *([] if doubt is None else [doubt]),
    ]
    if learns is not None:
        lines += _learnt(best, candidates, learns)
    if unmeasured:
        points = listed(unmeasured, (point.cut for point in profile.points))
        lines.append(f"not measured for want of time (GMIs per device x environments): {points}")
    return lines


def _measured_with(measured: str, learner: str) -> list[str]:
    """The learner that was measured, and the one to train with. The layout names it nowhere else."""
    if measured == learner == OUR_PPO.name:
        return []
    stands_for = f" in place of {learner}, for speed and memory" if measured != learner else ""
    trained = f": train it with --algo {learner}" if learner != OUR_PPO.name else ""
    return [f"measured with {measured}{stands_for}{trained}"]


def _described(candidate: Candidate, num_devices: int) -> str:
    each = candidate.cut.described
    each += f" on each of {num_devices} devices" if num_devices > 1 and not candidate.by_model else ""
    verb = "project to" if candidate.confirmed is None else "ran together at"
    sizes = " and ".join(dict.fromkeys(human_bytes(point.memory_bytes) for point in candidate.points))
    memory = f", {sizes} for each GMI" if candidate.memory_bytes else ""
    return f"{each} {verb} {human_count(candidate.steps_per_second)} steps/s{memory}"


def _against_backends(best: Candidate, candidates: Sequence[Candidate], num_devices: int) -> list[str]:
    """Compare the choice with the best of each other backend, capped and not, and say what its backend means."""
    firsts: dict[str, Candidate] = {}
    for candidate in candidates:
        firsts.setdefault(candidate.cut.way, candidate)
    others = [candidate for way, candidate in firsts.items() if way != best.cut.way]
    if not others:
        return []
    entry = BACKENDS.find(best.point.backend)
    lines = [f"backend {entry.name}: {entry.trade or entry.how}"]
    for other in others:
        gain = best.steps_per_second / other.steps_per_second if other.steps_per_second else float("inf")
        lines.append(f"{gain:.2f}x the best by {other.cut.way} ({_described(other, num_devices)})")
    return lines


def _against_solo(best: Candidate, candidates: Sequence[Candidate], num_devices: int, objective: Objective) -> str:
    """Compare the choice with one GMI per device, which may be the best."""
    solos = [candidate for candidate in candidates if candidate.is_solo]
    if not solos:
        return "one GMI per device was not measured, so nothing says that cutting pays"
    if len(solos) == len(candidates):
        return "one GMI per device is all that was measured, so nothing says whether cutting pays"
    if best is solos[0]:
        return "one GMI per device is best here: cutting it does not pay"
    solo = solos[0]
    gain = best.steps_per_second / solo.steps_per_second if solo.steps_per_second else float("inf")
    verdict = (
        "" if worth(best, objective) > worth(solo, objective) else ": cutting does not pay here, but was asked for"
    )
    return f"{gain:.2f}x the best of one GMI per device that was measured ({_described(solo, num_devices)}){verdict}"


def _learnt(best: Candidate, candidates: Sequence[Candidate], learns: Learns) -> list[str]:
    """The samples per update, and what they teach, as far as known."""
    samples = f"{human_count(learns.samples(best.cut))} samples per update"
    if learns.noise is None or best.efficiency is None:
        return [f"{samples}: another number changes what a step teaches (--keep-batch keeps it)"]
    lines = [
        f"gradient noise scale (arXiv 1812.06162): {learns.noise.described}; it grows as a policy gets better, so "
        "later more environments pay than are best at first",
        f"{samples}; a sample teaches {best.efficiency:.0%} of what it would in a small update: "
        f"{human_count(best.useful_steps_per_second or 0.0)} useful steps/s",
    ]
    other = max(candidates, key=lambda one: worth(one, "steps" if learns.objective == "learning" else "learning"))
    if other is not best:
        most = "most steps/s" if learns.objective == "learning" else "most useful steps/s"
        lines.append(
            f"{most}: {other.cut.described} do {human_count(other.steps_per_second)} steps/s in updates of "
            f"{human_count(learns.samples(other.cut))} samples, {human_count(other.useful_steps_per_second or 0.0)} "
            f"of them useful (--objective {'steps' if learns.objective == 'learning' else 'learning'})"
        )
    return lines


def _certainty(best: Candidate) -> str:
    if best.confirmed is not None and best.is_solo:
        return "confirmed: it was run as it is"
    if best.confirmed is not None:
        return "confirmed: all its GMIs ran together, in turn with one GMI per device and as many environments in all"
    return "a prediction, not confirmed by a run: it assumes that all GMIs run as the measured one did"
