"""The recorded answers of a real API server with the CRD and without the webhook."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fedhpa.admission import crd

PATH = Path(__file__).parents[1] / "data" / "crd_alone.json"
COMMAND = "python -m tests.conformance.layers"

Answers = Mapping[str, list[str]]


def schema_digest() -> str:
    """Returns the digest of the schemas without descriptions, which may change without a new recording."""
    definitions = [
        crd.custom_resource_definition(each) for each in (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
    ]
    schemas = [each["spec"]["versions"][0]["schema"] for each in definitions]
    return hashlib.sha256(yaml.safe_dump(_without_descriptions(schemas)).encode()).hexdigest()


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_descriptions(inner)
            for key, inner in value.items()
            if not (key == "description" and isinstance(inner, str))
        }
    return [_without_descriptions(inner) for inner in value] if isinstance(value, list) else value


def read() -> dict[str, Any]:
    """Returns the recording: `server`, `schema`, and `answers` with the causes of each refusal."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def write(server: str, answers: Answers) -> None:
    """Writes the answers, one object a line."""
    lines = [
        f"  {json.dumps(name)}: {json.dumps(said, ensure_ascii=False)}" for name, said in answers.items()
    ]
    head = {"server": server, "made_by": COMMAND, "schema": schema_digest()}
    text = (
        json.dumps(head, indent=1).removesuffix("\n}")
        + ',\n "answers": {\n'
        + ",\n".join(lines)
        + "\n }\n}\n"
    )
    PATH.write_text(text, encoding="utf-8")
