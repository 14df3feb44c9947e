"""Reads YAML that people write, with bounds, and prints YAML without anchors.

The reader is the library's own in Python. Its faster reader in C crashes the process at deep nesting.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import MAX_NESTING, nested_deeper

# Values and characters of a file with its aliases written out.
MAX_VALUES: Final = 2_000_000
MAX_CHARACTERS: Final = 64 * 1024 * 1024

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


def read_yaml(
    text: str, *, max_values: int = MAX_VALUES, max_characters: int = MAX_CHARACTERS
) -> Iterator[Any]:
    """Yields the documents of a text that are not empty. Raises InvalidObject, and nothing else.

    Times stay texts, as in JSON. A duplicate key is an error, because YAML would drop all values but one.
    """
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "check_node found one"
            _Weight(max_values, max_characters).of(node)
            content = loader.construct_document(node)
            if nested_deeper(content, MAX_NESTING):
                raise InvalidObject("it is nested too deeply")
            if content is not None:
                yield content
    except RecursionError as error:
        raise InvalidObject("it is not valid YAML: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise InvalidObject(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()


def read_own_yaml(path: Path) -> list[Any]:
    """Returns the documents of a file that comes with this package, so that it has no traps.

    The reader in C takes a tenth of the time.
    """
    with path.open(encoding="utf-8") as file:
        return list(yaml.load_all(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def print_yaml(documents: Iterable[Any], *, sort_keys: bool = True) -> str:
    """Returns the documents as YAML, each after a line `---`, without anchors and aliases."""
    return "".join(
        "---\n" + yaml.dump(one, Dumper=_Dumper, sort_keys=sort_keys, width=110, allow_unicode=True)
        for one in documents
    )


class _Loader(yaml.SafeLoader):
    """Keeps times as texts, and refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Checks the keys of a mapping. Called by the base class."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise InvalidObject(f"line {line}: {key.value!r} is a duplicate key: keep one")
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Writes a value that occurs twice in full, because kubectl's users expect no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Called by the base class for each value."""
        del data
        return True


class _Weight:
    """Counts what a document has with its aliases written out, without writing them out."""

    def __init__(self, max_values: int, max_characters: int) -> None:
        self._limits = max_values, max_characters
        self._known: dict[int, tuple[int, int] | None] = {}

    def of(self, node: yaml.Node) -> tuple[int, int]:
        """Returns the values and the characters of a node. Raises InvalidObject above the limits."""
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                raise InvalidObject(f"line {node.start_mark.line + 1}: an alias contains itself")
            return known
        self._known[id(node)] = None  # until it is known
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        values, characters = 1, 0 if children else len(node.value)
        for child in children:
            more = self.of(child)
            values, characters = values + more[0], characters + more[1]
        for found, limit, what in zip(
            (values, characters), self._limits, ("values", "characters"), strict=True
        ):
            if found > limit:
                raise InvalidObject(
                    f"it has more than {limit} {what}, counting each alias as what it stands for: "
                    "write fewer aliases, or smaller documents"
                )
        self._known[id(node)] = values, characters
        return values, characters
