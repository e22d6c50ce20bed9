"""What a ring refuses: sizes and fields that do not go together, and steps that lack what decides where they end."""

from collections.abc import Mapping
from typing import get_args

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.stacks import Padding

NEEDED = {"reward": torch.float32, "terminated": torch.bool}


def check_ring(
    signature: Signature,
    num_env: int,
    steps: int,
    n_step: int,
    observations: tuple[str, ...],
    next_obs: str,
    stacks: Mapping[str, str],
) -> None:
    """Refuse what a ring cannot be made of. For arguments see `Ring`.

    Raises:
        UsageError: with the numbers or names.
    """
    if num_env < 1 or n_step < 1:
        raise UsageError(f"a ring needs 1 environment and windows of 1 step at least, not {num_env} and {n_step}")
    if n_step > steps - 1:
        raise UsageError(f"windows of {n_step} steps and what follows do not fit into {steps} steps")
    kinds = {field.name: (field.shape, field.dtype) for field in signature.fields}
    bad = [name for name, dtype in NEEDED.items() if kinds.get(name) != ((), dtype)]
    bad += [name for name in observations if name not in kinds]
    if bad:
        raise UsageError(f"a ring needs reward float32[], terminated bool[] and observations: {', '.join(bad)}")
    if next_obs not in ("once", "twice"):
        raise UsageError(f"next_obs is 'once' or 'twice', not {next_obs!r}")
    if stacks and next_obs == "twice":
        raise UsageError("stacks of pictures are stored once: next_obs must be 'once'")
    if unknown := sorted(set(stacks) - set(observations)):
        raise UsageError(f"stacks {', '.join(unknown)}: the observations are {', '.join(observations)}")
    if other := sorted(set(stacks.values()) - set(get_args(Padding))):
        raise UsageError(f"stacks begin with 'first' or 'zeros', not {', '.join(map(repr, other))}")
    if kinds.keys() <= {*NEEDED, *stacks}:
        raise UsageError(f"a ring needs a field besides {', '.join(kinds)}, such as the action")


def check_outcomes(num_env: int, **outcomes: Tensor | None) -> None:
    """Refuse steps without bools `[N]` that say where episodes end.

    Raises:
        UsageError: that names all that are missing or of another kind.
    """
    for given in outcomes.values():
        if given is None or given.dtype is not torch.bool or given.shape != (num_env,):
            break
    else:
        return
    told = [
        f"{name} is {'missing' if given is None else f'{given.dtype} {list(given.shape)}'}".replace("torch.", "")
        for name, given in outcomes.items()
    ]
    raise UsageError(f"a step of {num_env} environments needs bools [{num_env}]: {', '.join(told)}")
