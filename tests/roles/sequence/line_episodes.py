"""Recorded walks on the line of `line_task`: good ones go up, bad ones wherever."""

import torch
from roles.replay.line_task import Line

from gmi_drl.replay import import_episodes


def walks(good, bad, *, chooses, seed=5):
    """Episodes of so many good and bad walkers, in turn."""
    task, draw = Line(good + bad, chooses=chooses, seed=seed), torch.Generator().manual_seed(seed)
    task.reset()
    steps = []
    for _ in range(task.spec.episode_steps):
        obs = task.obs.clone()
        action = torch.rand(good + bad, 1, generator=draw)
        action = (action > 0.5).float() if chooses else 2 * action - 1
        action[:good] = 1.0
        _, reward, terminated, truncated, _ = task.step(action)
        steps.append({"obs": obs, "action": action, "reward": reward, "terminated": terminated, "truncated": truncated})
    for world in range(good + bad):
        episode = {name: torch.stack([step[name][world] for step in steps]) for name in steps[0]}
        ends = (episode["terminated"] | episode["truncated"]).nonzero()
        yield {name: value[: int(ends[0]) + 1] for name, value in episode.items()}


def walked(folder, *, good=8, bad=8, chooses=False):
    """A folder of them. Returns its path as text."""
    import_episodes(walks(good, bad, chooses=chooses), folder)
    return str(folder)
