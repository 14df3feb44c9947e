"""The record of a CronFederatedHPA on a hub whose CRD drops fields of the status: watermarks and windows.

The whole record has the watermark and the hash of each rule, the missed fires, and the open windows. A
smaller one has a single watermark for all rules that are up to date, and eight characters of a hash for each
of them. A rule without its hash there is new or was edited, so it starts at the edit, as in a whole record.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.record_annotation import decode_record, encode_record, fits
from fedhpa.cron.execution.rules import schedule_hash

Json = dict[str, Any]

HISTORIES: Final = "executionHistories"
_WATERMARK: Final = ("ruleName", "handledUntil", "scheduleHash")
_DIGEST_LENGTH: Final = 8
_FEWER_WINDOWS: Final = (32, 16, 8, 4)
_MAX_BEHIND: Final = 16


def drops_fields(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True if a hub stored a status without fields of ours that were written."""
    ours = ("observedGeneration", "conditions", "window")
    return any(wanted.get(name) is not None and name not in stored for name in ours)


def record_text(uid: str, status: Mapping[str, Any]) -> str:
    """Returns the record of a status as text, at most 16 KiB; "" if there is nothing to record."""
    histories, window = status.get(HISTORIES) or (), status.get("window")
    if window is None and not any(entry.get("handledUntil") for entry in histories):
        return ""  # another controller runs the rules
    for fields in _forms(histories, window):
        text = encode_record(uid, fields)
        if fits(text):
            return text
    return ""


def with_record(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the object with the status that its record completes; the object itself if there is no need.

    Fields of the status take precedence over the record. A record that cannot be read is ignored.
    """
    status = raw.get("status")
    status = status if isinstance(status, Mapping) else {}
    if "observedGeneration" in status or "window" in status:
        return raw
    fields = decode_record(raw["metadata"])
    if not fields:
        return raw
    try:
        return _completed(raw, status, fields)
    except (InvalidObject, TypeError, AttributeError):
        # Somebody else wrote values of other types.
        return raw


def _completed(raw: Mapping[str, Any], status: Mapping[str, Any], fields: Json) -> Mapping[str, Any]:
    recorded = list(fields.get(HISTORIES) or ())
    if "rules" in fields:
        recorded += _up_to_date(raw, str(fields.get("handledUntil", "")), str(fields["rules"]), recorded)
    kept = {entry["ruleName"]: entry for entry in status.get(HISTORIES) or () if "ruleName" in entry}
    known = {entry.get("ruleName") for entry in recorded}
    histories = [_joined(entry, kept.get(entry.get("ruleName"), {})) for entry in recorded]
    histories += [entry for name, entry in kept.items() if name not in known]
    whole = {**status, HISTORIES: histories}
    if fields.get("window") is not None:
        whole["window"] = fields["window"]
    found = {**raw, "status": whole}
    decode(CronFederatedHPA, found)
    return found


def _joined(recorded: Mapping[str, Any], kept: Mapping[str, Any]) -> Json:
    """Returns the history of a rule. A fire that the status shows as applied is never applied again."""
    entry = {**recorded, **kept}
    applied = [done.get("scheduleTime") for done in kept.get("successfulExecutions") or ()]
    times = [time for time in (*applied, entry.get("handledUntil")) if isinstance(time, str)]
    # Times of one length and zone order as texts do.
    return entry | ({"handledUntil": max(times)} if "handledUntil" in entry and times else {})


def _up_to_date(
    raw: Mapping[str, Any], handled_until: str, digests: str, behind: Sequence[Mapping[str, Any]]
) -> list[Json]:
    """Returns the histories of the rules that the small record names by their hashes."""
    known = {digests[at : at + _DIGEST_LENGTH] for at in range(0, len(digests), _DIGEST_LENGTH)}
    late = {entry.get("ruleName") for entry in behind}
    found = []
    spec = decode(CronFederatedHPA, raw).spec
    for rule in spec.rules:
        hashed = schedule_hash(rule, spec.scale_target_ref)
        if rule.name not in late and _digest(rule.name, hashed) in known:
            found.append({"ruleName": rule.name, "handledUntil": handled_until, "scheduleHash": hashed})
    return found


def _forms(histories: Sequence[Json], window: Json | None) -> Iterator[Json]:
    """Yields the fields of the record, each time with less."""
    whole = [_only(entry, (*_WATERMARK, "missedExecutions")) for entry in histories]
    yield _with_window({HISTORIES: whole}, window)
    yield _with_window({HISTORIES: [_only(entry, _WATERMARK) for entry in histories]}, window)
    small = _small(histories)
    yield _with_window(small, window)
    for count in _FEWER_WINDOWS if window is not None else ():
        # The newest windows have the values that hold now, and the baseline returns in any case.
        newest = sorted(window["open"], key=lambda each: str(each.get("opened")))[-count:]  # type: ignore[index]
        yield _with_window(small, {**window, "open": newest})  # type: ignore[dict-item]


def _small(histories: Sequence[Json]) -> Json:
    """Returns one watermark for all rules that owe nothing until then, and the other rules by themselves."""
    marks = [str(entry["handledUntil"]) for entry in histories if entry.get("handledUntil")]
    latest = max(marks, default="")
    behind = [entry for entry in histories if str(entry.get("nextExecutionTime") or "~") <= latest]
    late = {entry["ruleName"] for entry in behind}
    digests = "".join(
        _digest(entry["ruleName"], entry.get("scheduleHash", ""))
        for entry in histories
        if entry["ruleName"] not in late
    )
    return {
        HISTORIES: [_only(entry, _WATERMARK) for entry in behind[:_MAX_BEHIND]],
        "handledUntil": latest,
        "rules": digests,
    }


def _digest(name: str, hashed: str) -> str:
    digest = hashlib.sha256(msgspec.json.encode([name, hashed])).digest()
    return base64.urlsafe_b64encode(digest)[:_DIGEST_LENGTH].decode()


def _only(entry: Json, names: Sequence[str]) -> Json:
    return {name: entry[name] for name in names if entry.get(name)}


def _with_window(fields: Json, window: Json | None) -> Json:
    return fields if window is None else {**fields, "window": window}
