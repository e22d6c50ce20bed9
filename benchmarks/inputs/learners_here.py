"""Learners with four environments in this process, made of the roles' parts: `walk_settings.py` runs them.

Roles that have their own GMIs are threads here, with real messages between them.
"""

import atexit
import threading
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import OffPolicyConfig, SequenceConfig
from gmi_drl.config.run_config import RunConfig, a3c_of
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.waits import waits_of
from gmi_drl.replay import import_episodes
from gmi_drl.roles.decoupled.a3c_learner import make_a3c
from gmi_drl.roles.dedicated.agent import TrainingAgent
from gmi_drl.roles.dedicated.remote_actor import RemoteReplica
from gmi_drl.roles.dedicated.simulator import TrainingSimulator
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.roles.sequence.replica import SequenceReplica
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import make
from gmi_drl.templates import TDG_EX
from gmi_drl.workload import TASK_SPECS, TaskSpec, spec_of

N, CPU = 4, torch.device("cpu")
HANG_S = 60.0


class Apart:
    """An agent and a trainer of A3C that work in turn."""

    def __init__(self, config: RunConfig) -> None:
        self.task, self.learner = make("ant", num_env=N, seed=1), a3c_of(config)
        self.a3c = make_a3c(self.task.spec, config, NoReduction(), CPU)
        agent, self.vector = new_actor_critic(self.task.spec, config, CPU)
        evaluate, noise = partial(agent.evaluate_actions, config=self.learner), torch.Generator().manual_seed(2)
        self.actor = Actor(self.task, agent, self.learner, noise, evaluate=evaluate)
        end_soon(self.task)

    def iterate(self, decide: Any) -> None:
        """Let the agent collect rollouts with an older policy, and the trainer learn from them."""
        spec, horizon = self.task.spec, self.learner.horizon
        form = RolloutForm(horizon, N, spec.observation, spec.action)
        batch = ExperienceBatch.empty(form, self.learner.rollouts or 1, CPU)
        slot = Slot(Rollout(RolloutForm(horizon, N, spec.observation, spec.action), CPU))
        for number in range(len(batch.obs)):
            self.actor.collect(slot, PhaseClock(CPU))
            for name in (
                "obs",
                "action",
                "log_prob",
                "reward",
                "done",
                "valid",
                "bootstrap",
                "last_obs",
                "delta",
                "sums",
            ):
                getattr(batch, name)[number].copy_(getattr(slot.rollout, name))
        self.vector.add_(0.02)  # another version than the trainer's
        self.a3c.update(batch)
        self.a3c.normaliser.merge(batch.delta)

    def learner_state(self) -> dict[str, Tensor]:
        """Like that of a replica."""
        return self.a3c.state_dict()

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Like that of a replica."""
        self.a3c.load_state_dict(state)
        self.vector.copy_(state["parameters"]).add_(0.02)

    def set_learning_rate(self, rate: float) -> None:
        """Like that of a replica."""
        self.a3c.learning_rate.fill_(rate)


class Dedicated(RemoteReplica):
    """A trainer of TDG_EX; its simulator and its agent are threads. Must be closed."""

    def __init__(self, config: RunConfig) -> None:
        node, cut = Node(name="n", cpu=Cpu(cores=1, memory_gib=8)), Cut(3, N, share_cores=True)
        layout = TDG_EX.lay_out(TASK_SPECS["ant"], node, cut)
        self._mailboxes = create_mailboxes(range(3))
        self._messages = [Messages(self._mailboxes, gmi_id, HANG_S) for gmi_id in range(3)]
        managers = [_manager(layout, gmi_id, config, mail) for gmi_id, mail in enumerate(self._messages)]
        roles = zip((TrainingSimulator, TrainingAgent), managers, strict=False)
        self._threads = [threading.Thread(target=_play, args=(*role, i), daemon=True) for i, role in enumerate(roles)]
        agent = Peer(managers[2], 1)
        with patch("gmi_drl.roles.training.actor.stagger", lambda task, generator: end_soon(task)):
            for thread in self._threads:
                thread.start()
            told = agent.receive(HANG_S)
        spec = spec_of(told["spec"])
        super().__init__(spec, config, NoReduction(), sample_share=1.0, device=CPU, seed=config.seed)
        self.learn_from(agent, told["num_env"], len(told["terms"]))

    def close(self) -> None:
        """End the threads of agent and simulator."""
        self.actor.close()
        for thread in self._threads:
            thread.join(HANG_S)
        for messages in self._messages:
            messages.close()
        self._mailboxes.close()


def _manager(layout: Layout, gmi_id: int, config: RunConfig, mail: Messages) -> Any:
    """A fake `GMI_manager` with what these roles use."""
    return SimpleNamespace(
        configure=lambda: config,
        layout=layout,
        gmi=layout.gmis[gmi_id],
        waits=waits_of(layout),
        hang_s=HANG_S,
        device=CPU,
        tasks=[],
        send=mail.send,
        recv_while_active=lambda sender, patience: mail.recv_while_active(sender, "cpu", patience),
    )


def _play(role: type[TrainingSimulator | TrainingAgent], manager: Any, gmi_id: int) -> None:
    """Run a role in this process."""
    made = object.__new__(role)
    made.GMI_id, made.mgr = gmi_id, manager
    made.GMI_run()


def end_soon(task: Any) -> None:
    """Make the episodes of all environments end by a time-out in two steps."""
    task.episode_length.fill_(task.spec.episode_steps - 2)


@cache
def recorded(spec: TaskSpec) -> str:
    """A folder of random episodes of a task, for this process."""
    folder = TemporaryDirectory(prefix="gmi-drl-episodes-")
    atexit.register(folder.cleanup)
    draw = torch.Generator().manual_seed(0)
    sizes = {"obs": (spec.observation.size,), "action": (spec.action.size,), "reward": ()}
    episodes = ({name: torch.rand(12, *size, generator=draw).round() for name, size in sizes.items()} for _ in range(6))
    into = Path(folder.name) / "made.replay"
    import_episodes(episodes, into)
    return str(into)


def made(config: RunConfig, template: str | None = None) -> Any:
    """A learner with environments, for its default template or for TDG_EX."""
    if template == TDG_EX.name:
        return Dedicated(config)
    if config.learner.kind == "a3c":
        return Apart(config)
    task = make("gymnasium:CartPole-v1" if config.learner.kind == "dqn" else "ant", num_env=N, seed=1)
    learner: Any
    if isinstance(config.learner, OffPolicyConfig):
        if config.learner.replay.data is not None:
            replay = config.learner.replay.model_copy(update={"data": recorded(task.spec)})
            config = config.model_copy(update={"learner": config.learner.model_copy(update={"replay": replay})})
        sizes = {"num_env": N, "group_num_env": N}
        learner = ReplayReplica(task.spec, config, NoReduction(), device=CPU, seed=config.seed, **sizes)
        learner.attach_task(task, seed=2)
    elif isinstance(config.learner, SequenceConfig):
        of_folder = config.model_copy(
            update={"learner": config.learner.model_copy(update={"data": recorded(task.spec)})}
        )
        learner = SequenceReplica(task.spec, of_folder, NoReduction(), AloneLink(), device=CPU)
        learner.attach_task(task, seed=2)
    elif config.learner.kind == "rsl_rl":
        from gmi_drl.roles.rsl_rl.replica import RslRlReplica

        torch.manual_seed(1)
        learner = RslRlReplica(task, config, NoReduction(), sample_share=1.0, seed=1, log_dir=None)
    else:
        learner = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=CPU, seed=config.seed)
        learner.attach_task(task, seed=2)
    if not task.counts_by_itself:
        end_soon(task)
    return learner
