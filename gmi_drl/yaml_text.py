"""Reads and writes YAML: reads it strictly, writes it for people, fast also for 100,000 GMIs."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import yaml

WIDTH = 140

_Plain = Callable[[str], str]

_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's reader in C if it was built, about ten times as fast."""

EXPONENT = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
"""Numbers such as 1e-3 and .5e3, which YAML 1.1 takes for text."""

NO_ALIASES = "aliases (*name) and merge keys (<<) are not supported"


class _Loader(_FAST):  # type: ignore[misc, valid-type]
    """`SafeLoader` without dates, aliases, merge keys and duplicate keys."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node in self.constructed_objects or node in self.recursive_objects:  # an alias: the node of its anchor
            raise yaml.YAMLError(NO_ALIASES)
        return super().construct_object(node, deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if "tag:yaml.org,2002:merge" in {key.tag for key, _ in node.value}:  # before it multiplies what it merges
            raise yaml.YAMLError(NO_ALIASES)
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := sorted(key for key, count in keys.items() if count > 1):
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: given twice: {', '.join(twice)}")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


def read_yaml(text: str) -> Any:
    """Read plain values from YAML. `1e-3` is a number, a date is text.

    Raises:
        yaml.YAMLError: if it is not valid YAML, or has objects, aliases, merge keys or a key twice.
    """
    return yaml.load(text, Loader=_Loader)


def write_yaml(data: Mapping[str, Any]) -> str:
    """The data as YAML in block style, which `read_yaml` reads back unchanged.

    A mapping or list without further nesting is on one line if it fits: `- {id: 0, cores: [0, 1]}`. Long lists of
    numbers or words are wrapped; longer texts have a line each.

    Args:
        data: JSON values: strings, finite numbers, booleans and None, in lists and in dicts with strings as keys.
    """
    return "\n".join(_block(data, "")) + "\n" if data else "{}\n"


def _block(value: Any, indent: str) -> list[str]:
    """The lines of a mapping or list that does not fit on one line."""
    if isinstance(value, list):
        words = _words(value)
        return _items(value, indent) if words is None else _rows(words, indent + "  ")
    lines = []
    for key, inner in value.items():
        head = f"{indent}{_word(key)}:"
        line = _line(inner, WIDTH - len(head) - 1)
        if line is None:
            lines.append(head)
            lines += _block(inner, indent if isinstance(inner, list) else indent + "  ")
        else:
            lines.append(f"{head} {line}")
    return lines


def _items(items: list[Any], indent: str) -> list[str]:
    lines = []
    for item in items:
        line = _line(item, WIDTH - len(indent) - 2)
        rest = []
        if line is None:
            first, *rest = _block(item, indent + "  ")
            line = first.lstrip()
        lines.append(f"{indent}- {line}")
        lines += rest
    return lines


def _rows(words: list[str], indent: str) -> list[str]:
    """The lines of a wrapped list of words."""
    each = max(1, (WIDTH - len(indent) - 2) // (max(map(len, words)) + 2))
    rows = [", ".join(words[start : start + each]) for start in range(0, len(words), each)]
    return [f"{indent}{'[' if i == 0 else ' '}{row}{']' if i == len(rows) - 1 else ','}" for i, row in enumerate(rows)]


def _line(value: Any, room: int) -> str | None:
    """The value on one line; None if it does not fit, or is nested too deeply."""
    if isinstance(value, dict):
        line = _flow(value)
    elif isinstance(value, list):
        line = _flow_list(value)
    else:
        return _scalar(value, _text)
    return line if line is None or len(line) <= room else None


def _flow(mapping: dict[str, Any]) -> str | None:
    parts = []
    for key, value in mapping.items():
        kind = type(value)
        if kind is int:  # first the fast path: most values are numbers
            line: str | None = str(value)
        elif kind is list:
            line = _flow_list(value)
        elif kind is dict:
            line = None if value else "{}"
        else:
            line = _scalar(value, _word)
        if line is None:
            return None
        parts.append(f"{_word(key)}: {line}")
    return f"{{{', '.join(parts)}}}"


def _flow_list(items: list[Any]) -> str | None:
    kinds = set(map(type, items))
    if kinds <= _INTEGERS:
        return str(items)
    if kinds == _TEXTS:
        return _flow_texts(tuple(items))
    words = _words(items)
    return None if words is None else f"[{', '.join(words)}]"


_INTEGERS = frozenset({int})
_TEXTS = frozenset({str})


@lru_cache(1024)
def _flow_texts(texts: tuple[str, ...]) -> str | None:
    """A list of texts on one line. Cached, since thousands of GMIs have the same roles."""
    words = _words(list(texts))
    return None if words is None else f"[{', '.join(words)}]"


def _words(items: list[Any]) -> list[str] | None:
    """The items for a list on one line; None if one is nested, or a text of several words."""
    if not items or any(isinstance(item, (dict, list)) for item in items):
        return None
    words = [_scalar(item, _word) for item in items]
    return None if any(word.startswith('"') for word in words) else words


def _scalar(value: Any, text: _Plain) -> str:
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    number = repr(value)
    return number if "." in number or "e" not in number else number.replace("e", ".0e")  # YAML 1.1 needs the point


@lru_cache(4096)
def _word(text: str) -> str:
    """A key, or a text within a line: plain if it is one word that YAML reads as text, else quoted."""
    return text if re.fullmatch(r"\w[\w./+-]*", text) and _is_plain(text) else _quoted(text)


@lru_cache(4096)
def _text(text: str) -> str:
    """A text at the end of a line: plain if YAML reads it as text, else quoted."""
    is_safe = re.match(r"\w", text) and not re.search(r": | #|[: ]$", text)
    return text if is_safe and _is_plain(text) else _quoted(text)


def _is_plain(text: str) -> bool:
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[0], [])
    is_other = any(pattern.match(text) for _, pattern in resolvers) or EXPONENT.match(text)
    return text.isprintable() and not is_other


def _quoted(text: str) -> str:
    """The text in double quotes, as in JSON; characters that YAML does not allow or treats as line ends are escaped."""
    return re.sub(
        "[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]",
        lambda c: f"\\u{ord(c[0]):04x}",
        json.dumps(text, ensure_ascii=False),
    )
