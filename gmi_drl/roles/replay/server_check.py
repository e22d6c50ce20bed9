"""What a table of a replay server must be to be learnt from; found out before anything starts, too."""

import os
import time
from collections.abc import Sequence

from gmi_drl.config.learners import OffPolicyConfig
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.replay.client.calls import answer_of
from gmi_drl.replay.client.connection import ServerConnection
from gmi_drl.replay.words import INFO, Number, write
from gmi_drl.roles.replay.sink import split_place

TOKEN_VARIABLE = "GMI_DRL_REPLAY_TOKEN"
FIELDS = ("obs", "action", "reward", "terminated")
"""That a table must have to be learnt from."""

REACH_S = 10.0
"""Seconds for a server to answer before a training starts."""


def check_server(config: OffPolicyConfig) -> None:
    """Raise unless the table of `replay.server` is there, and this learner can learn from it.

    Raises:
        GmiError: of the class of what is wrong, with the remedy.
    """
    place = config.replay.server
    if place is None:
        return
    address, table = split_place(place)
    try:
        connection = ServerConnection(address, os.environ.get(TOKEN_VARIABLE), REACH_S, shared=False)
    except GmiError as error:
        remedy = "start it with `gmi-drl replay serve TABLES.yaml`, or set another one"
        raise type(error)(f"learner.replay.server={place}: {error}: {remedy}") from None
    try:
        _, storage = connection.table(table)
        message = write(Number(request := connection.next_request(), 0))
        told = answer_of(connection, INFO, message, request, time.monotonic() + REACH_S)
    finally:
        connection.close()
    check_table(place, [field.name for field in storage.signature.fields], storage.longest, config.replay.n_step)
    check_saves(place, config, told["trainer_step"])


def check_table(place: str, names: Sequence[str], longest: int, n_step: int) -> None:
    """Raise unless a table has what is learnt from, and items of n steps and the observation after them."""
    if missing := [name for name in FIELDS if name not in names]:
        raise UsageError(f"{place}: the table lacks {', '.join(missing)}: it needs {', '.join(FIELDS)}")
    if longest != n_step + 1:
        text = f"{place}: items have up to {longest} rows, learner.replay.n_step {n_step} needs {n_step + 1}"
        raise UsageError(f"{text}: set `longest` of the storage, or n_step")


def check_saves(place: str, config: OffPolicyConfig, step: int | None) -> None:
    """Raise if a server writes no checkpoints, which is told by no step, and `replay.saved` wants them."""
    if config.replay.saved and step is None:
        text = f"{place}: the server writes no checkpoints: start it with --checkpoints FOLDER"
        raise UsageError(f"{text}, or set learner.replay.saved=false")
