"""The history of an autoscaler as JSON: in scenarios and in decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.times import format_time
from fedhpa.decision.memory import History
from fedhpa.decision.record.fields import path_first, required_time
from fedhpa.scaling import Recommendation, ScaleEvent

JSON = object


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


def _encode_events(events: Sequence[ScaleEvent]) -> list[Mapping[str, JSON]]:
    return [{"time": format_time(event.time), "change": event.change} for event in events]


def _decode_events(path: str, events: Sequence[RawScaleEvent] | None) -> tuple[ScaleEvent, ...]:
    return tuple(
        ScaleEvent(required_time(f"{path}[{index}].time", event.time), event.change)
        for index, event in enumerate(events or ())
    )
