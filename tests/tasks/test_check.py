from dataclasses import replace

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.tasks import TASKS, check_task, make
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.spaces import continuous, vector

NUM_ENV = 6


class Drift:
    """Points that are pushed about and start anew when they have gone too far: the least that keeps the contract."""

    spec = TaskSpec("drift", "DR", vector(2), continuous(2), (8,), episode_steps=30, step_s=0.1)
    counts_by_itself = False

    def __init__(self, seed):
        self.num_env, self.device = NUM_ENV, torch.device("cpu")
        self.generator = torch.Generator().manual_seed(seed)
        self.episode_length = torch.zeros(NUM_ENV, dtype=torch.int64)
        self.reset()

    def reset(self):
        self.episode_length.zero_()
        self.obs = self.start()
        return self.obs

    def start(self):
        return torch.empty(NUM_ENV, 2).uniform_(-0.1, 0.1, generator=self.generator)

    def clamp(self, action):
        return action.clamp(-1, 1)

    def step(self, action):
        if action.shape != (NUM_ENV, 2):
            raise UsageError(f"shape {tuple(action.shape)}")
        bad = action.isnan().any(1)
        final_obs = torch.where(bad[:, None], self.obs, self.obs + 0.3 * self.clamp(action))
        reward = final_obs.sum(1).masked_fill(bad, 0.0)
        self.episode_length += 1
        terminated = (final_obs.abs() > 1).any(1) & ~bad
        truncated = bad | ((self.episode_length >= self.spec.episode_steps) & ~terminated)
        ended = terminated | truncated
        self.episode_length.masked_fill_(ended, 0)
        self.obs = torch.where(ended[:, None], self.start(), final_obs)
        return self.obs, reward, terminated, truncated, {"final_obs": final_obs, "bad": bad, "valid": ~bad}

    def state_dict(self):
        own = {"obs": self.obs.clone(), "episode_length": self.episode_length.clone()}
        return own | {"generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.obs = state["obs"].clone()
        self.episode_length.copy_(state["episode_length"])
        self.generator.set_state(state["generator"])

    def close(self):
        pass


def broken(change):
    """A Drift whose `step` returns what `change(task, *outcome)` makes of it."""

    class Broken(Drift):
        def step(self, action):
            return change(self, *super().step(action))

    return Broken


def with_info(**changes):
    return broken(lambda task, *outcome: (*outcome[:4], outcome[4] | {k: v(outcome) for k, v in changes.items()}))


class Unclamped(Drift):
    def clamp(self, action):
        return action


class Unseeded(Drift):
    def start(self):
        return 0.1 * torch.rand(NUM_ENV, 2)


class SameForEverySeed(Drift):
    def __init__(self, seed):
        super().__init__(0)


class AnyShape(Drift):
    def step(self, action):
        return super().step(action[:, :2])


class Forgetful(Drift):
    def load_state_dict(self, state):
        super().load_state_dict(state | {"generator": self.generator.get_state()})

    def clamp(self, action):
        return super().clamp(action) + self.start()


class Shared(Drift):
    def state_dict(self):
        return super().state_dict() | {"episode_length": self.episode_length}


class Immortal(Drift):
    """Counts by itself, and far."""

    spec = replace(Drift.spec, episode_steps=100_000)

    def reset(self):
        self.count = 0
        return super().reset()

    def step(self, action):
        self.episode_length.fill_(self.count)
        self.count += 1
        return super().step(action)

    def clamp(self, action):
        return 0.001 * super().clamp(action)


class Uncounted(Drift):
    def step(self, action):
        outcome = super().step(action)
        self.episode_length.zero_()
        return outcome


class Endless(Drift):
    def step(self, action):
        length = self.episode_length.clone()
        outcome = super().step(action)
        self.episode_length.copy_(length + 1)
        return outcome


class Raises(Drift):
    def reset(self):
        if hasattr(self, "obs"):
            raise KeyError("torso")
        return super().reset()


class BlindToNan(Drift):
    def step(self, action):
        return super().step(action.nan_to_num())


def as_final(task, obs, reward, terminated, truncated, info):
    """Forgets to return the first observation of the next episode."""
    task.obs = info["final_obs"]
    return task.obs, reward, terminated, truncated, info


def far_away(task, obs, reward, terminated, truncated, info):
    """Starts elsewhere after an end than after a reset."""
    task.obs = torch.where((terminated | truncated)[:, None], obs + torch.tensor([0.0, 5.0]), obs)
    return task.obs, reward, terminated, truncated, info


def both_ends(task, obs, reward, terminated, truncated, info):
    return obs, reward, terminated, truncated | terminated, info


def double_reward(task, obs, reward, *rest):
    return obs, reward.double(), *rest


def nan_reward(task, obs, reward, *rest):
    return obs, reward / 0.0 * 0.0, *rest


def column_reward(task, obs, reward, *rest):
    return obs, reward[:, None], *rest


def integer_ends(task, obs, reward, terminated, *rest):
    return obs, reward, terminated.long(), *rest


def other_obs(task, obs, *rest):
    return obs + 1, *rest


def no_valid(task, *outcome):
    return (*outcome[:4], {name: outcome[4][name] for name in ("final_obs", "bad")})


MISTAKES = [
    (Unclamped, r"actions beyond \[-1, 1\] are not clamped"),
    (Unseeded, "two tasks of the same seed differ"),
    (SameForEverySeed, "seeds 3 and 4 have the same first"),
    (AnyShape, "an action of another shape raises no error, not UsageError"),
    (Forgetful, "a task that has loaded a state_dict goes on differently"),
    (Shared, "state_dict is not a copy"),
    (Immortal, "no episode ended within 200 steps.*more `steps`"),
    (Uncounted, "episode_length does not count the steps"),
    (Endless, "where an episode ended, episode_length is not 0"),
    (Endless, "an episode goes on after its 30 steps"),
    (Raises, "KeyError: 'torso'"),
    (BlindToNan, "a NaN action does not end its environment as bad, and no other"),
    (broken(as_final), "obs is final_obs, not the first observation"),
    (broken(far_away), r"observations \[1\] are far from those of a reset"),
    (broken(both_ends), "an environment is both terminated and truncated"),
    (broken(double_reward), "reward is torch.float64, expected torch.float32"),
    (broken(nan_reward), "reward is not finite"),
    (broken(column_reward), r"reward has shape \(6, 1\), expected \(6,\)"),
    (broken(integer_ends), "terminated is torch.int64, expected torch.bool"),
    (broken(other_obs), "obs is not what step returned"),
    (broken(no_valid), "info lacks valid"),
    (with_info(valid=lambda outcome: torch.ones_like(outcome[2])), "a bad environment is a valid transition"),
    (with_info(bad=lambda outcome: torch.ones_like(outcome[2])), "a bad environment is not truncated"),
    (with_info(bad=lambda outcome: torch.ones_like(outcome[2])), "a bad environment has a reward"),
]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_our_tasks_keep_the_contract(name):
    check_task(lambda seed: make(name, num_env=NUM_ENV, seed=seed))


def test_a_task_of_anybodys_that_keeps_the_contract_passes():
    check_task(Drift)


@pytest.mark.parametrize(("make_broken", "mistake"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
def test_each_mistake_is_named(make_broken, mistake):
    with pytest.raises(UsageError, match=mistake):
        check_task(make_broken)


def test_all_mistakes_are_reported_at_once():
    class Careless(Unclamped, BlindToNan):
        pass

    with pytest.raises(UsageError, match=r"2 mistakes\n  actions beyond.*\n  a NaN action"):
        check_task(Careless)


def test_simulators_that_do_not_look_for_nan_may_pass():
    check_task(BlindToNan, nan_ends_world=False)


def test_an_empty_state_is_a_state():
    class Stateless(Drift):
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            assert not state

    check_task(Stateless)


def test_a_task_itself_is_checked_and_left_open():
    class Watched(Drift):
        closed = 0

        def close(self):
            self.closed += 1

    task = Watched(0)
    check_task(task)
    assert not task.closed


@pytest.mark.parametrize("broken_task", [Forgetful, Shared, Raises, BlindToNan, broken(far_away)])
def test_mistakes_of_a_task_itself_are_named(broken_task):
    with pytest.raises(UsageError, match="does not keep the contract"):
        check_task(broken_task(0))


def test_episodes_may_begin_as_they_end():
    class Bandit(Drift):
        """Every episode is one step, and all observations are alike."""

        spec = replace(Drift.spec, episode_steps=1)

        def start(self):
            return torch.zeros(NUM_ENV, 2)

        def clamp(self, action):
            return torch.zeros_like(action)

    check_task(Bandit)
