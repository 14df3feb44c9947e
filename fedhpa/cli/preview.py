"""`fedhpa preview` shows the decision that a changed object would lead to, before it is applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.api.texts import for_terminal
from fedhpa.cli.files import read_items
from fedhpa.cli.hub_client import API_VERSION, find_object
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import HubFlags, JsonOrText, MetricsVia, Output, Propagation, with_flags

if TYPE_CHECKING:
    from fedhpa.decision import Decision
    from fedhpa.kube import ApiClient, Clock
    from webhook.admission_review import Verdict

FEDERATED_HPA = "FederatedHPA"
CRON_FEDERATED_HPA = "CronFederatedHPA"
NOT_SIMULATED = "the rules are not simulated here; see what they will do with: fedhpa cron preview -f FILE"


class Preview(NamedTuple):
    """The preview of one object of the file. There is no decision if it is refused, or a CronFederatedHPA."""

    kind: str
    namespace: str
    name: str
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    note: str = ""
    now: Decision | None = None
    then: Decision | None = None
    competitors: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The object as KIND NAMESPACE/NAME."""
        return f"{self.kind} {self.namespace}/{self.name}"


@with_flags()
def preview(
    hub: HubFlags,
    members: MemberFlags,
    file: str,
    propagation: Propagation = "",
    metrics_via: MetricsVia = "",
    output: Output = JsonOrText.TEXT,
) -> None:
    """Show the decision before and after a change of objects; nothing is written.

    Exits 1 if admission would refuse an object, or if another autoscaler scales the same workload.

    Options:
    -f, --filename: YAML or JSON file with the changed objects; - reads standard input.
    """
    objects = read_objects(file)
    flags = (propagation, metrics_via, members.sources())
    found = hub.run(lambda api, namespace: _previews(api, objects, namespace, flags))
    if output is JsonOrText.JSON:
        typer.echo(json.dumps([to_json(one) for one in found], indent=2))
    else:
        typer.echo(for_terminal("\n".join(to_text(one) for one in found)), nl=False)
    if any(one.refusal or one.competitors for one in found):
        raise typer.Exit(1)


def read_objects(file: str) -> list[dict[str, Any]]:
    """Returns the objects of a YAML or JSON file. Raises ConfigError for a kind that is not ours."""
    objects = read_items(file)
    for index, one in enumerate(objects):
        kind = one.get("kind") if isinstance(one, dict) else None
        if kind not in (FEDERATED_HPA, CRON_FEDERATED_HPA):
            expected = f"expected {FEDERATED_HPA} or {CRON_FEDERATED_HPA}, got {kind!r}"
            raise ConfigError(f"--filename={file}: object {index}: {expected}")
        if not isinstance(one.get("metadata"), dict) or not one["metadata"].get("name"):
            raise ConfigError(f"--filename={file}: object {index}: metadata.name is missing")
    if not objects:
        raise ConfigError(f"--filename={file}: has no object")
    return objects


def admitted(
    kind: str, raw: Mapping[str, Any], *, karmada: bool = False
) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Returns admission's refusal ("" if admitted), its warnings, and the object as it would be stored.

    `karmada` is True with --propagation=karmada.
    """
    from webhook.handlers import MUTATE_FEDERATEDHPA, VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA

    stored: dict[str, Any] = json.loads(json.dumps(raw, default=str))  # on the wire, times are strings
    if kind == FEDERATED_HPA:
        verdict = _verdict(MUTATE_FEDERATEDHPA, kind, stored)
        if not verdict.allowed:
            return verdict.message, verdict.warnings, stored
        for operation in verdict.patch:  # each operation adds a field to an existing object
            *parents, field = operation["path"].split("/")[1:]
            place = stored
            for parent in parents:
                place = place[parent]
            place[field] = operation["value"]
    path = VALIDATE_FEDERATEDHPA if kind == FEDERATED_HPA else VALIDATE_CRONFEDERATEDHPA
    verdict = _verdict(path, kind, stored, karmada=karmada)
    return ("" if verdict.allowed else verdict.message), verdict.warnings, stored


def _verdict(path: str, kind: str, raw: Mapping[str, Any], *, karmada: bool = False) -> Verdict:
    """Returns the webhook's verdict on the object."""
    from webhook.handlers import judge

    request: dict[str, Any] = {"uid": "preview", "operation": "CREATE", "object": raw}
    request["kind"] = dict(zip(("group", "version"), API_VERSION.split("/"), strict=True)) | {"kind": kind}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return judge(path, json.dumps(review).encode(), "application/json", karmada=karmada).verdict


async def _previews(
    hub: ApiClient, objects: list[dict[str, Any]], namespace: str, flags: tuple[str, str, MemberSources]
) -> list[Preview]:
    from fedhpa.kube import SYSTEM

    return [await preview_of(hub, one, namespace, *flags, clock=SYSTEM) for one in objects]


async def preview_of(
    hub: ApiClient,
    changed: Mapping[str, Any],
    namespace: str,
    propagation: str = "",
    metrics_via: str = "",
    sources: MemberSources = ONLY_CLUSTERS,
    *,
    clock: Clock,
) -> Preview:
    """Returns the preview of one object. `namespace` is the default."""
    from controller.federatedhpa import one_shot_reader, settings_for
    from controller.flags import KARMADA

    kind, metadata = str(changed["kind"]), changed["metadata"]
    name, namespace = str(metadata["name"]), str(metadata.get("namespace") or namespace)
    changed = {**changed, "metadata": {**metadata, "namespace": namespace}}
    if kind == CRON_FEDERATED_HPA:
        refusal, warnings, _ = admitted(kind, changed)
        return Preview(kind, namespace, name, refusal, warnings, note="" if refusal else NOT_SIMULATED)
    stored = await find_object(hub, namespace, name)
    settings = await settings_for(hub, stored or changed, propagation, metrics_via, sources)
    refusal, warnings, changed = admitted(kind, changed, karmada=settings.propagation == KARMADA)
    found = Preview(kind, namespace, name, refusal, warnings)
    if refusal:
        return found
    after = _applied(changed, stored)
    async with one_shot_reader(hub, settings, clock=clock) as reader:
        try:
            now = None if stored is None else await reader.read(stored)
            then = await reader.read(after)
        except InvalidObject as error:
            return found._replace(refusal=str(error))
    note = "" if stored is not None else "it does not exist yet; this would be its first decision"
    return found._replace(
        note=note,
        now=None if now is None else now.decide(),
        then=then.decide(),
        competitors=then.snapshot.competitors,
    )


def _applied(changed: Mapping[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the object after the change: the new spec with the stored metadata and status."""
    if stored is None:
        return {key: value for key, value in changed.items() if key != "status"}
    generation = stored["metadata"].get("generation")
    metadata = {**stored["metadata"]} | ({"generation": generation + 1} if generation else {})
    own = changed["metadata"].get("annotations")
    if isinstance(own, Mapping):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **own}
    return {**stored, "spec": changed.get("spec") or {}, "metadata": metadata}


def to_json(found: Preview) -> dict[str, Any]:
    """Returns the preview as data; decisions have the form that `fedhpa replay` prints."""
    from fedhpa.decision import to_json as decision_json

    return {
        "kind": found.kind,
        "namespace": found.namespace,
        "name": found.name,
        "admitted": not found.refusal,
        "message": found.refusal,
        "warnings": list(found.warnings),
        "note": found.note,
        "contestedBy": list(found.competitors),
        "now": None if found.now is None else decision_json(found.now),
        "then": None if found.then is None else decision_json(found.then),
    }


def to_text(found: Preview) -> str:
    """Returns the preview as text."""
    from fedhpa.decision import to_text as decision_text

    lines = [found.where]
    if found.refusal:
        lines.append(f"  would be refused: {found.refusal}")
    lines += [f"  warning: {warning}" for warning in found.warnings]
    if found.note:
        lines.append(f"  note: {found.note}")
    lines += [f"  conflicts with {other}: remove one of the two" for other in found.competitors]
    text = "\n".join(lines) + "\n"
    if found.now is not None:
        text += decision_text(found.now, "now")
    if found.then is not None:
        text += decision_text(found.then, "with the change" if found.now is not None else "at first")
    return text
