"""Profiles a decoupled iteration: the rollout of an agent, and the update that a trainer makes of it.

    python benchmarks/profiles/decoupled_profile.py ant anymal benchmarks/results/decoupled_profile.txt

Each side runs alone on one core, by `profile_parts`; the trainer also with gradients by autograd, as before. Waiting,
messages and versions are not included: `channel_profile.py`, and `decoupled_picture.py` of a training.
"""

import cProfile
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import torch
from profile_parts import Parts, Told, parts_of, table

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import make_agent
from gmi_drl.benchmarks.cases.components.a3c_by_autograd import A3CByAutograd
from gmi_drl.benchmarks.cases.components.a3c_update import NUM_ENV, keep_freed_memory, learner_and_batch
from gmi_drl.benchmarks.cores import one_core
from gmi_drl.config.run_config import a3c_of, default_config
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

CPU = torch.device("cpu")
ROUNDS, WARM_UP = 20, 3

PARTS: Parts = {
    "physics": ("mujoco",),
    "products": ("_nn.linear", "built-in method torch.mm", "method 'mm'"),
    "ELU": ("elu.py", "elu_", "elu_backward", "'exp_'", "torch.maximum"),
    "autograd": ("run_backward", "autograd"),
    "Adam": ("_fused_adam_",),
    "moments": ("normaliser.py", "'mean'", "var_mean"),
    "task": ("sim_task.py", "native.py", *(f"{task}.py" for task in TASK_SPECS), "rotation.py", "locomotion.py"),
    "tensors": (
        *("TensorBase", "built-in method torch", "torch._C"),
        *("a3c.py", "a3c_by_autograd.py", "flat_learner.py", "backprop.py", "vtrace.py", "actor.py"),
        *("mlp.py", "actor_critic.py", "encoder.py"),
    ),
}
"""Operators between tensors count for the function that contains them."""


def rollouts(task: str) -> Told:
    """Seconds of an agent's rollout by part."""
    spec = TASK_SPECS[task]
    config = a3c_of(default_config(spec, "a3c"))
    with closing(make(task, num_env=NUM_ENV, device="cpu", seed=0, threads=1)) as worlds:
        agent = make_agent(spec, config, CPU, seed=0)
        evaluate, noise = partial(agent.evaluate_actions, config=config), torch.Generator().manual_seed(0)
        actor, clock = Actor(worlds, agent, config, noise, evaluate=evaluate), PhaseClock(CPU)
        slot = actor.make_slot()

        def play() -> None:
            clock.start()
            actor.collect(slot, clock)

        return watch(play)


def updates(task: str, learner: type[A3C]) -> Told:
    """Seconds of a trainer's update by part."""
    a3c, batch = learner_and_batch(learner, task)
    return watch(lambda: a3c.update(batch))


def watch(call: Callable[[], object]) -> Told:
    """Seconds of a call by part."""
    for _ in range(WARM_UP):
        call()
    with cProfile.Profile() as profile:
        for _ in range(ROUNDS):
            call()
    return parts_of(profile, PARTS, ROUNDS)


def main() -> None:
    """Profile both sides of each task."""
    *tasks, target = sys.argv[1:]
    told: dict[str, Told] = {}
    with one_core():
        keep_freed_memory()
        for task in tasks:
            told[f"{task}, agent"] = rollouts(task)
            told[f"{task}, trainer"] = updates(task, A3C)
            told[f"{task}, trainer by autograd"] = updates(task, A3CByAutograd)
    text = table("us of an iteration", told)
    print(text, end="")
    Path(target).write_text(text)


if __name__ == "__main__":
    main()
