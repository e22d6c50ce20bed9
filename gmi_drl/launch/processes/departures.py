"""What follows when processes die, fail or are late: another one is started, the run goes on without, or it ends."""

from collections.abc import Collection, Mapping

from gmi_drl.errors import GmiDiedError, GmiError, PeerDiedError
from gmi_drl.launch.close_environments import Closing
from gmi_drl.launch.processes.children import Children
from gmi_drl.launch.processes.gmi_errors import GRACE_S
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, Losses
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import proxy_processes
from gmi_drl.layout.servers import policy_workers
from gmi_drl.roles.launcher.connection import encode
from gmi_drl.roles.launcher.protocol import Lost
from gmi_drl.run.process_names import gmi_of, is_proxy, proxy_of

RESTARTED = "started again alone"
"""What is done about a death, in the line that tells of it."""


class Departures:
    """Starts processes that have died again, and drops those that a run goes on without.

    Args:
        layout: Of the run.
        children: The running processes.
        closing: Waits for those that have failed.
        restarts: As of `GMIProcesses`.
        losses: As of `GMIProcesses`.

    Attributes:
        failed: The processes that have sent `Failed`, and were not dropped.
    """

    def __init__(
        self, layout: Layout, children: Children, closing: Closing, restarts: GMIRestarts | None, losses: Losses
    ) -> None:
        self._layout, self._children, self._closing = layout, children, closing
        self._restarts, self._losses = restarts, losses
        self.failed = set[int]()

    def after_deaths(self, deaths: Mapping[int, GmiError], done: Collection[int]) -> GmiError | None:
        """Start what has died again on its host, or go on without it.

        Args:
            deaths: The errors, by the numbers of the processes. A process of proxies takes its GMIs along.
            done: The GMIs that are done.

        Returns:
            The first error if the run ends.
        """
        alone = {number: death for number, death in deaths.items() if not is_proxy(number)}
        with_proxy = {gmi: death for number, death in deaths.items() for gmi in self._proxied_by(number, done)}
        others_are_done = any(not (self._is_restartable(one) or self._losses.allow(one)) for one in done)
        again = {number for number in alone.keys() - with_proxy.keys() if self._can_restart(number, alone[number])}
        for number, death in (alone | with_proxy).items():
            if number not in again and not self._losses.allow(number):
                return death
        dropped = list[int]()
        for number, death in (alone | with_proxy).items():
            error = self._restart(number, death) if number in again and not others_are_done else death
            if error is not None:
                if not self._losses.take(number, death):
                    return error
                dropped.append(number)
        self.drop(dropped)
        return None

    def after_complaints(self, complaints: Mapping[int, GmiError], *, has_reported: bool) -> GmiError | None:
        """Drop the actors that blame a peer which has no error of its own.

        Returns:
            The error if the run ends. Who blames a living peer goes before those whose peer has ended, since that peer
            may have ended for the same reason. Next a GMI goes before a process of proxies, which waits for it; then
            who must not be lost before who may; then who came first.
        """
        fatal = [number for number in complaints if not (has_reported and self._losses.allow(number))]
        if fatal:
            ranks = {
                number: (isinstance(error, PeerDiedError), is_proxy(number), number not in fatal)
                for number, error in complaints.items()
            }
            return complaints[min(ranks, key=lambda number: ranks[number])]
        dropped = list[int]()
        for number, complaint in complaints.items():
            if not self._losses.take(number, complaint):
                return complaint
            dropped.append(number)
        self.drop(dropped)
        return None

    def drop(self, numbers: Collection[int]) -> None:
        """Forget actors, all together, and tell policy workers. Proxies of which all actors are lost are ended."""
        if not numbers:
            return
        left = self._children.keys() - {*numbers}  # one that came late may not act yet, and is lost until then
        ended = [
            proxy_of(first)
            for first, gmis in proxy_processes(self._layout).items()
            if not {*numbers}.isdisjoint(gmis) and left.isdisjoint(gmis)
        ]
        gone = {*numbers, *ended} & self._children.keys()
        failed = sorted(gone & self.failed)
        self._closing.wait({number: self._children[number] for number in failed}, GRACE_S)
        self.failed.difference_update(failed)
        for number in gone:
            self._children.drop(number)
        for number in numbers:
            word = encode(Lost(number, self._children.predecessors[number]))
            for worker in policy_workers(self._layout):  # a lost node does not tell them
                self._children[worker.id].send(word)

    def _restart(self, number: int, death: GmiError) -> GmiError | None:
        """Start a process again if a restart is left. Returns the error if it is not there again."""
        if self._restarts is None or not self._restarts.restarts.take(death, RESTARTED):
            return death
        try:
            self._children.replace(number)
        except (GmiError, OSError) as failure:
            death.add_note(f"It cannot be started again: {failure}")
            return failure if isinstance(failure, GmiDiedError) else death  # its node is lost: the run goes on without
        return None

    def _is_restartable(self, number: int) -> bool:
        return self._restarts is not None and number in self._restarts.gmis

    def _can_restart(self, number: int, death: GmiError) -> bool:
        """Whether a process may be started again: not one that has failed, which would again, nor on a lost node."""
        is_lost = isinstance(death, GmiDiedError) and death.exit_code_of_gmi == LOST
        return self._is_restartable(number) and not is_lost and number not in self.failed

    def _proxied_by(self, number: int, done: Collection[int]) -> list[int]:
        """The GMIs that are there, not done, and need this process of proxies; none for a GMI."""
        gmis = proxy_processes(self._layout)[gmi_of(number)] if is_proxy(number) else ()
        return [gmi for gmi in gmis if gmi in self._children and gmi not in done]
