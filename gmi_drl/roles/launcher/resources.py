"""What a GMI shares with other GMIs: made by the launcher, inherited as file descriptors."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gmi_drl.comm.memory.mailbox_memory import Mailboxes
from gmi_drl.comm.rendezvous import Rendezvous


@dataclass(frozen=True)
class Resources:
    """The shared objects that one GMI inherits.

    Args:
        rendezvous: Of its groups, by the group's name.
        mailboxes: Of the GMIs of its host; None if no messages are sent.
        channels: Descriptor of the channels' memory (`comm.channels.create_memory`); None in a layout without channels.
        streams: Descriptor of the memory of inference streams; None in a layout without them.
        policies: Of a GMI that acts for several policies: the memories of each by its name, as `of_policy` takes them.
        guests: For each of several policies the eventfds of GMIs of other hosts, whose proxies wait for its trainers.
    """

    rendezvous: Mapping[str, Rendezvous] = field(default_factory=dict)
    mailboxes: Mailboxes | None = None
    channels: int | None = None
    streams: int | None = None
    policies: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    guests: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def of_policy(self, name: str) -> Self:
        """The resources for one of several policies: connections of others are left out (`host_links.name_for`)."""
        own: dict[str, Any] = dict(self.policies.get(name, self._memories))
        ends = {one: one.removesuffix(f" for {name}") for one in self.rendezvous}
        rendezvous = {end: self.rendezvous[one] for one, end in ends.items() if " for " not in end}
        mailboxes = self.mailboxes
        if mailboxes is not None:
            mailboxes = replace(mailboxes, eventfds={**mailboxes.eventfds, **self.guests.get(name, {})})
        return replace(self, **own, rendezvous=rendezvous, mailboxes=mailboxes, policies={}, guests={})

    def with_descriptors(self, by: Mapping[int, int]) -> Self:
        """The same resources by other descriptors: `by` maps each descriptor of this object to the new one."""
        rendezvous = {
            name: Rendezvous(**{what: by[one] for what, one in point.descriptors.items()})
            for name, point in self.rendezvous.items()
        }
        mailboxes = self.mailboxes
        if mailboxes is not None:
            mailboxes = Mailboxes(by[mailboxes.memory], {gmi: by[one] for gmi, one in mailboxes.eventfds.items()})

        def replaced(memories: Mapping[str, int | None]) -> dict[str, int | None]:
            return {name: None if one is None else by[one] for name, one in memories.items()}

        policies = {name: replaced(memories) for name, memories in self.policies.items()}
        guests = {name: {gmi: by[one] for gmi, one in own.items()} for name, own in self.guests.items()}
        own: dict[str, Any] = replaced(self._memories)
        return replace(self, rendezvous=rendezvous, mailboxes=mailboxes, policies=policies, guests=guests, **own)

    @property
    def descriptors(self) -> set[int]:
        """All descriptors that the GMI inherits."""
        descriptors = {one for point in self.rendezvous.values() for one in point.descriptors.values()}
        descriptors |= set(self.mailboxes.descriptors) if self.mailboxes else set()
        descriptors |= {one for own in self.guests.values() for one in own.values()}
        memories = (self._memories, *self.policies.values())
        return descriptors | {one for own in memories for one in own.values() if one is not None}

    def to_order(self) -> dict[str, Any]:
        """The descriptors as JSON, for the order of a GMI."""
        rendezvous = {name: point.to_order() for name, point in self.rendezvous.items()}
        boxes = self.mailboxes
        mailboxes = {"memory": boxes.memory, "eventfds": list(boxes.eventfds.items())} if boxes else None
        guests = {name: list(own.items()) for name, own in self.guests.items()}
        return {
            "rendezvous": rendezvous,
            "mailboxes": mailboxes,
            "policies": self.policies,
            "guests": guests,
            **self._memories,
        }

    @classmethod
    def from_order(cls, order: Mapping[str, Any]) -> Self:
        """The resources that `to_order` has written, in the process that has inherited them."""
        rendezvous = {name: Rendezvous.from_order(point) for name, point in order["rendezvous"].items()}
        boxes = order["mailboxes"]
        mailboxes = Mailboxes(boxes["memory"], dict(boxes["eventfds"])) if boxes else None
        guests = {name: dict(own) for name, own in order["guests"].items()}
        return cls(rendezvous, mailboxes, order["channels"], order["streams"], order["policies"], guests)

    @property
    def _memories(self) -> dict[str, int | None]:
        return {"channels": self.channels, "streams": self.streams}
