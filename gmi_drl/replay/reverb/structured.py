"""What structured writers are made of, under the names of dm-reverb's module."""

from gmi_drl.replay.reverb.conditions import Condition
from gmi_drl.replay.reverb.patterns import (
    Config,
    constant_priority_fn,
    create_config,
    create_reference_step,
    infer_signature,
    pattern_from_transform,
    td_error,
    unpack_pattern,
)
from gmi_drl.replay.reverb.structured_writer import StructuredWriter

__all__ = [
    "Condition",
    "Config",
    "StructuredWriter",
    "constant_priority_fn",
    "create_config",
    "create_reference_step",
    "infer_signature",
    "pattern_from_transform",
    "td_error",
    "unpack_pattern",
]
