import inspect
import shlex

import click
import pytest
from click.shell_completion import ShellComplete

from gmi_drl.cli import cli
from gmi_drl.cli.commands import ENTRIES, load
from gmi_drl.cli.help import EXAMPLES, GROUPS


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_every_option_is_in_one_group(name):
    grouped = [option for options in GROUPS[name].values() for option in options]
    options = [max(one.opts, key=len) for one in load(name).params if isinstance(one, click.Option)]
    assert sorted(grouped) == sorted(options)


def test_every_command_has_examples():
    assert sorted(EXAMPLES) == sorted(ENTRIES)


@pytest.mark.parametrize("call", [call for examples in EXAMPLES.values() for call in examples])
def test_examples_are_calls_of_their_command(call):
    name, *arguments = shlex.split(call)
    load(name).make_context(name, arguments)  # raises for what the command does not take


def test_the_help_of_a_command_shows_its_groups_and_examples(command_line):
    code, out, _ = command_line("train", "--help")
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0 and "─ On which GMIs ─" in out and "gmi-drl train ant" in lines


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    first, *_ = inspect.cleandoc(load(name).help).split("\n\n")
    assert ENTRIES[name].summary == " ".join(first.split())


@pytest.mark.parametrize(
    ("words", "beginning", "found"),
    [([], "pl", ["plan", "play"]), (["train"], "--resu", ["--resume"]), (["replay"], "im", ["import"])],
)
def test_a_shell_completes_commands_and_their_options(words, beginning, found):
    complete = ShellComplete(cli, {}, "gmi-drl", "_GMI_DRL_COMPLETE")
    assert [one.value for one in complete.get_completions(words, beginning)] == found
