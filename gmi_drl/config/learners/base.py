"""What every learner's configuration tells the rest, and which kinds of learners there are."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, SerializeAsAny

from gmi_drl.config.settings import LIVE, RUN
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.files import FileModel
from gmi_drl.layout.layout import Layout
from gmi_drl.registry import Registry, class_at
from gmi_drl.workload import TaskSpec

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]

FLOAT_BYTES = 4

LEARNER_COPIES = 6
"""Parameters, gradients, their sum in the group, two moments of Adam and what a step needs for a moment."""

ROLLOUT_COPIES = 2
"""The rollout is shuffled into another of the same size."""

KEPT = 3
"""Numbers that stay for the backward pass for each unit of a hidden layer and each sample of a mini-batch, at most."""


class LearnerConfig(FileModel):
    """The section `learner` of a run's configuration: a model of its own for each kind (`learners.LEARNERS`).

    Each field says what a run that goes on does with another value (`settings.Setting`): `hidden`, say, is of
    `NETWORKS`, which refuses it. Of a field that says nothing another value is taken.
    """

    kind: Annotated[str, RUN]
    """Which learner, and so what else the section has."""

    reward_scale: Annotated[Positive, LIVE] = 1.0
    """Times the task's rewards: brings returns to the order of ten, as clipping of the value loss assumes."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """What a new run of a task begins with."""
        raise NotImplementedError

    @classmethod
    def model_for(cls, data: object) -> type[FileModel]:
        """See `FileModel`: the kind's own."""
        return model_of(data) if isinstance(data, dict) else cls

    if TYPE_CHECKING:  # fields of some kinds, computed by others: pydantic allows no field in place of a property

        @property
        def horizon(self) -> int:
            """The paper's m: control steps per world before each training."""
            raise NotImplementedError

        @property
        def epochs(self) -> int:
            """How often an update goes through its samples."""
            raise NotImplementedError

        @property
        def minibatches(self) -> int:
            """Per epoch. Each is a step of the optimizer, and a reduction of the gradients."""
            raise NotImplementedError

        @property
        def learning_rate(self) -> float:
            """What it begins with."""
            raise NotImplementedError

        @property
        def hidden(self) -> tuple[int, ...]:
            """Widths of the hidden layers of the larger network, by which `bucket_bytes` and `memory_bytes` reckon."""
            raise NotImplementedError

    @property
    def own_logger(self) -> str | None:
        """What of this section lets the learner write metrics into the run folder by itself; None if nothing does."""
        return None

    def worlds_of(self, layout: Layout) -> int:
        """From the rollouts of so many worlds a GMI that trains learns at once; the fewest, where they differ."""
        return min(gmi.num_env for gmi in layout.with_role("simulator"))

    def steps_of(self, layout: Layout) -> int:
        """Control steps of an iteration, of all worlds that are learnt from."""
        return self.horizon * layout.num_env

    def channels_bytes(self, layout: Layout, task: TaskSpec) -> int:
        """What the channels of a layout hold for one trainer; 0 where it learns from none."""
        return 0

    def bucket_bytes(self, task: TaskSpec) -> int:
        """Room for the float32 bucket that GMIs reduce."""
        return task.bucket_bytes(self.hidden)

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """Bytes that learning takes on a GMI of `num_env` worlds, generously: networks, optimizer and samples.

        Not the worlds, nor the process. Where all GMIs of a device and what is left for the rest fit, nothing is
        measured before a training; else, or where it cannot be reckoned (None), a few worlds are run first. This is for
        two networks, Adam, a float32 rollout of observations `[T, N, O]`, actions and their means `[T, N, A]`, and a
        mini-batch of it; a learner that keeps more, a replay table for one, says so. Without a probe of its own, what
        it says beyond our PPO is added to what is measured of that.
        """
        networks = LEARNER_COPIES * self.bucket_bytes(task)
        rollout = FLOAT_BYTES * self.horizon * ROLLOUT_COPIES * (task.num_obs + 2 * task.num_actions)
        activations = FLOAT_BYTES * self.horizon * KEPT * 2 * sum(self.hidden) // self.minibatches
        return networks + (rollout + activations) * num_env

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """Why a task cannot be learnt so, each mistake in a sentence with its remedy; empty if it can.

        Asked before a training or a measurement starts, and again in each GMI once the worlds are made.

        Args:
            task: Its sizes.
            groups: Of observations that the worlds offer; None where only the simulator knows them, before it starts.
        """
        return []


@dataclass(frozen=True)
class LearnerEntry:
    """A kind of learner.

    Args:
        name: The configuration's `learner.kind`, and what `--algo` takes.
        what: In words.
        config: `module:class` of its `LearnerConfig`.
        role: `module:class` of the role of a GMI that acts and trains by it (`roles.drl_role.DRL_role`); None where it
            learns from agents on other GMIs alone.
        probe: `module:class` of the role that measures an iteration of it (`roles.probe.Probe`), for plans; None where
            our PPO, with as many steps, epochs and mini-batches, is to be measured in its place, which users are told.
        noise_probe: The same of the role that measures its gradient noise scale beside (`roles.noise_probe`); None
            where there is none, so that its plans cannot go by what is learnt.
        needs: Packages, with the oldest version that will do, e.g. `("rsl-rl-lib", "5.4")`. What was measured is
            remembered for the installed ones.
        remedy: How these are installed.
        trainer: `module:class` of the role of a GMI that trains from channels, for templates whose agents are on other
            GMIs; None where it cannot.
        on_one_host: Whether its GMIs must be on one host, as what it exchanges by itself does not leave that.
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
    on_one_host: bool = False

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
        """Refuse it on a machine that cannot run it.

        Raises:
            MachineError: with the `obstacle`.
        """
        if obstacle := self.obstacle():
            raise MachineError(obstacle)

    @property
    def model(self) -> type[LearnerConfig]:
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
)

LEARNERS = Registry("learner", "gmi_drl.learners", (OUR_PPO, RSL_RL, A3C))
"""Third parties add entries of their own by entry points: `KIND = "module:ENTRY"`, a `LearnerEntry`."""


def model_of(section: dict[str, Any]) -> type[LearnerConfig]:
    """The class that checks a section of a file, by its `kind`; without one our PPO's.

    Raises:
        ValueError: if there is no such kind.
    """
    kind = section.get("kind", OUR_PPO.name)
    if not isinstance(kind, str):
        raise ValueError(f"kind must be text, not {kind!r}")
    try:
        return LEARNERS.find(kind).model
    except GmiError as error:
        raise ValueError(str(error)) from None


def _of_its_kind(section: Any) -> Any:
    """What is no section is left to pydantic: a model of a kind, or a mistake."""
    if not isinstance(section, dict):
        return section
    return model_of(section).model_validate_json(json.dumps(section, default=str))


AnyLearnerConfig = Annotated[SerializeAsAny[LearnerConfig], BeforeValidator(_of_its_kind)]
"""The field of a configuration: takes the model of any kind, and a file's section by its `kind`."""


def release(text: str) -> tuple[int, ...]:
    """Major and minor version."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
