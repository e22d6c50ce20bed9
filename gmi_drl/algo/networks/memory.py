"""Memories: recurrent layers whose state belongs to an environment and begins at zero with each episode."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gmi_drl.algo.networks.mlp import orthogonal
from gmi_drl.workload.network_sizes import GATES, STATES, NetworkSettings


@dataclass(frozen=True)
class Past:
    """What a memory needs besides its input for B sequences of L steps.

    Attributes:
        state: At the start of each sequence, `[B, S]`.
        done: 1 where an episode ended, after which the state is zero, `[L * B]`, step by step; None: one step.
    """

    state: Tensor
    done: Tensor | None = None

    @property
    def length(self) -> int:
        """L."""
        return 1 if self.done is None else len(self.done) // len(self.state)


class Memory(nn.Module):
    """A layer of gated recurrent units (Cho et al., arXiv 1406.1078) or long short-term memory (Hochreiter 1997).

    The products with the inputs of all steps are one product; the loop has the state's alone. A loop of cells can
    forget within a sequence, which torch's fused layers cannot, and takes as long.

    Args:
        width: Numbers of an input.
        settings: Which memory, and its width H.
    """

    def __init__(self, width: int, settings: NetworkSettings) -> None:
        super().__init__()
        gates, self.size = GATES[settings.memory], settings.memory_size
        self.state_size = STATES[settings.memory] * self.size
        self.input = orthogonal(nn.Linear(width, gates * self.size), 1.0)
        self.recurrent = orthogonal(nn.Linear(self.size, gates * self.size), 1.0)
        self._bf16 = settings.bf16
        self._is_gru = settings.memory == "gru"

    def forward(self, x: Tensor, past: Past) -> tuple[Tensor, Tensor]:
        """Outputs `[L * B, H]` of inputs `[L * B, width]`, and the state `[B, S]` after the last step; in float32."""
        if self._bf16:
            with torch.autocast(x.device.type, enabled=False):
                return self._run(x.float(), past)
        return self._run(x, past)

    def _run(self, x: Tensor, past: Past) -> tuple[Tensor, Tensor]:
        inputs, state, outputs = self.input(x).unflatten(0, (past.length, -1)), past.state, []
        goes_on = None if past.done is None else (1 - past.done).view(past.length, -1, 1)
        step = self._gru if self._is_gru else self._lstm
        for t in range(past.length):
            state = step(inputs[t], state)
            outputs.append(state[:, : self.size])
            if goes_on is not None:
                state = state * goes_on[t]
        return torch.cat(outputs), state

    def _gru(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The state `[B, H]` after a step, which is the output. Gates: reset, update, new."""
        gates, two = self.recurrent(state), 2 * self.size
        reset, update = (inputs[:, :two] + gates[:, :two]).sigmoid().chunk(2, -1)
        return torch.lerp(torch.addcmul(inputs[:, two:], reset, gates[:, two:]).tanh(), state, update)

    def _lstm(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The output and the cell `[B, 2 H]` after a step. Gates: input, forget, output, new."""
        output, cell = state.chunk(2, -1)
        gates = inputs + self.recurrent(output)
        take, keep, give = gates[:, : 3 * self.size].sigmoid().chunk(3, -1)
        cell = torch.addcmul(keep * cell, take, gates[:, 3 * self.size :].tanh())
        return torch.cat((give * cell.tanh(), cell), -1)


class Recurrent(nn.Module):
    """A network with a memory: from an observation to the memory's input, the memory, and the layers after it.

    Args:
        encoder: Gives the input.
        memory: The memory.
        layers: Of its output.
    """

    def __init__(self, encoder: nn.Module, memory: Memory, layers: nn.Module) -> None:
        super().__init__()
        self.encoder, self.memory, self.layers = encoder, memory, layers

    def forward(self, obs: Tensor, past: Past) -> tuple[Tensor, Tensor]:
        """The layers' result `[L * B, ...]` for observations `[L * B, *shape]`, and the state after them `[B, S]`."""
        remembered, state = self.memory(self.encoder(obs), past)
        return self.layers(remembered), state
