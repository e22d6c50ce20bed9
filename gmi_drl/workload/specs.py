"""The tasks: their sizes, which planning needs, and suitable settings. Imports no simulator."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gmi_drl.errors import UsageError
from gmi_drl.workload.network_sizes import NetworkSettings, num_weights
from gmi_drl.workload.spaces import Action, Observation, action_of, continuous, observation_of, to_json, vector

MOST_ENVIRONMENTS = 2**20
"""Most environments of one GMI; a larger number is taken for a typing error."""

UNLIMITED_STEPS = 1_000_000
"""`episode_steps` if a simulator has no limit."""

AGREED = 64
"""Most numbers that GMIs exchange in the tail of the bucket."""

MUJOCO = "mujoco"
"""The prefix of gymnasium's tasks on our physics."""


@dataclass(frozen=True)
class TaskSpec:
    """The sizes of a task (paper Table 6), and the hyper-parameters that a new run begins with.

    The hyper-parameters of our tasks were chosen with 512 environments in all.

    Args:
        name: The task's name in commands and files.
        alias: The paper's abbreviation.
        observation: What the agent sees.
        action: What it does.
        hidden: Default widths of the hidden layers, of policy and value network alike.
        episode_steps: Control steps after which an episode is truncated.
        step_s: Simulated seconds per control step.
        reward_scale: Brings discounted returns to the order of ten, as clipping of the value loss assumes.
        init_std: Standard deviation that the policy's actions begin with.
        minibatches: Mini-batches per epoch: 8 of the 8192 samples of 512 environments have 1024 each.
        epochs: How often an update goes through its samples.
        desired_kl: The KL of a mini-batch that the adaptive learning rate aims at. A smaller one moves the policy less,
            which suits tasks whose advantages are mostly chance.
        action_bounds: The simulator's values for -1 and 1, in words (`2 x [-3, 3]`); empty if not known.
        frame_skip: Frames of the simulator per control step.
        agents: Agents of one world, each of which is a row of all tensors.
        agent_names: Their names; empty if they have none.

    Raises:
        UsageError: Observation or action is a number, as before version 0.2, or empty, an image has no pixels, or
            masks are not for the action's choices.
    """

    name: str
    alias: str
    observation: Observation
    action: Action
    hidden: tuple[int, ...]
    episode_steps: int
    step_s: float
    reward_scale: float = 1.0
    init_std: float = 0.3
    minibatches: int = 4
    epochs: int = 4
    desired_kl: float = 0.04
    action_bounds: str = ""
    frame_skip: int = 1
    agents: int = 1
    agent_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.observation, Observation) or not isinstance(self.action, Action):
            raise UsageError(
                f"{self.name}: TaskSpec takes spaces in place of numbers: `observation=vector({self.observation}), "
                f"action=continuous({self.action})` of gmi_drl.workload.spaces"
            )
        masks, choices = self.observation.of_kind("mask"), sum(self.action.categories)
        allowed = sum(mask.size for mask in masks)
        if masks and allowed != choices:
            names = ", ".join(mask.name for mask in masks)
            raise UsageError(f"{self.name}: {names} has {allowed} entries, the choices of the action have {choices}")
        if empty := [str(image) for image in self.observation.of_kind("image") if not image.size]:
            raise UsageError(f"{self.name}: {', '.join(empty)}: an image without pixels: leave it out")
        if not any(part.size for part in self.observation.parts if part.kind != "mask"):
            raise UsageError(f"{self.name}: the observation is empty, or a mask alone: there is nothing to see")
        if not self.action.size:
            raise UsageError(f"{self.name}: the action is empty: there is nothing to do")

    def num_weights(self, network: NetworkSettings | None = None) -> int:
        """Weights of the policy and the value network together, without the standard deviations (paper Table 7).

        Args:
            network: What is set of the networks; None for the task's own hidden layers.
        """
        return num_weights(network or NetworkSettings(self.hidden), self.observation, self.action)

    def bucket_bytes(self, network: NetworkSettings | None = None) -> int:
        """Bytes of the float32 bucket that GMIs reduce: all parameters, and up to `AGREED` further numbers."""
        return 4 * (self.num_weights(network) + self.action.numbers + AGREED)

    def whole_worlds(self, num_env: int) -> int:
        """The least number of environments from `num_env` on that are whole worlds of its agents."""
        return -(-num_env // self.agents) * self.agents

    def require_whole_worlds(self, num_env: int, has: str = "", give: str = "--num-env ") -> None:
        """Refuse a number of environments that is not of whole worlds of its agents.

        Args:
            num_env: The number.
            has: Who has it, as "GMI 0 has 5 environments: ".
            give: What gives it.

        Raises:
            UsageError: with the nearest numbers.
        """
        if num_env % self.agents:
            more = self.whole_worlds(num_env)
            fewer = f"{more - self.agents} or " if more > self.agents else ""
            each = f"{self.name} has {self.agents} agents in each world, and each is an environment"
            raise UsageError(f"{each}: {has}give {give}{fewer}{more}")

    def to_json(self) -> dict[str, Any]:
        """The sizes as data of JSON; `spec_of` reads it."""
        return asdict(self) | {"observation": to_json(self.observation), "action": to_json(self.action)}


def spec_of(data: Mapping[str, Any]) -> TaskSpec:
    """The sizes that `TaskSpec.to_json` has written."""
    spaces = {"observation": observation_of(data["observation"]), "action": action_of(data["action"])}
    more = {"hidden": tuple(data["hidden"]), "agent_names": tuple(data.get("agent_names", ()))}
    return TaskSpec(**{**data, **spaces, **more})


TASK_SPECS: dict[str, TaskSpec] = {
    spec.name: spec
    for spec in (
        TaskSpec("ant", "AT", vector(60), continuous(8), (256, 128, 64), 1000, 1 / 60, reward_scale=0.05),
        TaskSpec(
            "anymal", "AY", vector(48), continuous(12), (256, 128, 64), 2500, 1 / 50, reward_scale=5.0, minibatches=8
        ),
        TaskSpec(
            "ball_balance",
            "BB",
            vector(24),
            continuous(3),
            (256, 128, 64),
            500,
            1 / 100,
            reward_scale=0.1,
            minibatches=8,
        ),
        TaskSpec(
            "franka_cabinet",
            "FC",
            vector(23),
            continuous(9),
            (256, 128, 64),
            500,
            1 / 60,
            reward_scale=0.02,
            minibatches=8,
        ),
        TaskSpec(
            "humanoid",
            "HM",
            vector(108),
            continuous(21),
            (200, 400, 100),
            1000,
            1 / 60,
            reward_scale=0.02,
            minibatches=8,
        ),
        TaskSpec(
            "shadow_hand",
            "SH",
            vector(211),
            continuous(20),
            (512, 512, 512, 256),
            600,
            1 / 60,
            reward_scale=0.05,
            init_std=0.7,
            minibatches=8,
            epochs=1,
            desired_kl=0.015,
        ),
    )
}
"""The tasks of the paper (Table 6)."""


def _mujoco_spec(name: str, num_obs: int, num_actions: int, step_s: float, reward_scale: float = 0.05) -> TaskSpec:
    full = f"{MUJOCO}:{name}"
    return TaskSpec(full, full, vector(num_obs), continuous(num_actions), (256, 128, 64), 1000, step_s, reward_scale)


MUJOCO_SPECS: dict[str, TaskSpec] = {
    spec.name: spec
    for spec in (
        _mujoco_spec("Ant-v5", 105, 8, 0.05),
        _mujoco_spec("HalfCheetah-v5", 17, 6, 0.05),
        _mujoco_spec("Hopper-v5", 11, 3, 0.008),
        _mujoco_spec("Humanoid-v5", 348, 17, 0.015, reward_scale=0.02),
        _mujoco_spec("Walker2d-v5", 17, 6, 0.008),
    )
}
"""gymnasium's tasks on our physics; their hyper-parameters were not tuned."""
