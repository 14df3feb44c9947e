"""The history of an autoscaler as JSON: in scenarios, in decisions and in status.decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.times import format_time
from fedhpa.decision.history import History, Recommendation, ScaleEvent
from fedhpa.decision.record.fields import path_first, required_time

JSON = object

_MAX_ENTRIES: Final = 120


class RawRecommendation(msgspec.Struct):
    """One entry of history.recommendations."""

    time: str
    replicas: int


class RawScaleEvent(msgspec.Struct):
    """One entry of history.scaleUps or history.scaleDowns."""

    time: str
    change: int


class RawHistory(msgspec.Struct, rename="camel"):
    """history. Absent recommendations are a fresh start, an empty list is not.

    Unknown fields are skipped, because a newer release may have stored them before a rollback.
    """

    recommendations: Sequence[RawRecommendation] | None = None
    scale_ups: Sequence[RawScaleEvent] | None = None
    scale_downs: Sequence[RawScaleEvent] | None = None


class RawScenarioRecommendation(RawRecommendation, forbid_unknown_fields=True):
    """One entry of history.recommendations of a scenario."""


class RawScenarioScaleEvent(RawScaleEvent, forbid_unknown_fields=True):
    """One entry of history.scaleUps or history.scaleDowns of a scenario."""


class RawScenarioHistory(RawHistory, forbid_unknown_fields=True, rename="camel"):
    """history of a scenario or its record. A person may have written it, so unknown fields are refused."""

    recommendations: Sequence[RawScenarioRecommendation] | None = None
    scale_ups: Sequence[RawScenarioScaleEvent] | None = None
    scale_downs: Sequence[RawScenarioScaleEvent] | None = None


def encode_history(history: History) -> Mapping[str, JSON]:
    """Returns the history as JSON. A fresh start has no `recommendations`."""
    encoded: dict[str, JSON] = {}
    if history.recommendations is not None:
        encoded["recommendations"] = [
            {"time": format_time(entry.time), "replicas": entry.replicas} for entry in history.recommendations
        ]
    encoded["scaleUps"] = _encode_events(history.scale_ups)
    encoded["scaleDowns"] = _encode_events(history.scale_downs)
    return encoded


def decode_history(raw: RawHistory | JSON) -> History:
    """Returns the history of decoded JSON; a fresh start for None. Raises InvalidObject naming the field."""
    if not isinstance(raw, RawHistory):
        try:
            raw = convert_json(raw if raw is not None else {}, RawHistory)
        except InvalidJson as error:
            raise InvalidObject(f"history.{path_first(str(error), whole='')}") from error
    recommendations: tuple[Recommendation, ...] | None = None
    if raw.recommendations is not None:
        recommendations = tuple(
            Recommendation(
                required_time(f"history.recommendations[{index}].time", entry.time), entry.replicas
            )
            for index, entry in enumerate(raw.recommendations)
        )
    return History(
        recommendations,
        _decode_events("history.scaleUps", raw.scale_ups),
        _decode_events("history.scaleDowns", raw.scale_downs),
    )


def bounded_history(history: History) -> History:
    """Returns the entries that can change a later decision: at most 120 of each kind.

    A recommendation counts only if every later one is lower, or every later one is higher. If too many
    remain, the newest are kept. Scale events above the limit are added to the oldest one that is kept: it
    then counts for longer, so the rate limit gets no looser.
    """
    return History(
        None if history.recommendations is None else _extremes(history.recommendations),
        _merged(history.scale_ups),
        _merged(history.scale_downs),
    )


def _encode_events(events: Sequence[ScaleEvent]) -> list[Mapping[str, JSON]]:
    return [{"time": format_time(event.time), "change": event.change} for event in events]


def _decode_events(path: str, events: Sequence[RawScaleEvent] | None) -> tuple[ScaleEvent, ...]:
    return tuple(
        ScaleEvent(required_time(f"{path}[{index}].time", event.time), event.change)
        for index, event in enumerate(events or ())
    )


def _extremes(entries: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    kept: list[Recommendation] = []
    highest: int | None = None
    lowest: int | None = None
    for entry in sorted(entries, key=lambda entry: entry.time, reverse=True):
        if highest is None or lowest is None or entry.replicas > highest or entry.replicas < lowest:
            kept.append(entry)
            highest = entry.replicas if highest is None else max(highest, entry.replicas)
            lowest = entry.replicas if lowest is None else min(lowest, entry.replicas)
    return tuple(reversed(kept[:_MAX_ENTRIES]))


def _merged(events: Sequence[ScaleEvent]) -> tuple[ScaleEvent, ...]:
    if len(events) <= _MAX_ENTRIES:
        return tuple(events)
    ordered = sorted(events, key=lambda event: event.time)
    cut = len(ordered) - _MAX_ENTRIES
    oldest = ScaleEvent(ordered[cut].time, sum(event.change for event in ordered[: cut + 1]))
    return (oldest, *ordered[cut + 1 :])
