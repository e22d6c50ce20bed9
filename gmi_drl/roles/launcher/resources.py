"""What a GMI shares with others: made by the launcher, inherited by descriptor."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gmi_drl.comm.memory.mailbox_memory import Mailboxes
from gmi_drl.comm.rendezvous import Rendezvous


@dataclass(frozen=True)
class Resources:
    """Of one GMI.

    Args:
        spots: Where it meets each of its groups, by the group's name.
        post: The mailboxes of the GMIs of its host; None where nobody sends anything.
        channels: Descriptor of the memory of experience (`comm.channels.create_memory`); None in a layout without.
    """

    spots: Mapping[str, Rendezvous] = field(default_factory=dict)
    post: Mailboxes | None = None
    channels: int | None = None

    def with_descriptors(self, by: Mapping[int, int]) -> Self:
        """The same with other descriptors of the same things, by those here."""
        spots = {
            name: Rendezvous.from_order(spot.to_order() | {what: by[one] for what, one in spot.descriptors.items()})
            for name, spot in self.spots.items()
        }
        post = self.post and Mailboxes(by[self.post.memory], {gmi: by[bell] for gmi, bell in self.post.bells.items()})
        return replace(self, spots=spots, post=post, channels=None if self.channels is None else by[self.channels])

    @property
    def descriptors(self) -> set[int]:
        """All that it inherits."""
        descriptors = {descriptor for spot in self.spots.values() for descriptor in spot.descriptors.values()}
        descriptors |= set(self.post.descriptors) if self.post else set()
        return descriptors if self.channels is None else descriptors | {self.channels}

    def to_order(self) -> dict[str, Any]:
        """As JSON."""
        spots = {name: spot.to_order() for name, spot in self.spots.items()}
        post = {"memory": self.post.memory, "bells": list(self.post.bells.items())} if self.post else None
        return {"spots": spots, "post": post, "channels": self.channels}

    @classmethod
    def from_order(cls, order: Mapping[str, Any]) -> Self:
        """What `to_order` has written, in the process that has inherited it."""
        spots = {name: Rendezvous.from_order(spot) for name, spot in order["spots"].items()}
        post = order["post"]
        return cls(spots, Mailboxes(post["memory"], dict(post["bells"])) if post else None, order["channels"])
