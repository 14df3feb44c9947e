"""Bodies of requests: decoded, of the right kind, without unknown fields, with defaults, valid."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fedhpa.api.fielderror import invalid
from testbed.embedded.api import protobuf
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.objects import defaults, rules
from testbed.embedded.objects import validation as schema
from testbed.embedded.objects.definitions import META, PREFIX, definitions, schema_of
from testbed.embedded.objects.kinds import Kind

JSON: Final = "application/json"
READABLE: Final = (JSON, "application/yaml", protobuf.TYPE)
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"


def decode(raw: bytes, content_type: str, kind: str) -> Object:
    """What is in a body. Refusal UnsupportedMediaType or BadRequest."""
    if content_type == protobuf.TYPE:
        return protobuf.decode(raw)
    if content_type not in ("", JSON):
        raise refusals.unsupported_media_type(READABLE)
    try:
        found: Any = msgspec.json.decode(raw)
        problem = "" if isinstance(found, dict) else "it is no object"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = str(error)
    if problem:
        why = f"couldn't get version/kind; json parse error: {problem}"
        raise refusals.bad_request(f"{_unrecognized(kind)}: {why} ({_summary(raw)})")
    decoded: Object = found
    return decoded


def object_of(
    raw: bytes, content_type: str, kind: Kind, directive: str, warn: Callable[[str], None]
) -> Object:
    """An object of a kind, without what its schema does not know. Refusal."""
    obj = decode(raw, content_type, kind.kind)
    if kind.custom and not obj.get("kind"):
        why = f"Object 'Kind' is missing in '{raw.decode()}'"
        raise refusals.bad_request(f"{_unrecognized(kind.kind)}: {why} ({_summary(raw)})")
    obj.setdefault("kind", kind.kind)
    obj.setdefault("apiVersion", kind.api_version)
    check_kind(obj, kind)
    return known(obj, kind, directive, warn)


def check_kind(obj: Object, kind: Kind) -> None:
    """Refusal unless an object says that it is of a kind."""
    said, version = str(obj.get("kind") or ""), obj.get("apiVersion")
    if kind.custom and version == kind.api_version and said != kind.kind:
        metadata = obj.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        problem = invalid("kind", said, f"must be {kind.kind}")
        raise refusals.invalid(kind.group, said, name, [problem])
    if (version, said) != (kind.api_version, kind.kind):
        raise refusals.bad_request(
            f'{said} in version "{version}" cannot be handled as a {kind.kind} '
            f'in version "{kind.api_version}"'
        )


def known(obj: Object, kind: Kind, directive: str, warn: Callable[[str], None]) -> Object:
    """The object without unknown fields, about which `directive` (Strict, Warn, Ignore) says what to do.

    Refusal if it does not fit its Go type.
    """
    handled = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    unknown: list[str] = []
    body = {name: value for name, value in obj.items() if name != "metadata"}
    kept: Object = schema.prune(body, schema_of(kind), unknown, builtin=not kind.custom)
    metadata = schema.prune(
        obj.get("metadata") or {}, definitions()[META], unknown, builtin=True, path="metadata"
    )
    problem = schema.go_problem(metadata, {"$ref": PREFIX + META}, kind.kind, "metadata")
    if not kind.custom:
        problem = problem or schema.go_problem(kept, schema_of(kind), kind.kind) or rules.undecodable(kept)
    if problem:
        raise refusals.bad_request(f"{handled}: {problem}")
    kept["metadata"] = {name: value for name, value in metadata.items() if value not in ({}, [], "")}
    texts = [f'unknown field "{path}"' for path in (sorted(unknown) if kind.custom else unknown)]
    if texts and directive == "Strict":
        raise refusals.bad_request(f"{handled}: strict decoding error: {', '.join(texts)}")
    if directive != "Ignore":
        for text in texts:
            warn(text)
    if kind.custom:
        schema.default(kept, schema_of(kind))
    return kept


def patched(new: Object, kind: Kind, directive: str, warn: Callable[[str], None]) -> Object:
    """What a patch made of an object, without unknown fields. Refusal Invalid."""
    try:
        check_kind(new, kind)
        return known(new, kind, directive, warn)
    except Refusal as refusal:
        if refusal.reason != "BadRequest":
            raise
        problem = invalid("patch", json.dumps(new), str(refusal))
        raise refusals.invalid("", "", "", [problem]) from refusal


def checked(obj: Object, kind: Kind, old: Object | None = None) -> Object:
    """The object pruned, with defaults. Refusal Invalid if something is wrong with it, or with the change."""
    kept = known(obj, kind, "Ignore", lambda _text: None)
    if not kind.custom:
        defaults.complete(kind, kept)
    found = [*rules.wrong_metadata(kept["metadata"], None if old is None else old["metadata"])]
    found += rules.wrong(kind, kept, old)
    if kind.custom:
        found += schema.problems(kept, schema_of(kind))
    if found:
        raise refusals.invalid(kind.group, kind.kind, kept["metadata"].get("name", ""), found)
    return kept


def checked_scale(found: Object) -> Object:
    """The Scale if it fits its Go type. Refusal."""
    problem = schema.go_problem(found, definitions()[SCALE], "Scale")
    if problem:
        raise refusals.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {problem}')
    return found


def _unrecognized(kind: str) -> str:
    return f"the object provided is unrecognized (must be of type {kind})"


def _summary(raw: bytes) -> str:
    if not raw:
        return "<empty>"
    text = raw[:30].decode(errors="replace") if raw.startswith(b"{") else raw[:30].hex()
    return text + " ..." if len(raw) > 30 else text
