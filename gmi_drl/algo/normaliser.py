"""Running mean and variance of the vectors of observations, the same on every GMI."""

import torch
from torch import Tensor

from gmi_drl.comm.memory.pinned import Upload, pinned_zeros
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import Observation


class Normaliser:
    """Scales the vectors of observations to zero mean and unit variance; images and masks stay as they are.

    Statistics are float64 and constant during an iteration. The moments of a GMI's observations are its *delta*; once
    per iteration every GMI merges all deltas in rank order (Chan et al. 1979), so that all stay bit-identical.
    """

    EPSILON = 1e-2  # as rsl_rl: added to the standard deviation, keeps constant observations quiet

    def __init__(self, observation: Observation, device: torch.device) -> None:
        self._observation, num_obs = observation, observation.vector_size
        self.num_obs = num_obs
        self.statistics = torch.zeros(1 + 2 * num_obs, dtype=torch.float64)  # count, mean [O], M2 [O]
        self._scaling = torch.zeros(2, num_obs, device=device)
        self.mean, self.scale = self._scaling.unbind()  # views, which graphs read in place
        self.scale.fill_(1)
        self._host, self._upload = pinned_zeros(2, num_obs, device=device), Upload()

    def __call__(self, obs: Tensor) -> Tensor:
        """Normalised observations `[..., *shape]`, a copy; themselves if they have no vectors."""
        if self._observation.is_vector:
            return (obs - self.mean) * self.scale
        return self.scale_(obs.clone()) if self.num_obs else obs

    def scale_(self, obs: Tensor) -> Tensor:
        """The same in place."""
        if self._observation.is_vector:
            return obs.sub_(self.mean).mul_(self.scale)
        begin = 0
        for rows in self._vectors(obs):
            place = slice(begin, begin + rows.shape[-1])
            rows.sub_(self.mean[place]).mul_(self.scale[place])
            begin = place.stop
        return obs

    def delta(self, obs: Tensor) -> Tensor:
        """The moments of the V numbers in vectors of observations `[..., *shape]`, float64 `[1 + 2 V]`, there."""
        if self._observation.is_vector:
            return moments(obs.reshape(-1, self.num_obs))
        if not self.num_obs:
            return torch.zeros(1, dtype=torch.float64, device=obs.device)
        return moments(torch.cat(self._vectors(obs), -1).flatten(0, -2))

    def _vectors(self, obs: Tensor) -> list[Tensor]:
        """Views of the vectors, each `[..., n]`."""
        parts = parts_of(obs, self._observation)
        return [parts[part.name] for part in self._observation.of_kind("vector")]

    def merge(self, deltas: Tensor) -> None:
        """Merge the deltas `[ranks, 1 + 2 O]` of all GMIs, in rank order, on the CPU."""
        for delta in deltas:
            self.statistics = merge_moments(self.statistics, delta)
        self._refresh()

    def load(self, statistics: Tensor) -> None:
        """Continue from saved `statistics`."""
        self.statistics = statistics.clone()
        self._refresh()

    def _refresh(self) -> None:
        count, mean, m2 = self.statistics[0], self.statistics[1 : 1 + self.num_obs], self.statistics[1 + self.num_obs :]
        if count == 0 or not self.num_obs:
            return  # no observations yet: the initial scaling stays
        self._upload.wait()  # returns at once: the exchange since the last upload waited for the device
        self._host[0] = mean
        self._host[1] = 1 / ((m2 / count).sqrt() + self.EPSILON)
        self._upload.start(self._host, self._scaling)


def moments(rows: Tensor) -> Tensor:
    """Count, mean and M2 (sum of squared deviations) of rows `[n, K]`, float64 `[1 + 2 K]`."""
    distance = rows.to(torch.float64, copy=True)
    mean = distance.mean(0)
    count = torch.full((1,), rows.shape[0], dtype=torch.float64, device=rows.device)
    return torch.cat((count, mean, distance.sub_(mean).square_().sum(0)))  # torch.var_mean takes several times as long


def merge_moments(left: Tensor, right: Tensor) -> Tensor:
    """Moments `[1 + 2 K]` of two sets of rows together, from those of each; the right set must not be empty."""
    size = (left.numel() - 1) // 2
    count = left[0] + right[0]
    gap = right[1 : 1 + size] - left[1 : 1 + size]
    mean = left[1 : 1 + size] + gap * (right[0] / count)
    m2 = left[1 + size :] + right[1 + size :] + gap.square() * (left[0] * right[0] / count)
    return torch.cat((count.reshape(1), mean, m2))
