"""What a server tells of its tables."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gmi_drl.replay.extensions import Extension
from gmi_drl.replay.reverb.nest import Nest
from gmi_drl.replay.reverb.rate_limiters import RateLimiter
from gmi_drl.replay.reverb.selectors import Options, Selector, options_of
from gmi_drl.replay.reverb.specs import from_json


@dataclass(frozen=True)
class CallStats:
    """How many inserts, or samples, there were.

    Args:
        completed: Since the table was made or reset.
        pending: That wait for the limiter now.
    """

    completed: int
    pending: int


@dataclass(frozen=True)
class RateLimiterInfo:
    """A limiter: its settings and counts."""

    samples_per_insert: float
    min_size_to_sample: int
    min_diff: float
    max_diff: float
    insert_stats: CallStats
    sample_stats: CallStats


@dataclass(frozen=True)
class TableInfo:
    """A table: its settings and counts.

    Args:
        name: Of the table.
        sampler_options: Which selector samples.
        remover_options: Which selector removes.
        max_size: Items.
        max_times_sampled: Of an item; 0 means no limit.
        rate_limiter_info: Of the limiter.
        signature: Of its items; None if they may be anything.
        current_size: Items that are there.
        num_episodes: Whose items are there.
        num_deleted_episodes: Whose items have all gone.
        num_unique_samples: Items that were sampled once at least.
        table_worker_time: Not measured.
    """

    name: str
    sampler_options: Options
    remover_options: Options
    max_size: int
    max_times_sampled: int
    rate_limiter_info: RateLimiterInfo
    signature: Nest
    current_size: int
    num_episodes: int
    num_deleted_episodes: int
    num_unique_samples: int
    table_worker_time: None = None


class Facts(Extension):
    """Tells with each `info` of a table what Reverb's clients want to know, and counts its episodes.

    Args:
        facts: JSON that does not change.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts, self._episodes, self._ended = dict(facts), Counter[int](), 0

    def inserted(self, slots: Tensor) -> None:
        """Count them by episode."""
        self._episodes.update(self._episodes_of(slots))

    def deleted(self, slots: Tensor) -> None:
        """Count them by episode."""
        for episode, count in Counter(self._episodes_of(slots)).items():
            self._episodes[episode] -= count
            if not self._episodes[episode]:
                del self._episodes[episode]
                self._ended += 1

    def _episodes_of(self, slots: Tensor) -> list[int]:
        found: list[int] = self.contents.items.versions.numpy()[slots.numpy()].tolist()
        return found

    def reset(self) -> None:
        """Begin anew."""
        self._episodes.clear()
        self._ended = 0

    def info(self) -> dict[str, Any]:
        """All of it."""
        return self._facts | {"episodes": len(self._episodes), "ended_episodes": self._ended}


def facts_of(
    sampler: Selector, remover: Selector, times: int, limiter: RateLimiter, signature: str | None
) -> dict[str, Any]:
    """What does not change of a table, as JSON."""
    return {
        "sampler": options_of(sampler),
        "remover": options_of(remover),
        "max_times_sampled": times,
        "limiter": [limiter.samples_per_insert, limiter.min_size_to_sample, limiter.min_diff, limiter.max_diff],
        "signature": signature,
    }


def info_of(name: str, told: Mapping[str, Any]) -> TableInfo:
    """What a table tells, in Reverb's words.

    Raises:
        ValueError: if it is no table of this interface.
    """
    if Facts.__name__ not in told:
        raise ValueError(f"table {name} was not made by gmi_drl.replay.reverb: use gmi_drl.replay.Client")
    facts = told[Facts.__name__]
    spi, min_size, min_diff, max_diff = facts["limiter"]
    inserts, samples = (CallStats(told[what], told[f"waiting_{what}"]) for what in ("inserts", "samples"))
    return TableInfo(
        name,
        Options(facts["sampler"]),
        Options(facts["remover"]),
        told["max_size"],
        facts["max_times_sampled"],
        RateLimiterInfo(spi, min_size, min_diff, max_diff, inserts, samples),
        None if facts["signature"] is None else from_json(facts["signature"]),
        told["items"],
        facts["episodes"],
        facts["ended_episodes"],
        told["unique_samples"],
    )
