"""Experience that was made up, with ends and gaps, and what its transitions must be, told step by step."""

import torch

from gmi_drl.replay.files.block import Block
from gmi_drl.replay.files.index import ExperienceIndex, GMIExperience

NUM_OBS, NUM_ACTIONS = 3, 2
FACTS = {
    "task": "random_experience",
    "num_obs": NUM_OBS,
    "num_actions": NUM_ACTIONS,
    "step_s": 0.01,
    "run": "/runs/x",
    "iteration": 7,
    "seed": 1,
    "stochastic": False,
    "versions": {"torch": torch.__version__},
}


def random_experience(steps, worlds, seed, knows=True):
    """A block of random numbers in which some worlds end, and some steps are no transitions."""
    draw = torch.Generator().manual_seed(seed)

    def flags(part):
        return torch.rand(steps, worlds, generator=draw) < part

    valid = ~flags(0.2)
    terminated = flags(0.3) & valid
    truncated = (flags(0.3) & ~terminated) | ~valid
    at = ((terminated | truncated) & valid).nonzero()
    return Block(
        torch.randn(steps, worlds, NUM_OBS, generator=draw),
        torch.randn(steps, worlds, NUM_ACTIONS, generator=draw),
        torch.randn(steps, worlds, generator=draw),
        terminated,
        truncated,
        valid,
        last_obs=torch.randn(worlds, NUM_OBS, generator=draw),
        final_obs=torch.randn(len(at), NUM_OBS, generator=draw),
        final_at=at,
        knows_final_obs=knows,
    )


def transitions(block):
    """One after the other, the slow way."""
    ends = {tuple(at): obs for at, obs in zip(block.final_at.tolist(), block.final_obs, strict=True)}
    for t in range(block.steps):
        for n in range(block.num_env):
            if block.valid[t, n]:
                followed = block.obs[t + 1, n] if t + 1 < block.steps else block.last_obs[n]
                yield {
                    "obs": block.obs[t, n],
                    "action": block.action[t, n],
                    "reward": block.reward[t, n],
                    "next_obs": ends.get((t, n), followed),
                    "terminated": block.terminated[t, n],
                    "truncated": block.truncated[t, n],
                }


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def index_of(shards, worlds, state="done"):
    """An index of GMIs with such shards, by id."""
    gmis = {gmi: GMIExperience(num_env=worlds, seed=gmi, shards=tuple(of)) for gmi, of in shards.items()}
    return ExperienceIndex(**FACTS, state=state, gmis=gmis)
