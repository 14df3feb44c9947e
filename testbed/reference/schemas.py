"""JSON schemas of both kinds, for editors and for kubeconform, from the schemas of their CRDs.

An editor then underlines a misspelled field while it is typed. The API server would drop such a field.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fedhpa.api.federatedhpa import GROUP, VERSION
from testbed.reference.definitions import GENERATED, Definition, generated

FOLDER: Final = Path(__file__).parents[2] / "schemas"
DRAFT: Final = "http://json-schema.org/draft-07/schema#"


def schema_path(definition: Definition) -> Path:
    """Returns the file of a kind's schema. kubeconform finds it by group, kind and version."""
    return FOLDER / GROUP / f"{definition.model.__name__.lower()}_{VERSION}.json"


def schema_text(definition: Definition) -> str:
    """Returns the JSON schema (draft 7) of a kind as text. Unknown fields are errors."""
    crd = generated(definition)
    root = _strict(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    root["properties"]["apiVersion"]["enum"] = [f"{GROUP}/{VERSION}"]
    root["properties"]["kind"]["enum"] = [definition.model.__name__]
    root["required"] = sorted({"apiVersion", "kind", "metadata", *root.get("required", ())})
    return json.dumps({"$schema": DRAFT, **root}, indent=1) + "\n"


def write_schemas() -> None:
    """Writes the schema of each kind."""
    for definition in GENERATED:
        path = schema_path(definition)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schema_text(definition), encoding="utf-8")


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a part of a schema without Kubernetes' keywords, closed where it lists its fields."""
    strict = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if "properties" in strict:
        strict["properties"] = {name: _strict(part) for name, part in strict["properties"].items()}
        if "x-kubernetes-preserve-unknown-fields" not in schema:
            strict["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(strict.get(key), dict):
            strict[key] = _strict(strict[key])
    return strict
