"""The parts of rsl_rl's `train_cfg` that we check: values that we use, and keys that rsl_rl needs.

rsl_rl does not check keys that need each other. It fails with its own message, after the environments were made.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from gmi_drl.files import FileModel

PLAIN, MEMORY, IMAGES = "MLPModel", "RNNModel", "CNNModel"
"""rsl_rl's own networks, whose keys are known; keys of other networks are not checked."""

Widths = Annotated[tuple[int, ...], Field(min_length=1)]


class _Open(FileModel):
    """A part with further keys, which rsl_rl checks."""

    model_config = ConfigDict(extra="allow")


class _Distribution(_Open):
    class_name: str


class Network(_Open):
    """`actor` or `critic`."""

    class_name: str
    hidden_dims: tuple[int, ...] | None = None
    distribution_cfg: _Distribution | None = None
    cnn_cfg: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """The name of its class without the module's."""
        return re.split("[.:]", self.class_name)[-1]


class _Schedule(_Open):
    mode: Literal["constant", "step", "linear"]


class _Curiosity(_Open):
    """`rnd_cfg`, of random network distillation."""

    weight: float
    num_outputs: Annotated[int, Field(ge=1)]
    predictor_hidden_dims: Widths
    target_hidden_dims: Widths
    weight_schedule: _Schedule | None = None


class _Symmetry(_Open):
    data_augmentation_func: str


class Algorithm(_Open):
    """The values of rsl_rl's `algorithm` that we use, with its defaults, and those that it does not check."""

    class_name: str = "PPO"
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.99
    lam: Annotated[float, Field(ge=0, le=1)] = 0.95
    num_learning_epochs: Annotated[int, Field(ge=1)] = 5
    num_mini_batches: Annotated[int, Field(ge=1)] = 4
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    share_cnn_encoders: bool | None = None
    rnd_cfg: _Curiosity | None = None
    symmetry_cfg: _Symmetry | None = None


class Runner(_Open):
    """The whole section."""

    clip_actions: Annotated[float, Field(gt=0)] | None = None
    num_steps_per_env: Annotated[int, Field(ge=1)]
    obs_groups: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]]
    actor: Network
    critic: Network
    algorithm: Algorithm

    def contradictions(self) -> Iterator[str]:
        """Sentences about keys that contradict each other, with remedies."""
        yield from self._of_networks()
        algorithm = self.algorithm
        if algorithm.share_cnn_encoders and {self.actor.kind, self.critic.kind} & {PLAIN, MEMORY}:
            yield f"algorithm.share_cnn_encoders: `actor` and `critic` must both be a {IMAGES}: leave it out"
        if algorithm.symmetry_cfg and MEMORY in (self.actor.kind, self.critic.kind):
            yield f"algorithm.symmetry_cfg: rsl_rl cannot mirror for networks with a memory ({MEMORY}): leave it out"
        if algorithm.rnd_cfg and (schedule := algorithm.rnd_cfg.weight_schedule):
            wanted = {"constant": (), "step": ("final_step", "final_value")}
            keys = wanted.get(schedule.mode, ("initial_step", "final_step", "final_value"))
            for key in keys:
                if not isinstance((schedule.model_extra or {}).get(key), int | float):
                    yield f"algorithm.rnd_cfg.weight_schedule.{key}: a number is missing, mode {schedule.mode} needs it"

    def _of_networks(self) -> Iterator[str]:
        known = (PLAIN, MEMORY, IMAGES)
        if self.actor.kind in known and self.actor.distribution_cfg is None:
            example = "{class_name: GaussianDistribution, init_std: 1.0}"
            yield f"actor.distribution_cfg: missing, actions are drawn from it: give, for example, {example}"
        for name, network in (("actor", self.actor), ("critic", self.critic)):
            shares = name == "critic" and self.algorithm.share_cnn_encoders
            if network.kind == IMAGES and not network.cnn_cfg and not shares:
                yield f"{name}.cnn_cfg: missing, a {IMAGES} needs it"
