"""Batches of which a share is from recorded episodes (RLPD, Ball et al., arXiv 2302.02948, section 4.1)."""

import torch
from torch import Tensor

from gmi_drl.comm.group import Group
from gmi_drl.config.learners import OffPolicyConfig
from gmi_drl.replay import EpisodeSet, Ring
from gmi_drl.replay.offline import OfflineWindows
from gmi_drl.replay.ring import RingBatch
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.workload import TaskSpec


class OfflineShare:
    """Completes what a ring gives by recorded windows.

    Args:
        spec: Of the task.
        config: With `replay.data`.
        group: Each GMI has recorded episodes of its own.
        device: Of the batches.
        seed: Of what is drawn.

    Raises:
        UsageError: The episodes are not there, or not of this task.
    """

    def __init__(self, spec: TaskSpec, config: OffPolicyConfig, group: Group, device: torch.device, seed: int) -> None:
        assert config.replay.data is not None
        episodes = EpisodeSet(config.replay.data)
        episodes.require(spec)
        self.windows = OfflineWindows(
            episodes,
            n_step=config.replay.n_step,
            gamma=config.gamma,
            rank=group.rank,
            ranks=group.size,
            seed=seed,
        )
        self._share, self._device, self._numbers = config.replay.used_share, device, spec.action.numbers
        self._mixed: RingBatch | None = None

    def online(self, batch: int) -> int:
        """How many of so many steps are from the ring."""
        return batch - round(self._share * batch)

    def draw(self, ring: Ring | ServerRing, batch: int, drawn: RingBatch | None) -> tuple[RingBatch | None, RingBatch]:
        """Draw a batch.

        Args:
            ring: For the first part.
            batch: Steps of both parts.
            drawn: What the last call drew from the ring, which is written over.

        Returns:
            What was drawn from the ring, and the batch, over which the next call writes. Its `keys` are of the first
            part.
        """
        count = self.online(batch)
        online = ring.sample(count, out=drawn) if count else None
        offline = self.windows.draw(batch - count)
        offline["action"][:, : self._numbers].clamp_(-1, 1)  # as tasks do, and as all actions of the ring are
        mixed = self._memory(offline, online, batch)
        for name, target in mixed.fields.items():
            if online is not None:
                target[:count] = online.fields[name]
            target[count:] = offline[name]
        size = online.size if online is not None else 1
        mixed.probabilities.fill_(1 / max(size, 1))
        if online is None:
            return None, mixed
        mixed.probabilities[:count] = online.probabilities
        return online, RingBatch(mixed.fields, online.keys, mixed.probabilities, online.size, mixed.rows)

    def forget(self) -> None:
        """Free the memory of batches."""
        self._mixed = None

    def _memory(self, offline: dict[str, Tensor], online: RingBatch | None, batch: int) -> RingBatch:
        if self._mixed is None or len(self._mixed.probabilities) != batch:
            fields = {
                name: torch.zeros(batch, *one.shape[1:], dtype=one.dtype, device=self._device)
                for name, one in offline.items()
            }
            chances = torch.zeros(batch, dtype=torch.float64, device=self._device)
            keys = torch.zeros(0, dtype=torch.int64, device=self._device)
            rows = online.rows if online is not None else self.windows.rows
            self._mixed = RingBatch(fields, keys, chances, 1, rows)
        return self._mixed
