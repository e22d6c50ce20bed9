"""The batcher: which steps of which rollouts have arrived, and when a batch of them is whole (paper section 4.2)."""

from collections.abc import Iterable

from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.leases import Leases, agent_of, owner_word, process_of
from gmi_drl.errors import GmiError


class Batcher:
    """Tracks the places of one trainer. It accepts each step of each kind once and in order.

    Args:
        sizes: Of the channels.
        leases: Of all places.
        trainer: By rank.
    """

    def __init__(self, sizes: ChannelSizes, leases: Leases, trainer: int) -> None:
        self._sizes, self._leases, self._trainer = sizes, leases, trainer
        self._steps = [sizes.steps_of(kind) for kind in sizes.form.kinds]
        self._stepwise = [number for number, kind in enumerate(sizes.form.kinds) if kind.is_stepwise]
        self._places = sizes.places
        self._given_back = 0  # places below this number
        self._steps_arrived = [[0] * len(self._steps) for _ in range(sizes.places)]
        self._complete_kinds = [0] * sizes.places

    def arrive(self, agent: int, record: Record) -> bool:
        """Accept steps of a kind that have arrived.

        Args:
            agent: The sender, by its index in the sizes.
            record: Of the steps.

        Returns:
            Whether all steps of the kind have now arrived for that place.

        Raises:
            GmiError: If the place is another agent's, or a step is missing or there twice.
        """
        place, rollout, kind, first, last = record
        slot = place % self._places
        came = self._steps_arrived[slot]
        is_its_own = self._leases.owner(self._trainer, place) == owner_word(agent, rollout)
        if place < self._given_back or not is_its_own or came[kind] != first or last > self._steps[kind]:
            gmi, name = self._sizes.agents[agent], self._sizes.form.kinds[kind].name
            steps = f"steps {first} to {last - 1} of {name!r} in place {place} as its rollout {rollout}"
            raise GmiError(f"GMI {gmi} has sent {steps}, of which {came[kind]} had arrived: the queue is damaged")
        came[kind] = last
        if last < self._steps[kind]:
            return False
        self._complete_kinds[slot] += 1
        return True

    def missing(self, batch: int) -> list[int]:
        """The places of a batch that are not whole. Batches are numbered from 0 without end."""
        return [place for place in self.places_of(batch) if not self.is_place_whole(place)]

    def is_place_whole(self, place: int) -> bool:
        """Whether the whole rollout of a place has arrived. The place's batch was not given back yet."""
        return self._complete_kinds[place % self._places] == len(self._steps)

    def is_kind_whole(self, batch: int, kind: int) -> bool:
        """Whether a kind has arrived for all rollouts of a batch."""
        return all(
            self._steps_arrived[place % self._places][kind] == self._steps[kind] for place in self.places_of(batch)
        )

    def places_of(self, batch: int) -> range:
        """The numbers of a batch's places."""
        return range(batch * self._sizes.rollouts, (batch + 1) * self._sizes.rollouts)

    def unfinished(self, agent: int, processes: int) -> list[int]:
        """The places, in order, that the first `processes` processes of an agent have leased and not filled."""
        leased = range(self._given_back, self._leases.leased(self._trainer))
        owners = ((place, self._leases.owner(self._trainer, place)) for place in leased)
        owned = (place for place, owner in owners if agent_of(owner) == agent and process_of(owner) < processes)
        return [place for place in owned if not self.is_place_whole(place)]

    def steps_come(self, place: int) -> int:
        """Steps of a place of which every stepwise kind has arrived."""
        return min(self._steps_arrived[place % self._places][kind] for kind in self._stepwise)

    def forget(self, places: Iterable[int]) -> None:
        """Discard what has arrived for these places, whose rollouts will not be whole. The next ones begin there."""
        for place in places:
            slot = place % self._places
            self._steps_arrived[slot] = [0] * len(self._steps)
            self._complete_kinds[slot] = 0

    def give_back(self, batch: int) -> None:
        """Let the memory of a batch hold later places."""
        self.forget(self.places_of(batch))
        self._given_back = self.places_of(batch).stop
