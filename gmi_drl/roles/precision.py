"""How exactly a device multiplies."""

import torch


def set_precision(device: torch.device, *, tf32: bool) -> None:
    """How this process multiplies float32 matrices on a GPU from now on, also in graphs that are captured later.

    A CPU is left as it is, although some have such products and torch's switch is theirs, too.

    Args:
        device: Of the process.
        tf32: In TF32, else in float32, whatever the environment says (`TORCH_ALLOW_TF32_CUBLAS_OVERRIDE`).
    """
    if device.type == "cuda":
        # The one of torch's switches that leaves all others readable: once `fp32_precision` was set, a library that
        # reads `allow_tf32` fails.
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
