"""How exactly a device multiplies."""

import torch


def set_precision(device: torch.device, *, tf32: bool) -> None:
    """Let this process multiply float32 matrices on a GPU in TF32 or in float32, also in graphs captured later.

    On a CPU nothing changes, although torch's switch would affect some products there.

    Args:
        device: Of the process.
        tf32: TF32 if true, else float32, whatever `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE` says.
    """
    if device.type == "cuda":
        # The only one of torch's switches after which the others can still be read: once `fp32_precision` has been set,
        # a library that reads `allow_tf32` fails.
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
