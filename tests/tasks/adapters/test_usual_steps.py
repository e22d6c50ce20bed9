"""Steps in which nothing is odd take a short way. It must return what the long way returns."""

import warnings

import pytest
import torch
from gymnasium.spaces import Box

from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.spaces import ActionSpace
from gmi_drl.tasks.adapters.specs import sized
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Observation, Part, continuous

N = 3
NUMBERS, IMAGE = Part("v", (2,)), Part("i", (1, 2, 2), "image")
KINDS = {"vector": (NUMBERS,), "image": (IMAGE,), "numbers and image": (NUMBERS, IMAGE)}


class Scripted(AdaptedTask):
    """Environments whose outcomes are drawn, now and then with numbers that are odd."""

    def __init__(self, parts, short_way, odd, began, own):
        self._generator, self._form, self._short_way = torch.Generator().manual_seed(1), Observation(parts), short_way
        self._odd, self._with_began, self._with_own, self.short = odd, began, own, 0
        space = ActionSpace("s", Box(-2.0, 2.0, (1,)))
        super().__init__(sized("s", self._form, continuous(1), "", 10, 0.1), self._drawn(), space)

    def _is_usual(self, outcome):
        is_usual = self._short_way and super()._is_usual(outcome)
        self.short += is_usual
        return is_usual

    def _uniform(self, *shape):
        return torch.rand(*shape, generator=self._generator)

    def _drawn(self):
        numbers = self._uniform(N, 2)
        numbers[self._uniform(N, 2) < self._odd] = torch.nan
        numbers[self._uniform(N, 2) < self._odd] = 1e9
        parts = {"v": numbers, "i": (self._uniform(N, 1, 2, 2) * 255).to(torch.uint8)}
        return pack({part.name: parts[part.name] for part in self._form.parts}, self._form)

    def _begin(self):
        return self._drawn()

    def _simulate(self, action):
        assert action.isfinite().all()
        reward = self._uniform(N)
        reward[self._uniform(N) < self._odd] = torch.inf
        seen = self._drawn()
        outcome = Outcome(seen, reward, self._uniform(N) < 0.2, self._uniform(N) < 0.2, seen)
        outcome.final_obs = self._drawn() if self._uniform(1) < 0.5 else seen
        if self._with_began:
            outcome.began = self._uniform(N) < 0.1
        if self._with_own:
            outcome.own_reward, outcome.own_end = self._uniform(N), self._uniform(N) < 0.2
        return outcome

    def close(self):
        pass


@pytest.mark.parametrize("odd", [0.0, 0.02], ids=["all is usual", "some are odd"])
@pytest.mark.parametrize(("began", "own"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_both_ways_return_the_same(kind, began, own, odd):
    short, long = (Scripted(KINDS[kind], way, odd, began, own) for way in (True, False))
    actions = torch.Generator().manual_seed(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the odd numbers
        for _ in range(60):
            action = torch.randn(N, 1, generator=actions) * (torch.nan if torch.rand(1) < odd else 3.0)
            (obs, *rest, info), (same_obs, *same_rest, same_info) = (task.step(action) for task in (short, long))
            assert info.keys() == same_info.keys()
            pairs = [*zip((obs, *rest), (same_obs, *same_rest), strict=True), *((info[k], same_info[k]) for k in info)]
            assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in pairs)
            assert torch.equal(short.episode_length, long.episode_length) and torch.equal(short.obs, long.obs)
    assert short.short > 0 and long.short == 0


def test_what_a_step_returned_is_the_callers_own():
    """Also where the simulator goes on to write into its tensors."""
    task = Scripted(KINDS["vector"], True, 0.0, False, True)
    outcomes, simulate = [], task._simulate
    task._simulate = lambda action: outcomes.append(simulate(action)) or outcomes[-1]
    obs, reward, terminated, truncated, info = task.step(torch.zeros(N, 1))
    before = [one.clone() for one in (obs, reward, terminated, truncated, *info.values())]
    for name in ("obs", "reward", "terminated", "truncated", "final_obs", "own_reward", "own_end"):
        getattr(outcomes[0], name).fill_(1)
    assert task.short == 1
    assert all(map(torch.equal, before, (obs, reward, terminated, truncated, *info.values())))
