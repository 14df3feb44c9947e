"""Finds the classes whose instances carry one pod from the answer of a member to the Decision.

A form is a class of the product. One of its instances was made with the pod in it: with the pod's name, and
with what the pod requests or uses. The instance has them in its own fields, in collections, or in values that
it holds. Values are msgspec structs, pydantic models, dataclasses and named tuples. What lies in an object of
another class counts for that object only. Otherwise everything that refers to a cache would be a form.

These are not forms:

- The bytes of an answer. They are the wire.
- A part without the pod's name, such as one container, or without any amount, such as the metadata.
- A place: an instance that was seen without the pod before, such as a store that is filled later.

The arguments, local variables and results of all Python functions of the product are examined, in all tasks.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Final

from benchmarks.walk.counter import Product

_COLLECTIONS: Final = frozenset((list, tuple, set, frozenset, dict))


@dataclasses.dataclass(frozen=True)
class Marks:
    """The texts by which a pod is recognised: its unique name, and the digits of its unique amounts."""

    name: str
    amounts: tuple[str, ...]


class FormFinder:
    """Watches while it is entered. `values` and `objects` are the names of the forms that were found."""

    def __init__(self, product: Product, marks: Marks) -> None:
        self._product = product
        self._marks = marks
        self._found: dict[type, bool] = {}
        # Instances that were seen without the pod, by identity; kept, so that no other object has it later.
        self._without: dict[int, object] = {}
        self._places: dict[int, object] = {}
        self._unfinished: list[object] = []

    def __enter__(self) -> FormFinder:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    @property
    def values(self) -> list[str]:
        """The forms that are values, as `module.Class`."""
        return sorted(_name(kind) for kind, is_value in self._found.items() if is_value)

    @property
    def objects(self) -> list[str]:
        """The other forms, as `module.Class`."""
        return sorted(_name(kind) for kind, is_value in self._found.items() if not is_value)

    def _note(self, frame: FrameType, event: str, result: object) -> None:
        if event not in ("call", "return") or self._product.file(frame.f_code) is None:
            return
        known = list(frame.f_locals.values())
        if frame.f_code.co_name == "__init__" and known:
            # An object under construction lacks fields that it is made with.
            if event == "call":
                self._unfinished.append(known[0])
                return
            self._unfinished = [one for one in self._unfinished if one is not known[0]]
        self._search((*known, result if event == "return" else None), set())

    def _search(self, parts: Iterable[object], seen: set[int]) -> None:
        """Judges the instances of the product among these, and within their collections and values."""
        for part in parts:
            kind = type(part)
            if id(part) in seen:
                continue
            seen.add(id(part))
            if kind not in self._found and self._product.owns(kind):
                self._judge(part)
            if self._is_open(kind):
                self._search(_parts(part), seen)

    def _judge(self, found: object) -> None:
        if id(found) in self._places or any(found is one for one in self._unfinished):
            return
        if not self._carries(found):
            self._without[id(found)] = found
        elif id(found) in self._without:
            self._places[id(found)] = found
        else:
            self._found[type(found)] = _is_value(type(found))

    def _carries(self, found: object) -> bool:
        text = "\n".join(self._texts(_parts(found), set()))
        return self._marks.name in text and any(amount in text for amount in self._marks.amounts)

    def _texts(self, parts: Iterable[object], seen: set[int]) -> Iterator[str]:
        """Yields all texts and numbers within collections and values; of numbers the digits."""
        for part in parts:
            if isinstance(part, str):
                yield part
            elif isinstance(part, (int, float)):
                yield str(part).replace(".", "")
            elif self._is_open(type(part)) and id(part) not in seen:
                seen.add(id(part))
                yield from self._texts(_parts(part), seen)

    def _is_open(self, kind: type) -> bool:
        """True for collections and for values of the product, whose parts count as theirs."""
        return kind in _COLLECTIONS or (_is_value(kind) and self._product.owns(kind))


def _parts(found: object) -> Iterator[object]:
    """Yields the elements of a collection, or the fields of an object of the product."""
    if isinstance(found, dict):
        yield from list(found)
        yield from list(found.values())
    elif isinstance(found, (list, tuple, set, frozenset)):
        yield from list(found)
    else:
        yield from (getattr(found, name, None) for name in _slots(type(found)))
        yield from list(getattr(found, "__dict__", {}).values())


def _slots(kind: type) -> Iterator[str]:
    yield from getattr(kind, "__struct_fields__", ())
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _is_value(kind: type) -> bool:
    marks = ("__struct_fields__", "__pydantic_fields__", "_fields")
    return dataclasses.is_dataclass(kind) or any(hasattr(kind, mark) for mark in marks)


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
