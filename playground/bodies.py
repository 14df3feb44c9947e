"""Bodies of requests: decoded, of the right kind, without unknown fields, with defaults, valid."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fedhpa.api.fielderror import invalid
from playground import defaults, protobuf, refusals, rules, schema
from playground.definitions import META, PREFIX, definitions, schema_of
from playground.kinds import BUILTIN, Kind
from playground.pipeline import Object, Refusal

JSON: Final = "application/json"
READABLE: Final = (JSON, "application/yaml", protobuf.TYPE)
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_BLOCKING: Final = ("Required value", "Too long", "Too many", "Unsupported value")


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
    said, version = obj["kind"], obj["apiVersion"]
    if kind.custom:
        if version != kind.api_version:
            raise refusals.bad_request(
                f"the API version in the data ({version}) does not match the expected API version "
                f"({kind.api_version})"
            )
        if said != kind.kind:
            problem = invalid("kind", said, f"must be {kind.kind}")
            raise refusals.invalid(kind.group, said, obj.get("metadata", {}).get("name", ""), [problem])
        return
    if (version, said) == (kind.api_version, kind.kind):
        return
    known_kind = next((each for each in BUILTIN if (each.api_version, each.kind) == (version, said)), None)
    if known_kind is None:
        why = f'no kind "{said}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    else:
        here = kind.group.partition(".")[0] or "core"
        why = f"converting ({known_kind.version}.{said}) to ({here}.{kind.kind}): unknown conversion"
    raise refusals.bad_request(
        f'{said} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.kind}: {why}'
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
    if old is not None:
        found *= 2  # Kubernetes looks twice, and says so in its causes
    found += rules.wrong(kind, kept, old)
    if kind.custom:
        of_schema = [*schema.problems(kept, schema_of(kind))]
        blocking = any(each.type in _BLOCKING or "must be of type" in each.detail for each in of_schema)
        if blocking and schema.has_rules(schema_of(kind)):
            of_schema.append(invalid("<nil>", None, UNCHECKED))
        found += of_schema
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
