"""Reading YAML with a place for everything: safe, without surprises, without duplicate keys.

Every scalar stays the text that was written. YAML would make a level called `NO` a boolean and a
compartment called `0x1F` a number; here the schema decides what a text means.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from topology.errors import DeclarationError

MOST_BYTES = 1 << 20  # of a topology file; the largest sensible one is a hundredth of that
MOST_DEPTH = 16  # of nesting; the schema needs five

Keys = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlFile:
    """The content of a file and where each part of it stands."""

    name: str
    content: Any
    marks: Mapping[Keys, tuple[int, int]]

    def error(self, keys: Keys, message: str) -> DeclarationError:
        """An error at the nearest place in the file that `keys` lead to."""
        known = keys
        while known not in self.marks:
            known = known[:-1]
        line, column = self.marks[known]
        path = ".".join(str(key) for key in keys)
        return DeclarationError(f"{self.name}:{line}:{column}", path, message)

    def position(self, keys: Keys) -> tuple[int, int]:
        """Where `keys` lead, for putting errors in the order of the file."""
        while keys not in self.marks:
            keys = keys[:-1]
        return self.marks[keys]


def read_yaml(path: Path) -> YamlFile:
    """Read a file; anything wrong with it as YAML is a DeclarationError."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise DeclarationError(str(path)[:200], "", f"cannot be read: {reason}") from None
    if len(data) > MOST_BYTES:
        raise DeclarationError(str(path), "", f"is larger than {MOST_BYTES:,} bytes")
    try:
        return parse_yaml(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise DeclarationError(str(path), "", f"is not UTF-8 at byte {error.start}") from None


def parse_yaml(text: str, name: str) -> YamlFile:
    """Read a text; `name` stands for the file in errors."""
    marks: dict[Keys, tuple[int, int]] = {(): (1, 1)}
    try:
        # Events first: aliases are refused and nesting is bounded before any tree is built, so a small
        # file can neither grow a thousandfold nor exhaust the stack.
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise _at(name, event.start_mark, "anchors and aliases are not allowed here")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH:
                raise _at(name, event.start_mark, f"is nested more than {MOST_DEPTH} deep")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _at(name, error.problem_mark, f"is not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise DeclarationError(name, "", f"is not YAML: {' '.join(str(error).split())}") from None
    content = _value(root, (), marks, name) if root else None
    if not _is_text(content):
        raise DeclarationError(name, "", "holds half a character (a lone surrogate)")
    return YamlFile(name, content, marks)


def _value(node: yaml.Node, keys: Keys, marks: dict[Keys, tuple[int, int]], name: str) -> Any:
    marks[keys] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*keys, i), marks, name) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _at(name, key_node.start_mark, "a key must be a plain text")
            key = key_node.value
            if key in result:
                raise _at(name, key_node.start_mark, f"key `{key}` stands twice")
            result[key] = _value(value_node, (*keys, key), marks, name)
            marks[(*keys, key)] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        return result
    assert isinstance(node, yaml.ScalarNode)
    return None if node.value == "" and node.style is None else node.value


def _is_text(content: Any) -> bool:
    """Whether every text can be written out again: YAML lets one escape half of a character."""
    if isinstance(content, dict):
        return all(_is_text(part) for pair in content.items() for part in pair)
    if isinstance(content, list):
        return all(_is_text(part) for part in content)
    return content is None or not re.search(r"[\ud800-\udfff]", content)


def _at(name: str, mark: Any, message: str) -> DeclarationError:
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return DeclarationError(place, "", message)
