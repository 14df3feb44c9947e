"""The content of the records of cron: the state of an object's rules, and a target's open windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.scaling_record import check_version
from fedhpa.cron.execution.model import RuleState, WindowRecord

VERSION: Final = 1
# The histories are shortened in a larger content; watermarks and windows never are.
MAX_BYTES: Final = 256 * 1024
# The entries of each history that are kept: as many as fit.
_ENTRIES: Final = (32, 16, 1, 0)

T = TypeVar("T")


class StoredRules(msgspec.Struct, frozen=True):
    """The state of each rule of an object, by its name."""

    version: int
    rules: dict[str, RuleState]


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


def encode_rules(states: Mapping[str, RuleState]) -> dict[str, Any]:
    """Returns the content of an object's record. The next executions follow from the schedules."""
    kept = {name: msgspec.structs.replace(state, next_execution=None) for name, state in states.items()}
    content: dict[str, Any] = {}
    for limit in _ENTRIES:
        kept = {name: shortened(state, limit) for name, state in kept.items()}
        content = msgspec.to_builtins(StoredRules(VERSION, kept))
        if len(msgspec.json.encode(content)) <= MAX_BYTES:
            break
    return content


def decode_rules(content: Mapping[str, Any]) -> dict[str, RuleState]:
    """Returns the states in an object's record. Raises UnknownVersion, or InvalidObject."""
    return _decode(content, StoredRules).rules


def encode_windows(target: TargetReference, record: WindowRecord) -> dict[str, Any]:
    """Returns the content of the record of a target with open windows."""
    content: dict[str, Any] = msgspec.to_builtins(StoredWindows(VERSION, target, record))
    return content


def decode_windows(content: Mapping[str, Any]) -> StoredWindows:
    """Returns the content of a target's record. Raises UnknownVersion, or InvalidObject."""
    return _decode(content, StoredWindows)


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
