"""How often what has died is started again, and who takes the place of a GMI while the others go on."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from gmi_drl.errors import GmiError
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.units import counted


@dataclass
class Restarts:
    """How often what has died may be started again, in a run.

    Args:
        left: So often.
        tell: Told of each in a line, with what died and what is done.
        are_wanted: False once somebody wants the end.
    """

    left: int
    tell: Callable[[str], None]
    are_wanted: Callable[[], bool] = lambda: True

    def take(self, death: GmiError, deed: str) -> bool:
        """Have one less, and say for what. Returns whether there was one, and it is wanted."""
        if not self.left or not self.are_wanted():
            return False
        self.left -= 1
        self.tell(f"{str(death).splitlines()[0]}: {deed}, {counted(self.left, 'restart')} left")
        return True


@dataclass(frozen=True)
class GMIRestarts:
    """GMIs that others can go on without for a while.

    Args:
        gmis: Their ids.
        restarts: Of the run.
    """

    gmis: frozenset[int]
    restarts: Restarts


@contextmanager
def kept_open(resources: Mapping[int, Resources], gmis: Iterable[int]) -> Iterator[Mapping[int, Resources]]:
    """What some GMIs share, open for the time of a `with` block, by their ids: for who succeeds them."""
    copies: dict[int, int] = {}
    with ExitStack() as opened:
        for descriptor in {one for gmi in gmis for one in resources[gmi].descriptors}:
            copies[descriptor] = os.dup(descriptor)
            opened.callback(os.close, copies[descriptor])
        yield {gmi: resources[gmi].with_descriptors(copies) for gmi in gmis}
