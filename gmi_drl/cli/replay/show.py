"""Shows what replay servers are at."""

import os
import time
from collections.abc import Mapping
from typing import Any

from gmi_drl.cli.output import console, plain_table
from gmi_drl.errors import GmiError

TOKEN_VARIABLE = "GMI_DRL_REPLAY_TOKEN"
BETWEEN_S = 0.3
"""Seconds between the two looks that rates are made of."""

ANSWER_S = 2.0


def print_servers(servers: Mapping[str, dict[str, Any]]) -> None:
    """Print a table of what `Client.info` has told of servers, by address, then who waits for what."""
    table = plain_table("server", "table", "items", "inserts", "samples", "inserts/s", "samples/s", "waiting")
    for address, server in servers.items():
        for name, one in server["tables"].items():
            waiting = one["waiting_inserts"] + one["waiting_samples"] + one["waiting_blocks"]
            items = f"{one['items']:,} of {one['max_size']:,}"
            counts = [f"{one[kind]:,}" for kind in ("inserts", "samples")]
            rates = [f"{one[f'{kind}_per_second']:,.0f}" for kind in ("inserts", "samples")]
            table.add_row(address, name, items, *counts, *rates, str(waiting))
    console().print(table, markup=False)
    for address, server in servers.items():
        for line in told(address, server):
            console().print(line, markup=False)


def told(address: str, server: Mapping[str, Any]) -> list[str]:
    """Who waits for what, a line for each table where somebody does."""
    lines = []
    for name, one in server["tables"].items():
        if "why" in one:
            writers, readers = one["waiting_inserts"] + one["waiting_blocks"], one["waiting_samples"]
            is_stuck = writers and readers and not one["inserts_per_second"] and not one["samples_per_second"]
            more = f"; {writers} that insert and {readers} that sample wait for each other" if is_stuck else ""
            lines.append(f"{address}/{name}: {one['why']}{more}")
    return lines


def look(addresses: tuple[str, ...], token: str | None) -> dict[str, dict[str, Any]]:
    """What servers are at, with the rates of each table, by address.

    Raises:
        GmiError: if one does not answer.
    """
    from gmi_drl.replay.client.client import Client

    with Client(addresses, token) as client:
        first = client.info(ANSWER_S)
        time.sleep(BETWEEN_S)
        second = client.info(ANSWER_S)
    for before, after in zip(first, second, strict=True):
        passed_s = after["seconds"] - before["seconds"]
        for name, one in after["tables"].items():
            for kind in ("inserts", "samples"):
                one[f"{kind}_per_second"] = max(0, one[kind] - before["tables"][name][kind]) / passed_s
    return dict(zip(addresses, second, strict=True))


def own_servers() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What the servers of this user on this machine are at, by address; and why others do not tell."""
    from gmi_drl.launch.replay import running_servers

    found, silent = dict[str, dict[str, Any]](), dict[str, str]()
    for address in running_servers():
        try:
            found |= look((address,), os.environ.get(TOKEN_VARIABLE))
        except GmiError as error:
            silent[address] = str(error)
    return found, silent
