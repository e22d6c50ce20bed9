"""A policy as a module of torch that needs none of our code once it is exported: scaling, networks, mode."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from gmi_drl.algo.elu import Elu
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.policy import ActingAgent
from gmi_drl.algo.sequence_agent import SequenceAgent
from gmi_drl.algo.sequence_policy import NEEDS_REWARDS
from gmi_drl.errors import UsageError
from gmi_drl.roles.serving.player import EpisodePlayer, Player
from gmi_drl.workload.observations import dtype_of
from gmi_drl.workload.spaces import Observation, Part

BATCH = "N"
"""Name of the dimension that may have any size."""

EXAMPLE_N = 2
"""Observations of the example by which a policy is traced; torch takes a size of 1 for a constant."""

ACTION, STATE, NEXT_STATE = "action", "state", "next_state"


class PolicyModule(nn.Module):
    """Maps the parts of an observation, one argument each `[N, *shape]`, to the actions `[N, A]` of `play`.

    Args:
        agent: Is copied.

    Raises:
        UsageError: It is a sequence policy.

    Attributes:
        inputs: Examples of the arguments, by the parts' names.
        outputs: Names of the results.
        batched: Inputs whose first dimension is N.
        notes: What a user must know besides.
    """

    def __init__(self, agent: ActingAgent) -> None:
        super().__init__()
        if isinstance(agent, SequenceAgent):
            raise UsageError(NEEDS_REWARDS)
        self.policy = _exportable(deepcopy(agent.policy)).eval()
        self.observation: Observation = self.policy.observation
        self.register_buffer("mean", agent.normaliser.mean.clone())
        self.register_buffer("scale", agent.normaliser.scale.clone())
        self.inputs = {part.name: _example(part) for part in self.observation.parts}
        action, memory, after = (self._free(name) for name in (ACTION, STATE, NEXT_STATE))
        self.outputs = [action]
        self.notes = {action: str(self.policy.distribution.action)}
        state = agent.empty_state(EXAMPLE_N)
        self.has_memory = state is not None
        if state is not None:
            self.inputs[memory] = state
            self.outputs.append(after)
            self.notes[memory] = f"zeros where an episode begins, then {after}"
        self.batched = {*self.inputs}

    def forward(self, *inputs: Tensor) -> Any:
        """Actions, the most likely ones, and the new state of the memories if there are any."""
        if not self.has_memory:
            return self.policy.mode(self._normalised(inputs))
        params, _, state = self.policy.remember(self._normalised(inputs[:-1]), Past(inputs[-1]))
        return self.policy.distribution.mode(params), state

    def _free(self, name: str) -> str:
        """The name, or another one if a part of the observation has it."""
        return self._free(f"{name}_") if name in self.inputs else name

    def _normalised(self, parts: tuple[Tensor, ...]) -> Any:
        """What the networks take: one tensor, or the parts by name if they are no vectors alone."""
        mean: Any = self.mean
        scale: Any = self.scale
        if self.observation.is_vector:
            return (torch.cat(parts, -1) - mean) * scale
        begin, named = 0, {}
        for part, values in zip(self.observation.parts, parts, strict=True):
            named[part.name] = values
            if part.kind == "vector":
                place = slice(begin, begin + part.size)
                named[part.name], begin = (values - mean[place]) * scale[place], place.stop
        return named


class RslRlModule(nn.Module):
    """rsl_rl's own exportable module, with the bound of its actions. A memory goes in and comes out.

    Args:
        policy: rsl_rl's model.
        clip: Bound of the actions; None for none.
    """

    def __init__(self, policy: Any, clip: float | None) -> None:
        super().__init__()
        self.model, self.clip = policy.as_onnx(verbose=False).eval(), clip
        names, tensors = self.model.input_names, self.model.get_dummy_inputs()
        self.is_recurrent = bool(policy.is_recurrent)
        # A memory is [layers, N, width]: N stays 1, as rsl_rl exports it.
        self.inputs = {
            name: tensor if self.is_recurrent else tensor.expand(EXAMPLE_N, *tensor.shape[1:]).clone()
            for name, tensor in zip(names, tensors, strict=True)
        }
        self.outputs: list[str] = list(self.model.output_names)
        self.batched: set[str] = set() if self.is_recurrent else {*names}
        self.notes = {"obs": f"the groups {', '.join(policy.obs_groups)}, one after the other"}

    def forward(self, *inputs: Tensor) -> Any:
        """The actions, and the new memory if there is one."""
        results = self.model(*inputs)
        actions, *memory = results if isinstance(results, tuple) else (results,)
        actions = actions if self.clip is None else actions.clamp(-self.clip, self.clip)
        return (actions, *memory) if memory else actions


def module_of(player: EpisodePlayer) -> PolicyModule | RslRlModule:
    """The policy that a player acts by, as a module to export."""
    if isinstance(player, Player):
        return PolicyModule(player.agent)
    from gmi_drl.roles.rsl_rl.player import RslRlPlayer

    assert isinstance(player, RslRlPlayer)
    return RslRlModule(player.policy, player.clip)


def _example(part: Part) -> Tensor:
    return torch.ones(EXAMPLE_N, *part.shape, dtype=dtype_of(Observation((part,))))


def _exportable(policy: Any) -> Any:
    """The policy with torch's own ELU, since ours chooses by the number of observations, and in float32."""
    if isinstance(policy, ActorCritic):
        policy.bf16 = False  # who loads it may have no bfloat16
    for parent in list(policy.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Elu):
                setattr(parent, name, nn.ELU())
    return policy


def shape_text(name: str, tensor: Tensor, batched: set[str]) -> list[int | str]:
    """The shape of an input or output, with `BATCH` for the dimension that may have any size."""
    return [BATCH, *tensor.shape[1:]] if name in batched else [*tensor.shape]
