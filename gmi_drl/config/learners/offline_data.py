"""Folders of recorded episodes in settings: what can be said of one before anything starts."""

import json
from pathlib import Path

INDEX = "replay.json"
"""The file that a complete folder has; see `gmi_drl.replay.checkpoint`."""


def mistakes_of_folder(key: str, folder: str, gmis: int = 1) -> list[str]:
    """Why a folder cannot be learnt from by so many GMIs, each with episodes of its own; empty if it can.

    Args:
        key: The setting that names it.
        folder: As it was given.
        gmis: That learn.
    """
    path = Path(folder)
    if not path.exists():
        return [f"{key}: {folder} is not there: `gmi-drl replay import SOURCE --into {folder}` makes it"]
    try:
        facts = json.loads((path / INDEX).read_text())["facts"]
        kind, episodes = facts["kind"], int(facts["episodes"])
    except (OSError, ValueError, KeyError, TypeError):
        return [f"{key}: {folder} is no folder that `gmi-drl replay import` wrote"]
    if kind != "episodes":
        return [f"{key}: {folder} is a checkpoint of replay, no folder of episodes"]
    if episodes < gmis:
        return [f"{key}: {folder} has {episodes} episodes, {gmis} GMIs need one each: use fewer GMIs"]
    return []
