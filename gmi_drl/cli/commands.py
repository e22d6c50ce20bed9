"""The commands by name: what `gmi-drl --help` says of each, and the module that is imported when one is called."""

from importlib import import_module
from typing import NamedTuple

import rich_click as click


class Entry(NamedTuple):
    """A command that is imported on use.

    Args:
        place: `module:name` of the command, in `gmi_drl.cli`.
        summary: The first paragraph of its help.
    """

    place: str
    summary: str


ENTRIES = {
    "plan": Entry("plan.command:plan", "Choose the GMIs for a training (or serving) and write them to a layout file."),
    "profile": Entry(
        "profile:profile",
        "Measure the speed of a training on this machine with many numbers of GMIs and environments; write a profile "
        "file.",
    ),
    "train": Entry(
        "train.command:train",
        "Train on the GMIs of a LAYOUT file, or on this machine cut evenly. `train TASK` means `train --task TASK`.",
    ),
    "sweep": Entry(
        "sweep:sweep",
        "Train with many seeds and settings, several trainings side by side on this machine or on a Ray cluster.",
    ),
    "play": Entry(
        "play:play", "Play the policy of a RUN: show the returns of its episodes, and write a video with -o."
    ),
    "export": Entry(
        "export:export",
        "Write the policy of a RUN, with the scaling of its observations, as a file that runs without gmi-drl.",
    ),
    "compare": Entry(
        "compare:compare",
        "Compare RUNs: what differs in their settings, their curves, and their final returns over seeds.",
    ),
    "report": Entry(
        "report:report",
        "Write one HTML page about RUNs, or about the trainings of a sweep: layout, curves, phases, versions, "
        "commands.",
    ),
    "serve": Entry(
        "serve:serve",
        "Run the policy of a RUN on all GMIs of a LAYOUT file, or of this machine cut evenly, without learning.",
    ),
    "replay": Entry(
        "replay:replay", "Serve experience to other processes, ask servers how they are, and import episodes."
    ),
    "status": Entry(
        "status:status",
        "Show the state of a RUN, or of all in the runs folder, and of your replay servers on this machine.",
    ),
    "top": Entry(
        "top:top",
        "Show the runs in the runs folder that train, again and again, until Ctrl-C: speed, time left, what holds them "
        "up.",
    ),
    "doctor": Entry(
        "doctor.command:doctor",
        "Check what this machine has and lacks for a training; exit with 4 if none could run.",
    ),
    "bench": Entry("bench:bench", "Measure a CASE: run what it compares in turn, and show the ratios."),
}


def load(name: str) -> click.RichCommand:
    """Import a command, with its groups of options and its examples."""
    from gmi_drl.cli.help import arrange

    module, _, attribute = ENTRIES[name].place.partition(":")
    command: click.RichCommand = getattr(import_module(f"gmi_drl.cli.{module}"), attribute)
    arrange(name, command)
    return command


class Commands(click.RichGroup):
    """A group whose `commands` have a name and a summary alone. The command that is called is imported."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called, for a call or for completion."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(name) if name and found else found, rest


def summaries() -> list[click.Command]:
    """What stands for the commands until one is called."""
    return [click.RichCommand(name=name, short_help=entry.summary) for name, entry in ENTRIES.items()]
