"""The return of a training: the mean over its late episodes, because single ones differ much, and the curve."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gmi_drl.benchmarks.case import CURVES, Sample
from gmi_drl.benchmarks.cases.learning.learning import SECONDS, STEPS, phases_of, wall_s
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.benchmarks.peers import Update
    from gmi_drl.run.metrics import Row

LATE = 0.1
"""Share of the steps, at the end, whose episodes count."""


class Ended(NamedTuple):
    """The episodes that ended within one update (at least one), with environment steps and seconds at its end."""

    env_steps: int
    seconds: float
    episodes: int
    return_mean: float


def of_rows(seed: int, rows: "list[Row]") -> Sample:
    """The sample of a training by gmi-drl, from its metrics (not their moving mean, which has older episodes, too)."""
    ended = [
        Ended(row["env_steps"], seconds, int(row["episodes"]), row["return_sum"] / row["episodes"])
        for row, seconds in zip(rows, wall_s(rows), strict=True)
        if row["episodes"]
    ]
    return summarise(ended, rows[-1]["env_steps"], {"seed": seed, **phases_of(rows)})


def of_updates(seed: int, updates: "Sequence[Update]") -> Sample:
    """The sample of a training by a peer that tells of the episodes of each update."""
    ended = [
        Ended(update.env_steps, round(update.wall_s, 3), update.episodes, update.return_mean)
        for update in updates
        if update.episodes and update.return_mean is not None
    ]
    reached = updates[-1].env_steps if updates else 0
    return summarise(ended, reached, {"seed": seed, "env_steps": reached})


def summarise(ended: Sequence[Ended], env_steps: int, details: Mapping[str, object]) -> Sample:
    """The sample of a training of `env_steps`: the mean return of its late episodes, and the curve of all.

    Each late episode has the same weight. If a training has none, its last ones count.

    Raises:
        GmiError: no episode has ended.
    """
    if not ended:
        raise GmiError(f"no episode ended in the {env_steps} steps of the training")
    late = [update for update in ended if update.env_steps > (1 - LATE) * env_steps] or ended[-1:]
    value = sum(update.episodes * update.return_mean for update in late) / sum(update.episodes for update in late)
    curves = {
        STEPS: [update.env_steps for update in ended],
        SECONDS: [update.seconds for update in ended],
        "return of an episode": [round(update.return_mean, 2) for update in ended],
    }
    return Sample(value, {**details, CURVES: curves})
