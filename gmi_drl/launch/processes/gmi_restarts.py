"""Restarts of a run: how many are left, and which GMIs can be restarted while the others go on."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from gmi_drl.errors import GmiError
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import goes_on_without
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.units import counted


@dataclass
class Restarts:
    """Counts the restarts of a run.

    Args:
        left: The number of restarts that are left.
        tell: Called at each with a line that says what died and what is done.
        are_wanted: Returns False when the run shall end.
    """

    left: int
    tell: Callable[[str], None]
    are_wanted: Callable[[], bool] = lambda: True

    def take(self, death: GmiError, deed: str) -> bool:
        """Use up a restart and report it. Returns False if none is left or wanted."""
        if not self.left or not self.are_wanted():
            return False
        self.left -= 1
        self.tell(f"{str(death).splitlines()[0]}: {deed}, {counted(self.left, 'restart')} left")
        return True


@dataclass(frozen=True)
class GMIRestarts:
    """GMIs that are restarted alone, since the others can go on without them for a while.

    Args:
        gmis: The ids of the GMIs.
        restarts: The restarts of the run.
    """

    gmis: frozenset[int]
    restarts: Restarts


@dataclass
class Losses:
    """Actors that have died or not come yet, and that the run goes on without (`streams.fewest_actors`).

    Args:
        layout: Of the run.
        tell: Called at each with a line that says what died and what is done.
    """

    layout: Layout
    tell: Callable[[str], None]
    lost: set[int] = field(default_factory=set)

    def allow(self, number: int) -> bool:
        """Whether the run can go on without a GMI, too."""
        return goes_on_without(self.layout, {*self.lost, number})

    def join(self, number: int) -> None:
        """Note that an actor acts, without which the run may have gone on."""
        self.lost.discard(number)

    @property
    def facts(self) -> dict[str, int]:
        """For rows of metrics: how many actors are there, where they come and go."""
        settings, actors = self.layout.streams, len(self.layout.with_role("simulator"))
        return {} if settings is None or settings.fewest_actors is None else {"actors": actors - len(self.lost)}

    def take(self, number: int, death: GmiError) -> bool:
        """Note that the run goes on without a GMI, and report it. Returns False if it cannot."""
        if not self.allow(number):
            return False
        self.lost.add(number)
        self.tell(f"{str(death).splitlines()[0]}: going on with {counted(self.facts['actors'], 'actor')}")
        return True


@contextmanager
def kept_open(resources: Mapping[int, Resources], gmis: Iterable[int]) -> Iterator[Mapping[int, Resources]]:
    """Copies of the resources of some GMIs, by their ids, open for the time of a `with` block, for restarts."""
    copies: dict[int, int] = {}
    with ExitStack() as opened:
        for descriptor in {one for gmi in gmis for one in resources[gmi].descriptors}:
            copies[descriptor] = os.dup(descriptor)
            opened.callback(os.close, copies[descriptor])
        yield {gmi: resources[gmi].with_descriptors(copies) for gmi in gmis}
