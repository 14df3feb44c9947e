"""Reads request bodies: decodes, prunes, defaults and validates objects."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fedhpa.api.fielderror import invalid
from testbed.embedded.api import protobuf, statuses
from testbed.embedded.api.types import Object
from testbed.embedded.objects import defaults, rules, validation
from testbed.embedded.objects.definitions import META, definitions, schema_of
from testbed.embedded.objects.kinds import Kind

JSON: Final = "application/json"
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"


def decode(raw: bytes, content_type: str, kind: str) -> Object:
    """Returns the object in a body. Raises StatusError UnsupportedMediaType or BadRequest."""
    if content_type == protobuf.TYPE:
        return protobuf.decode(raw)
    if content_type not in ("", JSON):
        raise statuses.unsupported_media_type((JSON, protobuf.TYPE))
    try:
        found: Object = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise statuses.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind;"
            f" json parse error: {error}"
        ) from error
    return found


def read_object(
    raw: bytes, content_type: str, kind: Kind, field_validation: str, warn: Callable[[str], None]
) -> Object:
    """Returns the pruned object in a body. Raises StatusError."""
    obj = decode(raw, content_type, kind.kind)
    if not kind.custom:
        obj.setdefault("kind", kind.kind)
        obj.setdefault("apiVersion", kind.api_version)
    check_kind(obj, kind)
    return pruned(obj, kind, field_validation, warn)


def check_kind(obj: Object, kind: Kind) -> None:
    """Raises StatusError unless the object has the kind and apiVersion of the request."""
    given, version = str(obj.get("kind") or ""), obj.get("apiVersion")
    if kind.custom and given and version == kind.api_version and given != kind.kind:
        metadata = obj.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise statuses.invalid(kind.group, given, name, [invalid("kind", given, f"must be {kind.kind}")])
    if (version, given) != (kind.api_version, kind.kind):
        raise statuses.bad_request(
            f'{given} in version "{version}" cannot be handled as a {kind.kind} '
            f'in version "{kind.api_version}"'
        )


def pruned(obj: Object, kind: Kind, field_validation: str, warn: Callable[[str], None]) -> Object:
    """Returns the object without unknown fields, with a CRD's defaults.

    `field_validation` (Strict, Warn, Ignore) says whether unknown fields are refused, reported or ignored.
    Raises StatusError BadRequest for a type error in the metadata.
    """
    unknown: list[str] = []
    body = {name: value for name, value in obj.items() if name != "metadata"}
    kept: Object = validation.prune(body, schema_of(kind), unknown, builtin=not kind.custom)
    metadata = validation.prune(
        obj.get("metadata") or {}, definitions()[META], unknown, builtin=True, path="metadata"
    )
    names = sorted(unknown) if kind.custom else unknown
    texts = [f'unknown field "{path}"' for path in names]
    if texts and field_validation == "Strict":
        handled = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise statuses.bad_request(f"{handled}: strict decoding error: {', '.join(texts)}")
    if field_validation != "Ignore":
        for text in texts:
            warn(text)
    for problem in validation.problems(metadata, definitions()[META], "metadata"):
        raise statuses.bad_request(str(problem))
    kept["metadata"] = {name: value for name, value in metadata.items() if value not in ({}, [], "")}
    if kind.custom:
        validation.default(kept, schema_of(kind))
    return kept


def validated(obj: Object, kind: Kind, old: Object | None = None) -> Object:
    """Returns the object pruned and with defaults. Raises StatusError Invalid."""
    kept = pruned(obj, kind, "Ignore", lambda _text: None)
    if not kind.custom:
        defaults.complete(kind, kept)
    found = [*validation.problems({**kept, "metadata": {}}, schema_of(kind))]
    if not found or kind.custom:
        # The rules read built-in objects, so these must have the right types.
        found = [
            *rules.metadata_problems(kept["metadata"], None if old is None else old["metadata"]),
            *rules.problems(kind, kept, old),
            *found,
        ]
    if found:
        raise statuses.invalid(kind.group, kind.kind, kept["metadata"].get("name", ""), found)
    return kept


def check_scale(scale: Object) -> Object:
    """Returns the Scale. Raises StatusError BadRequest for a type error."""
    for problem in validation.problems(scale, definitions()[SCALE]):
        raise statuses.bad_request(str(problem))
    return scale
