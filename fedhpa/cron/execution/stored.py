"""The content of the records of cron: the state of an object's rules, and a target's open windows.

A thousand windows of one minute fit 64 KiB, because windows that differ in their values only are one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.scaling_record import check_version
from fedhpa.cron.execution.model import (
    ObjectRecord,
    OpenWindow,
    Replicas,
    RuleState,
    Seconds,
    WindowRecord,
)

VERSION: Final = 1
# The histories are shortened in a larger content; watermarks and windows never are.
MAX_BYTES: Final = 256 * 1024
# The entries of each history that are kept: as many as fit.
_ENTRIES: Final = (32, 16, 1, 0)

T = TypeVar("T")


class StoredRules(ObjectRecord, frozen=True, kw_only=True, omit_defaults=True):
    """The record of an object, with the version of its form."""

    version: int


class TargetReference(msgspec.Struct, frozen=True, rename="camel"):
    """A target, as an object names it."""

    api_version: str
    kind: str
    name: str


class StoredWindows(msgspec.Struct, frozen=True):
    """The windows that are open on a target."""

    version: int
    target: TargetReference
    state: WindowRecord


class _Group(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Windows that differ in their values only: those of `fields` by object and rule."""

    opened: Seconds
    closes: Seconds
    fields: tuple[str, ...]
    rules: dict[str, dict[str, tuple[Replicas, ...]]]
    at_least: bool = False
    left: tuple[str, ...] = ()
    ending: Seconds | None = None


def encode_rules(record: ObjectRecord) -> dict[str, Any]:
    """Returns the content of an object's record. The next executions follow from the schedules."""
    kept = {name: msgspec.structs.replace(state, next_execution=None) for name, state in record.rules.items()}
    content: dict[str, Any] = {}
    for limit in _ENTRIES:
        kept = {name: shortened(state, limit) for name, state in kept.items()}
        stored = StoredRules(kept, record.generation, record.shares, record.target, version=VERSION)
        content = msgspec.to_builtins(stored)
        if len(msgspec.json.encode(content)) <= MAX_BYTES:
            break
    return content


def decode_rules(content: Mapping[str, Any]) -> ObjectRecord:
    """Returns the record of an object. Raises UnknownVersion, or InvalidObject."""
    return _decode(content, StoredRules)


def encode_windows(target: TargetReference, record: WindowRecord) -> dict[str, Any]:
    """Returns the content of the record of a target with open windows."""
    whole = msgspec.structs.replace(record, open=())
    content: dict[str, Any] = msgspec.to_builtins(StoredWindows(VERSION, target, whole))
    groups: dict[Any, dict[str, dict[str, tuple[int, ...]]]] = {}
    for window in record.open:
        fields = tuple(window.values)
        alike = (window.opened, window.closes, fields, window.at_least, window.left, window.ending)
        values = groups.setdefault(alike, {}).setdefault(window.object, {})
        values[window.rule] = tuple(window.values.values())
    content["state"]["open"] = [
        msgspec.to_builtins(_Group(opened, closes, fields, rules, *rest))
        for (opened, closes, fields, *rest), rules in groups.items()
    ]
    return content


def decode_windows(content: Mapping[str, Any]) -> StoredWindows:
    """Returns the content of a target's record. Raises UnknownVersion, or InvalidObject."""
    state = content.get("state")
    if not isinstance(state, Mapping):
        return _decode(content, StoredWindows)
    whole = _decode({**content, "state": {**state, "open": []}}, StoredWindows)
    try:
        groups = convert_json(state.get("open") or [], list[_Group])
        windows = [
            OpenWindow(
                name,
                rule,
                group.opened,
                group.closes,
                dict(zip(group.fields, values, strict=True)),
                group.at_least,
                group.left,
                group.ending,
            )
            for group in groups
            for name, rules in group.rules.items()
            for rule, values in rules.items()
        ]
    except ValueError as error:
        raise InvalidObject(f"it cannot be read: {error}") from error
    windows.sort(key=lambda window: window.opened)
    record = msgspec.structs.replace(whole.state, open=tuple(windows))
    return msgspec.structs.replace(whole, state=record)


def shortened(state: RuleState, limit: int) -> RuleState:
    """Returns a state with at most so many entries in each history."""
    return msgspec.structs.replace(
        state,
        successes=state.successes[:limit],
        failures=state.failures[:limit],
        missed=state.missed[:limit],
    )


def _decode(content: Mapping[str, Any], kind: type[T]) -> T:
    check_version(content, VERSION)
    try:
        return convert_json(content, kind)
    except InvalidJson as error:
        raise InvalidObject(f"it cannot be read: {error}") from error
