"""`fedhpa preview`: what applying a changed object would decide now, before it is applied."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli.hub import (
    API_VERSION,
    Context,
    Kubeconfig,
    MetricsVia,
    Namespace,
    Propagation,
    find_object,
    hub_client,
)

if TYPE_CHECKING:
    from fedhpa.decision import Decision
    from fedhpa.kube.client import ApiClient
    from webhook.verdict import Verdict

FEDERATED_HPA = "FederatedHPA"
CRON_FEDERATED_HPA = "CronFederatedHPA"
NOT_BUILT = (
    "rules are not run by this version's controller: nothing would be done; "
    "'fedhpa cron next' shows when a schedule would fire"
)


class Output(StrEnum):
    """How the outcome is printed."""

    TEXT = "text"
    JSON = "json"


class Preview(NamedTuple):
    """What is known of one object of the file. Without decisions it was refused, or is not run."""

    kind: str
    namespace: str
    name: str
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    note: str = ""
    now: Decision | None = None
    then: Decision | None = None
    contested: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """KIND NAMESPACE/NAME."""
        return f"{self.kind} {self.namespace}/{self.name}"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("preview")(preview)


def preview(
    file: Annotated[
        str, typer.Option("-f", "--filename", help="The changed objects; - reads standard input.")
    ],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    propagation: Propagation = "",
    metrics_via: MetricsVia = "",
    output: Annotated[Output, typer.Option("-o", "--output", help="text or json.")] = Output.TEXT,
) -> None:
    """Show what applying changed objects would decide now; nothing is written anywhere."""
    objects = read_objects(file)
    flags = (propagation, metrics_via)
    found = asyncio.run(_previews(objects, namespace, kubeconfig, context, flags))
    if output is Output.JSON:
        typer.echo(json.dumps([to_json(one) for one in found], indent=2))
    else:
        typer.echo("\n".join(to_text(one) for one in found), nl=False)
    if any(one.refusal or one.contested for one in found):
        raise typer.Exit(1)


def read_objects(file: str) -> list[dict[str, Any]]:
    """The FederatedHPAs and CronFederatedHPAs of a YAML or JSON file. ConfigError if there are others."""
    import yaml

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--filename={file}: cannot be read: {error}") from error
    objects: list[Any] = []
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        objects.extend(items if isinstance(items, list) else [document])
    for index, one in enumerate(objects):
        kind = one.get("kind") if isinstance(one, dict) else None
        if kind not in (FEDERATED_HPA, CRON_FEDERATED_HPA):
            raise ConfigError(f"--filename={file}: object {index}: expected {FEDERATED_HPA}, got {kind!r}")
        if not isinstance(one.get("metadata"), dict) or not one["metadata"].get("name"):
            raise ConfigError(f"--filename={file}: object {index}: metadata.name is missing")
    if not objects:
        raise ConfigError(f"--filename={file}: holds no object")
    return objects


def admitted(kind: str, raw: Mapping[str, Any]) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Why admission would refuse the object ("" if it would not), its warnings, and what would be stored."""
    from webhook.review import MUTATE_FEDERATEDHPA, VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA

    stored: dict[str, Any] = json.loads(json.dumps(raw, default=str))  # as it is sent: times are texts
    if kind == FEDERATED_HPA:
        verdict = _judged(MUTATE_FEDERATEDHPA, kind, stored)
        if not verdict.allowed:
            return verdict.message, verdict.warnings, stored
        for operation in verdict.patch:  # each adds a field of an object that is there
            *parents, field = operation["path"].split("/")[1:]
            place = stored
            for parent in parents:
                place = place[parent]
            place[field] = operation["value"]
    path = VALIDATE_FEDERATEDHPA if kind == FEDERATED_HPA else VALIDATE_CRONFEDERATEDHPA
    verdict = _judged(path, kind, stored)
    return ("" if verdict.allowed else verdict.message), verdict.warnings, stored


def _judged(path: str, kind: str, raw: Mapping[str, Any]) -> Verdict:
    """The webhook's verdict on one of its paths."""
    from webhook.review import judge

    request: dict[str, Any] = {"uid": "preview", "operation": "CREATE", "object": raw}
    request = {"uid": "preview", "operation": "CREATE", "object": raw}
    request["kind"] = dict(zip(("group", "version"), API_VERSION.split("/"), strict=True)) | {"kind": kind}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return judge(path, json.dumps(review).encode(), "application/json").verdict


async def _previews(
    objects: list[dict[str, Any]], namespace: str, kubeconfig: str, context: str, flags: tuple[str, str]
) -> list[Preview]:
    async with hub_client(kubeconfig, context) as (hub, usual):
        return [await preview_of(hub, one, namespace or usual, *flags) for one in objects]


async def preview_of(
    hub: ApiClient,
    changed: Mapping[str, Any],
    namespace: str,
    propagation: str = "",
    metrics_via: str = "",
    **clock: Any,
) -> Preview:
    """The preview of one object; `namespace` is its own where it names none. `clock` is for tests."""
    from controller.federatedhpa.one_shot import one_shot_reader, settings_for

    kind, metadata = str(changed["kind"]), changed["metadata"]
    name, namespace = str(metadata["name"]), str(metadata.get("namespace") or namespace)
    changed = {**changed, "metadata": {**metadata, "namespace": namespace}}
    refusal, warnings, changed = admitted(kind, changed)
    found = Preview(kind, namespace, name, refusal, warnings)
    if refusal:
        return found
    if kind == CRON_FEDERATED_HPA:
        return found._replace(note=NOT_BUILT)
    stored = await find_object(hub, namespace, name)
    after = _applied(changed, stored)
    settings = settings_for(stored or after, propagation, metrics_via)
    async with one_shot_reader(hub, settings, **clock) as reader:
        try:
            now = None if stored is None else await reader.read(stored)
            then = await reader.read(after)
        except InvalidObject as error:
            return found._replace(refusal=str(error))
    note = "" if stored is not None else "it does not exist yet: this is its first decision"
    return found._replace(
        note=note,
        now=None if now is None else now.decide(),
        then=then.decide(),
        contested=then.snapshot.contested_by,
    )


def _applied(changed: Mapping[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The object as it would be after the change: its spec, with the identity and status that are stored."""
    if stored is None:
        return {key: value for key, value in changed.items() if key != "status"}
    generation = stored["metadata"].get("generation")
    metadata = {**stored["metadata"]} | ({"generation": generation + 1} if generation else {})
    return {**stored, "spec": changed.get("spec") or {}, "metadata": metadata}


def to_json(found: Preview) -> dict[str, Any]:
    """The preview as data; decisions are of the form that replay prints."""
    from fedhpa.decision import to_json as decision_json

    return {
        "kind": found.kind,
        "namespace": found.namespace,
        "name": found.name,
        "admitted": not found.refusal,
        "message": found.refusal,
        "warnings": list(found.warnings),
        "note": found.note,
        "contestedBy": list(found.contested),
        "now": None if found.now is None else decision_json(found.now),
        "then": None if found.then is None else decision_json(found.then),
    }


def to_text(found: Preview) -> str:
    """The preview for people."""
    from fedhpa.decision import to_text as decision_text

    lines = [found.where]
    if found.refusal:
        lines.append(f"  would be refused: {found.refusal}")
    lines += [f"  warning: {warning}" for warning in found.warnings]
    if found.note:
        lines.append(f"  note: {found.note}")
    lines += [f"  would fight with {other}: remove either" for other in found.contested]
    text = "\n".join(lines) + "\n"
    if found.now is not None:
        text += decision_text(found.now, "now")
    if found.then is not None:
        text += decision_text(found.then, "with the change" if found.now is not None else "at first")
    return text
