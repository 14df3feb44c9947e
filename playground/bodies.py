"""Bodies of requests: decoded, of the right kind, without unknown fields, with defaults, valid."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from playground import builtins, refusals, schema
from playground.definitions import definitions, schema_of
from playground.kinds import Kind
from playground.pipeline import Object

JSON: Final = "application/json"
READABLE: Final = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"


def decode(raw: bytes, content_type: str, kind: str) -> Object:
    """A JSON object. Refusal UnsupportedMediaType or BadRequest."""
    if content_type not in ("", JSON):
        raise refusals.unsupported_media_type(READABLE)
    try:
        found: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = f"couldn't get version/kind; json parse error: {error}"
        raise refusals.bad_request(f"{_unrecognized(kind)}: {problem} ({_summary(raw)})") from error
    if not isinstance(found, dict):
        what = "array" if isinstance(found, list) else "string" if isinstance(found, str) else "number"
        problem = (
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{what} into Go value of type struct {{ APIVersion string "
            '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise refusals.bad_request(f"{_unrecognized(kind)}: {problem} ({_summary(raw)})")
    return found


def object_of(
    raw: bytes, content_type: str, kind: Kind, directive: str, warn: Callable[[str], None]
) -> Object:
    """An object of a kind, without what its schema does not know. Refusal."""
    obj = decode(raw, content_type, kind.kind)
    if kind.custom and not obj.get("kind"):
        raise refusals.bad_request(
            f"{_unrecognized(kind.kind)}: Object 'Kind' is missing in '{raw.decode()}'"
        )
    version = obj.setdefault("apiVersion", kind.api_version)
    obj.setdefault("kind", kind.kind)
    if version != kind.api_version:
        raise refusals.bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({kind.api_version})"
        )
    if obj["kind"] != kind.kind:
        raise refusals.bad_request(
            f'{obj["kind"]} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"the kind in the data does not match the expected kind ({kind.kind})"
        )
    return known(obj, kind, directive, warn)


def known(obj: Object, kind: Kind, directive: str, warn: Callable[[str], None]) -> Object:
    """The object without unknown fields, about which `directive` (Strict, Warn, Ignore) says what to do.

    Refusal if it does not fit the Go type of a built-in kind.
    """
    wanted = schema_of(kind)
    handled = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    unknown: list[str] = []
    kept: Object = schema.prune(obj, wanted, unknown, builtin=not kind.custom)
    if not isinstance(kept.setdefault("metadata", {}), dict):
        raise refusals.bad_request(f"{handled}: metadata is no object")
    problem = "" if kind.custom else schema.go_problem(kept, wanted, kind.kind)
    if problem:
        raise refusals.bad_request(f"{handled}: {problem}")
    texts = [f'unknown field "{path}"' for path in unknown]
    if texts and directive == "Strict":
        raise refusals.bad_request(f"{handled}: strict decoding error: {', '.join(texts)}")
    if directive != "Ignore":
        for text in texts:
            warn(text)
    if kind.custom:
        schema.default(kept, wanted)
    return kept


def checked(obj: Object, kind: Kind) -> Object:
    """The object pruned, with defaults. Refusal Invalid if there is something wrong with it."""
    kept = known(obj, kind, "Ignore", lambda _text: None)
    if kind.custom:
        found = [*schema.problems(kept, schema_of(kind))]
    else:
        builtins.complete(kind, kept)
        found = []
    found = [*builtins.wrong(kind, kept), *found]
    if found:
        raise refusals.invalid(kind.group, kind.kind, kept["metadata"].get("name", ""), found)
    return kept


def scale(raw: bytes, content_type: str) -> Object:
    """A Scale. Refusal."""
    return checked_scale(decode(raw, content_type, "Scale"))


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
    short = raw[:30]
    text = short.decode(errors="replace") if raw.startswith(b"{") else short.hex()
    return text + " ..." if len(raw) > 30 else text
