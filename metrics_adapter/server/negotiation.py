"""Content negotiation: the form of a response by the request's Accept header.

kubectl prefers a Table to JSON. The hub's aggregator requests its discovery documents by parameters of
application/json. Other clients request JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from fedhpa.api.texts import ascii_line

JSON = "application/json"
YAML = "application/yaml"
META_GROUP, META_VERSIONS = "meta.k8s.io", ("v1", "v1beta1")
DISCOVERY_GROUP = "apidiscovery.k8s.io"
DISCOVERY_VERSIONS = ("v2", "v2beta1")
# Entries of an Accept header that are read. kubectl and the hub send four.
MAX_MEDIA_RANGES = 32
DISCOVERY_LIST = "APIGroupDiscoveryList"


class Form(Enum):
    """The forms in which metrics are served."""

    JSON = "json"
    YAML = "yaml"
    TABLE = "table"
    METADATA = "metadata"


@dataclass(frozen=True)
class Representation:
    """The form of a response, and for Tables and metadata the version of meta.k8s.io."""

    form: Form
    version: str = ""


# The words for metadata alone in an Accept header: of a list, and of a single object.
METADATA_LIST, METADATA_ITEM = "PartialObjectMetadataList", "PartialObjectMetadata"


@dataclass(frozen=True)
class MediaRange:
    """One entry of an Accept header, without its weight `q`. Names of parameters are in lower case."""

    type: str
    parameters: Mapping[str, str]


def media_ranges(accept: str) -> list[MediaRange]:
    """Returns the entries of an Accept header by descending weight. An empty header accepts everything."""
    weighted: list[tuple[float, MediaRange]] = []
    for entry in accept.split(",", MAX_MEDIA_RANGES)[:MAX_MEDIA_RANGES]:
        kind, *rest = (part.strip() for part in entry.split(";"))
        if not kind:
            continue
        pairs = (part.partition("=") for part in rest if part)
        parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
        weighted.append((_weight(parameters.pop("q", "1")), MediaRange(kind.lower(), parameters)))
    accepted = [media for weight, media in sorted(weighted, key=lambda entry: -entry[0]) if weight > 0]
    return accepted or [MediaRange("*/*", {})]


def choose_form(accept: str, metadata: str = "") -> Representation | None:
    """Returns the form for an Accept header, or None if the adapter offers none of the accepted types.

    `metadata` is the word for metadata alone, METADATA_LIST or METADATA_ITEM, where that form is offered.
    """
    transforms = {"Table": Form.TABLE} | ({metadata: Form.METADATA} if metadata else {})
    for media in media_ranges(accept):
        representation = media.parameters.get("as")
        if representation is not None:
            form = transforms.get(representation)
            version = media.parameters.get("v", META_VERSIONS[0])
            group = media.parameters.get("g", META_GROUP)
            if form is not None and media.type == JSON and group == META_GROUP and version in META_VERSIONS:
                return Representation(form, version)
        elif media.type in (JSON, "application/*", "*/*"):
            return Representation(Form.JSON)
        elif media.type == YAML:
            return Representation(Form.YAML)
    return None


def accepts_gzip(header: str) -> bool:
    """True for an Accept-Encoding with gzip, read as Kubernetes' servers do, without weights."""
    return any(token.strip() == "gzip" for token in header.split(",", MAX_MEDIA_RANGES))


def discovery_version(accept: str) -> str | None:
    """Returns the preferred version of aggregated discovery, or None for the plain APIGroupList."""
    for media in media_ranges(accept):
        if media.type not in (JSON, "*/*", "application/*"):
            continue
        parameters = media.parameters
        if "as" not in parameters:
            return None
        if parameters.get("g") == DISCOVERY_GROUP and parameters["as"] == DISCOVERY_LIST:
            version = parameters.get("v", "")
            if version in DISCOVERY_VERSIONS:
                return version
    return None


def discovery_content_type(version: str) -> str:
    """Returns the exact content type by which the hub recognises aggregated discovery."""
    return f"{JSON};g={DISCOVERY_GROUP};v={version};as={DISCOVERY_LIST}"


def warning_values(texts: Iterable[str]) -> list[str]:
    """Returns one Warning header value for each text, in short ASCII lines, quoted as RFC 7234 says."""
    values = []
    for text in texts:
        escaped = ascii_line(text).replace("\\", "\\\\").replace('"', '\\"')
        values.append(f'299 - "{escaped}"')
    return values


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
