import subprocess
import sys

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gmi_drl.yaml_text import WIDTH, read_yaml, write_yaml

ODD = [
    "no",
    "y",
    "1e3",
    "1e5",
    ".5e3",
    "",
    "a: b",
    "#x",
    "a #b",
    "null",
    "~",
    "=",
    "<<",
    "- a",
    "0b_",
    "1:30",
    "2024-01-02",
]
ODD += [
    "two\nlines",
    " lead",
    "trail ",
    "end:",
    "a, b]",
    "{x",
    "'",
    '"',
    "\\",
    "tab\t",
    "\x85",
    "\u2028",
    "é",
    "🤖",
    "\ufeff",
    "?",
]
TEXTS = st.one_of(st.sampled_from(ODD), st.text(max_size=40))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS, st.just("word")
)


def nested(inner):
    return st.one_of(st.lists(inner, max_size=12), st.dictionaries(TEXTS, inner, max_size=6))


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, st.recursive(SCALARS, nested, max_leaves=20)))
@example({text: {text: [text, {text: text}], "b": text} for text in ODD})
@example({"long": list(range(1000)), "deep": [[list(range(1000))], []], "words": ["word"] * 100})
def test_what_is_written_is_read_back_to_the_very_same_data(data):
    assert repr(read_yaml(write_yaml(data))) == repr(data)


def test_other_readers_understand_it_alike():
    data = {"text": ODD, "numbers": [1e16, 1e-7, 2.5, -3, True, None]}
    assert yaml.load(write_yaml(data), Loader=yaml.SafeLoader) == data


def test_it_is_pleasant_to_read():
    gmi = {"id": 0, "roles": ["simulator", "agent"], "num_env": 256, "cores": [0]}
    data = {
        "version": 1,
        "reduction": "MPR-shm",
        "devices": [{"kind": "gpu", "gmis": [gmi, gmi]}],
        "groups": {"trainers": list(range(100))},
        "projection": {"measured": True},
        "reasons": ["2 GMIs, 256 environments each", "TCG_EX: why"],
    }
    assert write_yaml(data).splitlines() == [
        "version: 1",
        "reduction: MPR-shm",
        "devices:",
        "- kind: gpu",
        "  gmis:",
        "  - {id: 0, roles: [simulator, agent], num_env: 256, cores: [0]}",
        "  - {id: 0, roles: [simulator, agent], num_env: 256, cores: [0]}",
        "groups:",
        "  trainers:",
        "    [" + ", ".join(map(str, range(33))) + ",",
        "     " + ", ".join(map(str, range(33, 66))) + ",",
        "     " + ", ".join(map(str, range(66, 99))) + ",",
        "     " + ", ".join(map(str, range(99, 100))) + "]",
        "projection: {measured: true}",
        "reasons:",
        "- 2 GMIs, 256 environments each",
        '- "TCG_EX: why"',
    ]


def test_lines_of_numbers_keep_to_the_width():
    text = write_yaml({"groups": {"trainers": list(range(80_000))}, "gmis": [{"id": 1, "cores": list(range(900))}]})
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), (".5e3", 500.0), ("-2.E+2", -200.0), ("2024-01-02", "2024-01-02")]
)
def test_numbers_and_dates_are_what_people_take_them_for(text, value):
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: &x [*x]", "aliases"),
        ("a: &x 1\nb: {c: *x}", "aliases"),
        ("a: &x {k: 1}\nb: {<<: *x}", "aliases"),
        ("a: 1\na: 2", "line 1: given twice: a"),
        ("{a: {b: 1, b: 2}}", "given twice: b"),
    ],
)
def test_aliases_and_double_keys_are_refused(text, message):
    with pytest.raises(yaml.YAMLError, match=message):
        read_yaml(text)


BOMB = """
import resource, sys, yaml
from gmi_drl.yaml_text import read_yaml
text = "&a0 {k: 1}"
for level in range(1, 30):
    text = sys.argv[1] % f"{text}{f', *a{level - 1}' * 8}"
    text = f"&a{level} {text}"
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
try:
    read_yaml(sys.argv[2] % text)
except yaml.YAMLError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(("level", "file"), [("{<<: [%s]}", "%s"), ("[%s]", "{? %s : 1}"), ("[%s]", "a: %s")])
def test_aliases_are_refused_before_they_take_memory(level, file):
    ended = subprocess.run([sys.executable, "-c", BOMB, level, file], capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("refused: "), ended.stderr
