"""One request for objects, understood."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.embedded.api.types import Attributes, Object
from testbed.embedded.objects.kinds import Kind


@dataclass
class Call:
    """One request for objects of a kind."""

    attributes: Attributes
    kind: Kind
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """Where the objects are; "" for those in none, and for all."""
        return self.attributes.namespace if self.kind.namespaced else ""

    @property
    def is_scale(self) -> bool:
        """Whether it is about the scale of an object."""
        return self.attributes.subresource == "scale"

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored."""
        return bool(self.query.get("dryRun"))

    @property
    def directive(self) -> str:
        """What to do about unknown fields."""
        return self.query.get("fieldValidation") or "Warn"

    def named(self, obj: Object) -> "Call":
        """The same about one object."""
        metadata = obj["metadata"]
        at = dataclasses.replace(
            self.attributes, name=metadata["name"], namespace=metadata.get("namespace", "")
        )
        return dataclasses.replace(self, attributes=at)
