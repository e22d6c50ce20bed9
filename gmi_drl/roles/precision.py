"""How exactly a device multiplies."""

import torch

from gmi_drl.errors import MachineError
from gmi_drl.gmi.inventory.cores import NO_BF16, has_bf16


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


def flush_denormals() -> None:
    """Let the CPU of this process compute with 0 where a number is too small for full precision.

    Units that never fire have gradients of 0. Adam's means of them shrink until they are such numbers, which take a
    core twenty times as long: an update of DQN took twice its time.
    """
    torch.set_flush_denormal(True)


def require_bf16(device: torch.device) -> None:
    """Refuse bfloat16 on a device that would emulate it.

    Raises:
        MachineError: with the remedy.
    """
    if device.type == "cpu":
        can = has_bf16()
    else:
        can = device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    if not can:
        raise MachineError(NO_BF16)
