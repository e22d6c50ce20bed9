"""The page of all commands with their options, from click."""

import re
from collections.abc import Iterable, Iterator

import rich_click as click

from gmi_drl.cli.commands import ENTRIES, load
from tools.site.markdown import page, table

INTRO = """Every command takes `--help`. Every option can be given as an environment variable: `GMI_DRL_TRAIN_SEED=3` is
`train --seed 3`. `--format json` prints one JSON document on stdout. [Exit codes](errors.md)."""


def commands_page() -> str:
    """A section for each command, a row for each of its options."""
    return page("Commands", INTRO, *(_section(name, command) for name, command in all_commands()))


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """All commands with their names, those of groups behind the name of the group."""
    return _leaves((name, load(name)) for name in ENTRIES)


def _leaves(commands: Iterable[tuple[str, click.Command]], before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in commands:
        if isinstance(command, click.Group):
            yield from _leaves(command.commands.items(), f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _section(name: str, command: click.Command) -> str:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    usage = " ".join(
        ["gmi-drl", name, "[OPTIONS]", *(argument.make_metavar(_context(command)) for argument in arguments)]
    )
    rows = [_row(command, option) for option in command.params if isinstance(option, click.Option)]
    words = re.sub(r"\s+\n", "\n\n", re.sub(r"[ \t]+", " ", command.help or "")).replace("\b", "")
    return f"\n## {name}\n\n```\n{usage}\n```\n\n{words}\n\n{table(('option', 'meaning', 'default'), rows)}"


def _row(command: click.Command, option: click.Option) -> tuple[str, str, str]:
    names = ", ".join((*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag else f" {option.make_metavar(_context(command))}"
    words, _, told = (option.help or "").partition("[default: ")
    default = told.rstrip("] ") or _default(option)
    return f"`{names}{metavar}`", words, default


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    shown = option.default if isinstance(option.default, str | int | float) and not option.is_flag else None
    return "" if shown is None else f"`{shown}`"


def _context(command: click.Command) -> click.Context:
    return click.Context(command, info_name=command.name)
