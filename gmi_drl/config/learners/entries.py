"""The registry of learners: where the code of each kind is, and what it needs."""

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from gmi_drl.errors import MachineError
from gmi_drl.registry import Registry, class_at

if TYPE_CHECKING:
    from gmi_drl.config.learners.base import LearnerConfig


@dataclass(frozen=True)
class LearnerEntry:
    """A kind of learner.

    Args:
        name: The configuration's `learner.kind`, and what `--algo` takes.
        what: The learner in words.
        config: `module:class` of its `LearnerConfig`.
        role: `module:class` of the role of a GMI that acts and trains (`roles.drl_role.DRL_role`); None if it only
            learns from agents on other GMIs.
        probe: `module:class` of the role that measures an iteration (`roles.probes.probe.Probe`), for plans; None to
            measure our PPO in its place, with as many steps, epochs and mini-batches, which a message says.
        noise_probe: `module:class` of the role that also measures its gradient noise scale
            (`roles.probes.noise_probe`); None if there is none: then plans cannot maximise learning.
        needs: Packages with their oldest usable version, e.g. `("rsl-rl-lib", "5.4")`. Measurements hold for the
            installed versions.
        remedy: How to install them.
        trainer: `module:class` of the role of a GMI that trains from channels, for templates with agents on other GMIs;
            None if it cannot.
        trainer_probe: `module:class` of the role that measures an update of such a GMI, for plans; None if
            there is none: then layouts are written by hand.
        actor: `module:class` of the role of a GMI that acts for such trainers; None for that of policies with values,
            which workers can do, too.
        on_one_host: Whether all its GMIs must be on one host, because it exchanges data by means of one host.
        agent: `module:function` that makes its agent as at the start of a run, for `play` and `serve`; None if its
            policies are played with other tools. See `algo.agent.make_agent`.
    """

    name: str
    what: str
    config: str
    role: str | None
    probe: str | None = None
    noise_probe: str | None = None
    needs: tuple[tuple[str, str], ...] = ()
    remedy: str = ""
    trainer: str | None = None
    trainer_probe: str | None = None
    actor: str | None = None
    on_one_host: bool = False
    agent: str | None = None

    def obstacle(self) -> str | None:
        """Why this machine cannot run it, with the remedy; None if it can. Imports nothing."""
        for package, oldest in self.needs:
            try:
                found = version(package)
            except PackageNotFoundError:
                return f"--algo {self.name} needs {package}: {self.remedy}"
            if release(found) < release(oldest):
                return f"--algo {self.name} needs {package} {oldest}, not {found}: {self.remedy}"
        return None

    def require(self) -> None:
        """Refuse the learner on a machine that cannot run it.

        Raises:
            MachineError: with the `obstacle`.
        """
        if obstacle := self.obstacle():
            raise MachineError(obstacle)

    @property
    def model(self) -> type["LearnerConfig"]:
        """The class of its configuration."""
        model: type[LearnerConfig] = class_at(self.config)
        return model


OUR_PPO = LearnerEntry(
    "ppo",
    "our PPO",
    "gmi_drl.config.learners.ppo:PPOConfig",
    "gmi_drl.roles.training.holistic:Holistic",
    "gmi_drl.roles.probes.ppo_probe:PPOProbe",
    "gmi_drl.roles.probes.noise_probe:NoiseProbe",
    trainer="gmi_drl.roles.workers.trainer:PPOTrainer",
    agent="gmi_drl.algo.agent:make_agent",
)
RSL_RL = LearnerEntry(
    "rsl_rl",
    "rsl_rl's own runner and PPO",
    "gmi_drl.config.learners.rsl_rl:RslRlConfig",
    "gmi_drl.roles.rsl_rl.role:RslRl",
    "gmi_drl.roles.probes.rsl_rl_probe:RslRlProbe",
    needs=(("rsl-rl-lib", "5.4"),),
    remedy="pip install 'gmi-drl[rsl-rl]'",
    on_one_host=True,
)
A3C = LearnerEntry(
    "a3c",
    "our A3C with V-trace, by agents on other GMIs",
    "gmi_drl.config.learners.a3c:A3CConfig",
    None,
    trainer="gmi_drl.roles.decoupled.trainer:Trainer",
    trainer_probe="gmi_drl.roles.probes.trainer_probe:TrainerProbe",
    agent="gmi_drl.algo.agent:make_agent",
)
DQN = LearnerEntry(
    "dqn",
    "our DQN, from replay",
    "gmi_drl.config.learners.dqn:DQNConfig",
    "gmi_drl.roles.replay.role:Replaying",
    "gmi_drl.roles.probes.replay_probe:ReplayProbe",
    trainer="gmi_drl.roles.replay.trainer:ReplayTrainer",
    trainer_probe="gmi_drl.roles.probes.replay_trainer_probe:ReplayTrainerProbe",
    actor="gmi_drl.roles.replay.experience_agent:ReplayExperienceAgent",
    agent="gmi_drl.algo.dqn:make_dqn_agent",
)
SAC = LearnerEntry(
    "sac",
    "our SAC, from replay",
    "gmi_drl.config.learners.sac:SACConfig",
    "gmi_drl.roles.replay.role:Replaying",
    "gmi_drl.roles.probes.replay_probe:ReplayProbe",
    trainer="gmi_drl.roles.replay.trainer:ReplayTrainer",
    trainer_probe="gmi_drl.roles.probes.replay_trainer_probe:ReplayTrainerProbe",
    actor="gmi_drl.roles.replay.experience_agent:ReplayExperienceAgent",
    agent="gmi_drl.algo.sac:make_sac_agent",
)
SEQUENCE = LearnerEntry(
    "sequence",
    "our sequence policy, from recorded episodes",
    "gmi_drl.config.learners.sequence:SequenceConfig",
    "gmi_drl.roles.sequence.role:Sequencing",
    agent="gmi_drl.algo.sequence_agent:make_sequence_agent",
)

LEARNERS = Registry("learner", "gmi_drl.learners", (OUR_PPO, RSL_RL, A3C, DQN, SAC, SEQUENCE))
"""Third parties add entries of their own by entry points: `KIND = "module:ENTRY"`, a `LearnerEntry`."""


def release(text: str) -> tuple[int, ...]:
    """Major and minor version."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
