"""All parameters as one vector and all gradients as one bucket: one reduction, one optimizer step, one digest."""

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class FlatParameters:
    """Makes the parameters views of one vector `[P]` and their gradients views of one bucket `[P + tail]`.

    The tail is for further numbers to sum over the ranks. Weights are stored as `[in, out]`: a forward pass multiplies
    by the transpose, which is slower to read from `[out, in]`.

    Args:
        parameters: In the order of the vector. Their values are kept.
        tail: Number of extra float32 numbers at the end of the bucket.
        make_bucket: Allocates zeros, float32, of a length on their device, such as memory that is reduced in place.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], tail: int, make_bucket: Callable[[int], Tensor]) -> None:
        self.size = sum(parameter.numel() for parameter in parameters)
        device = parameters[0].device
        self.vector = torch.empty(self.size, device=device)
        self.bucket = make_bucket(self.size + tail)
        self.gradient, self.tail = self.bucket[: self.size], self.bucket[self.size :]
        start = 0
        for parameter in parameters:
            part = slice(start, start + parameter.numel())
            place = _shaped(self.vector[part], parameter.shape)
            parameter.data = place.copy_(parameter.data)
            parameter.grad = _shaped(self.gradient[part], parameter.shape)
            start = part.stop


def _shaped(part: Tensor, shape: torch.Size) -> Tensor:
    """A view of a part of the vector as a parameter: of convolutions as `[out, kh, kw, in]`, which is NHWC."""
    if len(shape) == 4:
        out, channels, height, width = shape
        return part.view(out, height, width, channels).permute(0, 3, 1, 2)
    return part.view(shape[::-1]).t() if len(shape) == 2 else part.view(shape)


def tensor_digest(*tensors: Tensor) -> str:
    """Hex digest of the bits of tensors, in order."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
