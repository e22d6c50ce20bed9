"""The trainer's end of the channels."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.comm.channels.batcher import Batcher
from gmi_drl.comm.channels.batches import Batches
from gmi_drl.comm.channels.channel_memory import KEEPALIVE, ChannelMemory
from gmi_drl.comm.channels.device_batches import open_batches
from gmi_drl.comm.channels.gpu_direct import await_unmapped
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.membership import Keepalives
from gmi_drl.comm.memory.leases import agent_of
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.record_ring import RingReader
from gmi_drl.comm.memory.shared_lock import SharedLock
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.layout.waits import FIRST_HAND, waits_by_channels

FAREWELL_S = 2.0
"""Seconds for which an ending trainer waits at most for agents that have mapped its memory."""

ENDED = "experience ended"
"""The cause of dropped rollouts that were not needed any more."""


def death_of(gmi_id: int) -> str:
    """The cause of dropped rollouts that an agent left unfinished."""
    return f"GMI {gmi_id} ended"


@dataclass(frozen=True)
class Batch:
    """R rollouts, until they are given back.

    Attributes:
        number: From 0; the number of updates before it.
        agents: The id of the GMI that made each rollout.
        views: `[R, *kind.shape]` of each kind, by name, on the trainer's device.
        memory: All of it, uint8: kind after kind, as of `RolloutForm.offsets`.
    """

    number: int
    agents: tuple[int, ...]
    views: dict[str, Tensor]
    memory: Tensor


class TrainerEnd:
    """Receives experience; the first trainer's end also publishes the parameters. One thread uses it at a time.

    Attributes:
        parameters: Only the first trainer may call their `publish`.
        dropped: Rollouts that were leased and not trained on, by cause.
        dropped_steps: The steps of these that had arrived, by cause.
        wait_s: Seconds waited so far for experience.
        max_lag: As of the channels.
    """

    def __init__(
        self,
        memory: ChannelMemory,
        lock: SharedLock,
        notifier: Notifier,
        device: torch.device,
        *,
        awaits_successors: bool,
        keepalives: Keepalives,
    ) -> None:
        self.parameters = memory.parameters(notifier, FIRST_HAND)
        self.dropped: Counter[str] = Counter()
        self.dropped_steps: Counter[str] = Counter()
        self.wait_s, self.max_lag = 0.0, memory.sizes.channels.max_lag
        self._memory, self._lock, self._notifier = memory, lock, notifier
        self._sizes = sizes = memory.sizes
        self._rank = rank = sizes.trainers.index(notifier.own)
        self._leases = memory.leases(lock)
        self._batcher = Batcher(sizes, self._leases, rank)
        self._batches: Batches = open_batches(memory, rank, self._batcher, device)
        self._rings = {
            gmi: RingReader(memory.memory, memory.ring_at(agent, rank), sizes.ring_records)
            for agent, gmi in enumerate(sizes.agents)
        }
        self._living = list(sizes.agents)
        self._predecessors = [0] * len(sizes.agents)  # as known here
        self._awaits_successors = awaits_successors
        self._lost_places: dict[int, int] = {}  # places lost to a dead agent, with that agent's id
        self._keepalives = keepalives
        keepalives.received.append(self._send_keepalive)
        self._notify_agents()  # direct agents wait for shared batches
        self._number = 0  # of the batch that is or will be trained on
        self._is_taken = self._is_ended = False

    def take(self) -> Batch:
        """Wait for the next batch, until all its rollouts have arrived. The trainer keeps it until `give_back`.

        Raises:
            UsageError: If the last one was not given back.
            PeerDiedError: If no agent is left and none will succeed it, or a direct agent has left a rollout of the
                batch unfinished.
            PeerSilentError: If the agent whose rollout is due has sent nothing for `hang_s`, whatever others send, or
                if no successor of any agent has come for as long. One that waits for trainers of another policy has
                `behind` times that more (`layout/waits.py`).
            GmiError: If another trainer has ended the experience.
        """
        if self._is_taken:
            raise UsageError(f"batch {self._number} was not given back: give it back before the next is taken")
        began = time.perf_counter()
        try:
            self._notifier.poll_ended(self._living)
            self._process_events()
            while missing := self._batcher.missing(self._number):
                self._await_more(missing)
        finally:
            self.wait_s += time.perf_counter() - began
        self._is_taken = True
        owners = (self._leases.owner(self._rank, place) for place in self._batcher.places_of(self._number))
        agents = tuple(self._sizes.agents[agent_of(owner)] for owner in owners)
        memory, views = self._batches.whole(self._number % self._sizes.batches)
        return Batch(self._number, agents, views, memory)

    def give_back(self, *, is_learnt: bool = True) -> None:
        """Let agents use the memory of the batch again, after it was trained on and the new version was published.

        The first trainer has published it by then; the others wait for that. A trainer that has copied the batch may
        give it back before it learns: then rollouts may be one version older than `max_lag`.

        Args:
            is_learnt: Whether the update is done, and its version published.

        Raises:
            UsageError: If there is no such batch, or not one version was published for each update.
            PeerDiedError: If the first trainer has ended before it published.
            PeerSilentError: If it has not published for `hang_s`.
        """
        if not self._is_taken:
            raise UsageError("there is no batch to give back: take one first")
        versions = self._number + 1 + is_learnt  # the first one, and one for each update
        if self._notifier.own != self._sizes.trainers[0]:
            self.parameters.await_published(versions)
        elif (published := self.parameters.published()) != versions:
            text = f"batch {self._number} was given back after {published} versions, not {versions}"
            raise UsageError(f"{text}: publish one before all updates, and one after each")
        self._batches.give_back(self._number % self._sizes.batches)
        self._batcher.give_back(self._number)
        self._number += 1
        self._is_taken = False
        self._leases.give_back(self._rank, self._number * self._sizes.rollouts)
        self._notify_agents()

    def end_experience(self) -> None:
        """End the experience: agents then lease nothing more, and rollouts that were not trained on are dropped."""
        if self._is_ended:
            return
        self._is_ended = True
        self._leases.end()
        self._notifier.poll_ended(self._living)
        self._process_events()
        first = (self._number + self._is_taken) * self._sizes.rollouts
        left = set(range(first, self._leases.leased(self._rank))).difference(self._lost_places)
        self._drop([place for place in left if self._leases.owner(self._rank, place)], ENDED)
        self._notify_agents()
        for trainer in self._sizes.trainers:
            self._notifier.notify(trainer)

    def close(self) -> None:
        """Stop watching the agents, after those that have mapped memory of this process have unmapped it."""
        self._batches.close()
        await_unmapped(self._memory, self._rank, self._notifier, FAREWELL_S)
        self._notifier.close()
        self._lock.close()

    def _await_more(self, missing: list[int]) -> None:
        if self._memory.is_closed:
            raise GmiError(
                f"the experience that GMI {self._notifier.own} waits for was ended, by itself or another trainer"
            )
        if lost := [self._lost_places[place] for place in missing if place in self._lost_places]:
            raise PeerDiedError(
                f"GMI {lost[0]} ended while it wrote into the GPU memory of GMI {self._notifier.own}. Its kernels "
                "may still write there, so its place stays unused and the batch incomplete: its log says why it ended"
            )
        if not self._living:
            self._await_successor()
            return
        self._notifier.poll_ended(self._living)  # watches them: each end wakes this process
        owner = agent_of(self._leases.owner(self._rank, missing[0]))  # the agent that leased first is due first
        here = [gmi for gmi in self._living if self._notifier.has_come(gmi)] or list(self._living)
        due = here if owner < 0 else [self._sizes.agents[owner]]

        def has_come() -> bool:
            concerned = self._process_events()
            # a place that nobody has may be leased by a successor, which comes only now
            return self._memory.is_closed or bool(concerned if owner < 0 else concerned.intersection(due))

        is_served = bool(self._sizes.readers)  # an agent may wait for one of these
        try:
            self._notifier.wait_for(
                has_come, due, "sent experience", FIRST_HAND + is_served, lambda: self._are_elsewhere(due)
            )
        except PeerSilentError:
            if not self._are_elsewhere(due):
                raise
            patience = waits_by_channels(len(self._sizes.trainers), are_served=is_served).behind
            self._notifier.wait_for(
                lambda: has_come() or not self._are_elsewhere(due), due, "sent experience", patience, self._renew
            )

    def _are_elsewhere(self, agents: Sequence[int]) -> bool:
        """Whether any of these agents waits for trainers of another policy."""
        return any(self._memory.elsewhere[self._sizes.agents.index(gmi)] for gmi in agents)

    def _await_successor(self) -> None:
        agents = ", ".join(map(str, self._sizes.agents))
        text = f"all agents (GMIs {agents}) ended while GMI {self._notifier.own} waited for experience"
        if not self._awaits_successors:
            raise PeerDiedError(text)
        hang_s = self._notifier.hang_s
        if not self._notifier.wait_at_most(lambda: bool(self._process_events()) or self._memory.is_closed, hang_s):
            raise PeerSilentError(f"{text}, and no successor has come for {hang_s:g} s (hang_s)")

    def _process_events(self) -> set[int]:
        """Read all records, and handle agents that have ended or been succeeded. Returns the agents concerned."""
        # Determined before the queues are read: what was sent until then counts.
        ended, successors = self._notifier.seen_ended(self._living), self._successors()
        senders = {gmi for gmi, ring in self._rings.items() if ring.has_more()}
        for gmi in senders:
            self._read_records(gmi)
        if senders:
            self._renew()
        for gmi in ended:
            self._living.remove(gmi)
            self._reclaim(gmi, processes=self._predecessors[self._sizes.agents.index(gmi)] + 1)
        for gmi, predecessors in successors.items():
            self._reclaim(gmi, processes=predecessors)
            self._accept_successor(gmi, predecessors)
        return senders.union(ended, successors)

    def _renew(self) -> None:
        """Show all that wait for this trainer that it is alive."""
        self._send_keepalive()
        for send in self._keepalives.send:
            send()

    def _send_keepalive(self) -> None:
        """Show the agents that this trainer is alive."""
        self._memory.table(self._rank)[KEEPALIVE] += 1

    def _successors(self) -> dict[int, int]:
        """The agents as which another process has come, with the number of processes before it."""
        now = self._memory.predecessors.tolist()
        if now == self._predecessors:
            return {}
        return {gmi: now[n] for n, gmi in enumerate(self._sizes.agents) if now[n] != self._predecessors[n]}

    def _accept_successor(self, gmi: int, predecessors: int) -> None:
        self._predecessors[self._sizes.agents.index(gmi)] = predecessors
        self._notifier.watch_successor(gmi)
        if gmi not in self._living:
            self._living.append(gmi)
        self._notifier.notify(gmi)  # it was not notified of places that were freed before

    def _read_records(self, gmi: int) -> None:
        agent = self._sizes.agents.index(gmi)
        for record in map(Record._make, self._rings[gmi].read_all()):
            is_kind_whole = self._batcher.arrive(agent, record)
            self._batches.arrived(gmi, record, is_kind_whole)
        self._notifier.notify(gmi)  # it may wait for room in the queue

    def _reclaim(self, gmi: int, processes: int) -> None:
        unfinished = self._batcher.unfinished(self._sizes.agents.index(gmi), processes)
        places = [place for place in unfinished if place not in self._lost_places]
        self._drop(places, death_of(gmi))
        if gmi in self._sizes.direct_to(self._rank):  # an MPS server runs on with what its client has launched
            self._lost_places.update(dict.fromkeys(places, gmi))
            return
        self._batcher.forget(places)
        self._leases.give_up(self._rank, places)
        self._notify_agents()

    def _drop(self, places: list[int], cause: str) -> None:
        if places:
            self.dropped[cause] += len(places)
            self.dropped_steps[cause] += sum(map(self._batcher.steps_come, places))

    def _notify_agents(self) -> None:
        for gmi in self._living:
            self._notifier.notify(gmi)
