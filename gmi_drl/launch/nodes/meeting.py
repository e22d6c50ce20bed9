"""Where the GMIs of all nodes listen for each other, as the launcher learns and passes it on."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from gmi_drl.comm.host_links import links_of
from gmi_drl.layout.layout import Layout

NOWHERE = ("", 0)
"""The address of an end that has not come: the other end waits for it and does not need it."""


class Meeting:
    """Collects the addresses of groups and links. Each has a token, which stays the same for nodes that come later.

    Args:
        layout: Of all GMIs.
    """

    def __init__(self, layout: Layout) -> None:
        self._where: dict[str, dict[int, Any]] = {
            link.name: dict.fromkeys(range(len(link.ends)), NOWHERE) for link in links_of(layout)
        }
        self._tokens: dict[str, str] = {}

    def joined(self, of_nodes: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
        """The addresses of all ranks of each group, in rank order, with its token; with those of further nodes."""
        for addresses in of_nodes:
            for name, of_ranks in addresses.items():
                self._where.setdefault(name, {}).update({int(rank): address for rank, address in of_ranks.items()})
        return {
            name: [
                [of_ranks[rank] for rank in sorted(of_ranks)],
                self._tokens.setdefault(name, secrets.token_hex(16)),
            ]
            for name, of_ranks in self._where.items()
            if of_ranks
        }
