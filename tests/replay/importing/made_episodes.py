"""Episodes that were made up, and files of other libraries with them, which the tests alter."""

import numpy as np

OBS, ACTION = 3, 2
RENAMED = {"reward": "rewards", "terminated": "terminations", "truncated": "truncations"}
D4RL = {"obs": "observations", "action": "actions", "reward": "rewards", "terminated": "terminals"}


def made_episodes(count=4, seed=0, longest=9):
    """Episodes with T + 1 observations, every second of which was truncated."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        steps = int(draw.integers(2, longest))
        last = np.arange(steps) == steps - 1
        yield {
            "obs": draw.normal(size=(steps + 1, OBS)),
            "action": draw.normal(size=(steps, ACTION)).astype(np.float32),
            "reward": draw.normal(size=steps),
            "terminated": last & bool(number % 2),
            "truncated": last & (not number % 2),
        }


def write_minari(path, episodes, h5py):
    with h5py.File(path, "w") as file:
        for number, episode in enumerate(episodes):
            group = file.create_group(f"episode_{number}")
            _put(group, "actions", episode["action"])
            for ours, theirs in RENAMED.items():
                group[theirs] = episode[ours]
            _put(group, "observations", episode["obs"])


def _put(group, name, value):
    if isinstance(value, tuple):
        value = {f"_index_{number}": one for number, one in enumerate(value)}
    if isinstance(value, dict):
        below = group.create_group(name)
        for key, one in value.items():
            _put(below, key, one)
    else:
        group[name] = value


def write_d4rl(path, episodes, h5py, *, has_timeouts=True, has_next=True):
    episodes = list(episodes)
    with h5py.File(path, "w") as file:
        for ours, theirs in D4RL.items():
            steps = [one[ours][: len(one["reward"])] for one in episodes]
            file[theirs] = np.concatenate(steps)
        if has_timeouts:
            file["timeouts"] = np.concatenate([one["truncated"] for one in episodes])
        if has_next:
            file["next_observations"] = np.concatenate([one["obs"][1:] for one in episodes])
