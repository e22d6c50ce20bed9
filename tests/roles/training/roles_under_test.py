"""Holistic roles that are recorded or go wrong, and worlds that do again what was recorded."""

import torch
from safetensors.torch import load_file, save_file

from gmi_drl.roles.training.holistic import Holistic


class Recorded:
    """A task of which `tape` keeps what every step took and gave, lists of `[N, ...]` by name."""

    def __init__(self, task):
        self.task = task
        self.tape = {"obs": [task.obs.clone()]}

    def __getattr__(self, name):
        return getattr(self.task, name)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.task.step(action)
        ends = {"terminated": terminated, "truncated": truncated}
        for name, tensor in {"action": action, "obs": obs, "reward": reward, **ends, **info}.items():
            self.tape.setdefault(name, []).append(tensor.clone())
        return obs, reward, terminated, truncated, info


class Recorder(Holistic):
    """Leaves the tape of its worlds in the run folder."""

    def make_replica(self, task, start):
        self.worlds = Recorded(task)
        return super().make_replica(self.worlds, start)

    def GMI_run(self, resume=None):
        result = super().GMI_run(resume)
        tape = {name: torch.stack(steps) for name, steps in self.worlds.tape.items()}
        save_file(tape, self.folder.path / f"gmi-{self.GMI_id}.tape")
        return result


class Parted(Holistic):
    """On GMI 1 a weight changes a little after each update."""

    def make_replica(self, task, start):
        replica = super().make_replica(task, start)
        iterate = replica.iterate

        def iterate_and_part(decide):
            stats = iterate(decide)
            replica.learner.agent.policy.log_std.data[0] += 1e-6 * self.GMI_id
            return stats

        replica.iterate = iterate_and_part
        return replica


class Replay:
    """The worlds of all tapes in a folder side by side. They go the way they went, whatever the action."""

    counts_by_itself = True
    device = torch.device("cpu")

    def __init__(self, spec, folder):
        tapes = [load_file(file) for file in sorted(folder.glob("gmi-*.tape"))]
        self.spec = spec
        self.tape = {name: torch.cat([tape[name] for tape in tapes], 1) for name in tapes[0]}
        self.obs, self.now = self.tape["obs"][0], 0
        self.num_env = len(self.obs)
        self.episode_length = torch.zeros(self.num_env, dtype=torch.int64)

    def attach(self, replica):
        """Let a replica learn in these worlds, from the actions that were taken."""
        replica.attach_task(self, seed=0)
        policy = replica.learner.agent.policy
        policy.act = lambda obs, noise: (self.tape["action"][self.now], policy.actor(obs))

    def step(self, action):
        step = {name: tensor[self.now] for name, tensor in self.tape.items()}
        self.now += 1
        self.obs = self.tape["obs"][self.now]
        return self.obs, step["reward"], step["terminated"], step["truncated"], step
