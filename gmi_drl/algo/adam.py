"""Adam over one vector, by torch's fused kernel."""

import torch
from torch import Tensor

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam (arXiv 1412.6980) as `torch.optim.Adam(fused=True)` computes it, bit by bit.

    torch.optim is not used since its first optimizer imports torch's compiler, which delays the start of a GMI.

    Args:
        parameters: `[P]`, changed in place.
        gradient: `[P]`, read by each step.
        learning_rate: `[]`, on the device of the parameters, read by each step.
        found_inf: `[]` there, 1 if the gradient is not finite: then a step changes nothing.

    Attributes:
        mean: `[P]`, running mean of the gradients.
        square: `[P]`, running mean of their squares.
        steps: `[]`, the number of steps done.
    """

    def __init__(self, parameters: Tensor, gradient: Tensor, learning_rate: Tensor, found_inf: Tensor) -> None:
        self._parameters, self._gradient = parameters, gradient
        self._learning_rate, self._found_inf = learning_rate, found_inf
        self.mean, self.square = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = torch.zeros((), device=parameters.device)

    @torch.no_grad()
    def step(self) -> None:
        """One step; nothing waits for the device."""
        self.steps += 1  # the kernel corrects the running means by it
        torch._fused_adam_(
            [self._parameters],
            [self._gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            lr=self._learning_rate,
            beta1=BETA_1,
            beta2=BETA_2,
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
            found_inf=self._found_inf,
        )
        self.steps -= self._found_inf
