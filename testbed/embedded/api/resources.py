"""The verbs on stored objects: get, list, create, update, patch, delete."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from fedhpa.api.fielderror import invalid
from fedhpa.api.selectors import selector_of
from testbed.embedded.api import bodies, patches, statuses
from testbed.embedded.api.lists import list_objects
from testbed.embedded.api.requests import ResourceRequest
from testbed.embedded.api.types import Admit, Object, StatusError, Validate, Write
from testbed.embedded.api.watches import with_type
from testbed.embedded.objects.kinds import NAMESPACES, Kind
from testbed.embedded.storage.store import Store, count_generation

# Attempts of a write that names no version and meets a concurrent write.
TRIES: Final = 5
_SCALE_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
# Fields that a client cannot change; admission sees the stored values.
_FIXED: Final = ("creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


async def admit_all(write: Write, validate: Validate) -> Object | None:
    """Admission without webhooks."""
    return None if write.object is None else validate(write.object)


class Resources:
    """Runs requests against one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.admit: Admit = admit_all

    async def answer(self, request: ResourceRequest) -> tuple[int, Object]:
        """Returns the HTTP status and the body for every verb but watch. Raises StatusError."""
        match request.attributes.verb:
            case "get":
                return 200, self._get(request)
            case "list":
                return 200, list_objects(self.store, request)
            case "create":
                return 201, await self._create(request)
            case "update":
                return 200, await self._update(request)
            case "patch":
                return 200, await self._patch(request)
            case "delete":
                return 200, await self._delete(request)
            case _:
                raise statuses.method_not_allowed()

    def _get(self, request: ResourceRequest) -> Object:
        obj = self._stored(request)
        return scale_of(request.kind, obj) if request.is_scale else obj

    def _stored(self, request: ResourceRequest) -> Object:
        kind = request.kind
        return with_type(kind, self.store.get(kind.collection, request.namespace, request.attributes.name))

    def _body(self, request: ResourceRequest) -> Object:
        return bodies.read_object(request.body, request.content_type, request.kind)

    # -- create ----------------------------------------------------------------------------------------
    async def _create(self, request: ResourceRequest) -> Object:
        kind, obj = request.kind, self._body(request)
        metadata = obj["metadata"]
        _set_namespace(metadata, request.namespace)
        metadata.pop("resourceVersion", None)
        if metadata.get("generateName") and not metadata.get("name"):
            prefix = metadata["generateName"]
            metadata["name"] = self.store.free_name(kind.collection, request.namespace, prefix)
        name = metadata.get("name", "")
        namespace = name if kind.collection == NAMESPACES else request.namespace
        if kind.namespaced:
            self._check_namespace(kind, name, namespace)
        bodies.begin(kind, obj)

        def validate(each: Object) -> Object:
            kept = bodies.validated(each, kind)
            self.store.identify(kind.collection, kept["metadata"])
            return kept

        attributes = dataclasses.replace(request.attributes, name=name, namespace=namespace)
        write = Write(attributes, "CREATE", kind.kind, obj, None, request.dry_run, request.warnings.append)
        admitted = await self.admit(write, validate)
        assert admitted is not None
        stored = self.store.create(kind.collection, admitted, identified=True, dry_run=request.dry_run)
        return with_type(kind, stored)

    def _check_namespace(self, kind: Kind, name: str, wanted: str) -> None:
        """Raises StatusError if the namespace is absent or Terminating."""
        namespace = self.store.get(NAMESPACES, "", wanted)
        if namespace["status"]["phase"] == "Terminating":
            why = f"unable to create new content in namespace {wanted} because it is being terminated"
            raise statuses.forbidden(kind.group, kind.plural, name, why)

    # -- update and patch ------------------------------------------------------------------------------
    async def _update(self, request: ResourceRequest) -> Object:
        if request.is_scale:
            body = bodies.decode(request.body, request.content_type, "Scale")
        else:
            body = self._body(request)
        _check_name(body.setdefault("metadata", {}), request)
        conditional = bool(body["metadata"].get("resourceVersion"))
        return await self._change(request, lambda _old: body, conditional=conditional)

    async def _patch(self, request: ResourceRequest) -> Object:
        kind = request.kind
        patches.check_type(kind, request.content_type)

        def patched(old: Object) -> Object:
            new = patches.apply_patch(old, request.content_type, request.body)
            if not request.is_scale:
                bodies.check_kind(new, kind)
                new = bodies.pruned(new, kind)
            _check_name(new.setdefault("metadata", {}), request)
            return new

        return await self._change(request, patched, conditional=False)

    async def _change(
        self, request: ResourceRequest, make: Callable[[Object], Object], *, conditional: bool
    ) -> Object:
        """Stores what `make` returns for the current object; retries conflicts of unconditional writes."""
        for attempt in range(1, TRIES + 1):
            old = self._stored(request)
            visible = scale_of(request.kind, old) if request.is_scale else old
            made = make(visible)
            # The metadata may be shared with the old object.
            new = {**made, "metadata": {**made["metadata"]}}
            version = old["metadata"]["resourceVersion"]
            explicit = conditional or new["metadata"].get("resourceVersion") not in (None, "", version)
            if not explicit:
                new["metadata"]["resourceVersion"] = version
            try:
                return await self._replace(request, old, visible, new)
            except StatusError as error:
                if error.reason != "Conflict" or explicit or attempt == TRIES:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _replace(self, request: ResourceRequest, old: Object, visible: Object, new: Object) -> Object:
        kind, attributes = request.kind, request.attributes
        wanted, version = new["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]
        if attributes.subresource == "status":
            new = {**_with_status_of(old, new), "metadata": {**old["metadata"], "resourceVersion": wanted}}
        elif not request.is_scale:
            _keep_fixed(new["metadata"], old["metadata"])
            if "status" in kind.subresources:
                new = _with_status_of(new, old)

        def validate(each: Object) -> Object:
            if wanted != version:
                raise statuses.conflict(kind.group, kind.plural, attributes.name)
            if request.is_scale:
                return each
            kept = bodies.validated(each, kind)
            count_generation(kind.collection, kept, old)
            return kept

        name = "Scale" if request.is_scale else kind.kind
        write = Write(attributes, "UPDATE", name, new, visible, request.dry_run, request.warnings.append)
        admitted = await self.admit(write, validate)
        assert admitted is not None
        whole = with_scale(kind, old, admitted) if request.is_scale else admitted
        whole = {**whole, "metadata": {**whole["metadata"], "resourceVersion": version}}
        stored = with_type(kind, self.store.update(kind.collection, whole, dry_run=request.dry_run))
        return scale_of(kind, stored) if request.is_scale else stored

    # -- delete ----------------------------------------------------------------------------------------
    async def _delete(self, request: ResourceRequest) -> Object:
        options = bodies.decode(request.body, request.content_type, "DeleteOptions") if request.body else {}
        kind, attributes = request.kind, request.attributes
        dry_run = request.dry_run or bool(options.get("dryRun"))
        old = self._stored(request)
        write = Write(attributes, "DELETE", kind.kind, None, old, dry_run, request.warnings.append)
        await self.admit(write, lambda each: each)
        deleted = self.store.delete(kind.collection, request.namespace, attributes.name, dry_run=dry_run)
        if "deletionTimestamp" in deleted["metadata"]:
            return with_type(kind, deleted)
        details = {"name": attributes.name, "group": kind.group, "kind": kind.plural}
        details = {key: value for key, value in details.items() if value}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {**details, "uid": deleted["metadata"]["uid"]},
        }


def _set_namespace(metadata: Object, namespace: str) -> None:
    if metadata.get("namespace", namespace) != namespace:
        raise statuses.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace


def _check_name(metadata: Object, request: ResourceRequest) -> None:
    wanted, name = request.attributes.name, metadata.get("name")
    if name != wanted:
        raise statuses.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        )
    _set_namespace(metadata, request.namespace)


def _keep_fixed(metadata: Object, kept: Object) -> None:
    for name in _FIXED:
        metadata.pop(name, None)
        if name in kept:
            metadata[name] = kept[name]
    metadata.setdefault("uid", kept["uid"])


def _with_status_of(obj: Object, other: Object) -> Object:
    found = {name: value for name, value in obj.items() if name != "status"}
    return {**found, "status": other["status"]} if "status" in other else found


# -- the scale subresource ------------------------------------------------------------------------------


def scale_of(kind: Kind, obj: Object) -> Object:
    """Returns the Scale."""
    status: Object = {"replicas": _at(obj, kind.scale["statusReplicasPath"]) or 0}
    selector = _at(obj, kind.scale.get("labelSelectorPath", ""))
    if isinstance(selector, dict):
        selector = str(selector_of(selector))
    if selector:
        status["selector"] = selector
    replicas = _at(obj, kind.scale["specReplicasPath"])
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: obj["metadata"][field] for field in _SCALE_METADATA if field in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def with_scale(kind: Kind, obj: Object, scale: Object) -> Object:
    """Returns the object with the replicas of the Scale. Raises StatusError Invalid."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise statuses.invalid("autoscaling", "Scale", obj["metadata"]["name"], [problem])
    changed = dict(obj)
    *parents, last = kind.scale["specReplicasPath"].strip(".").split(".")
    inner = changed
    for part in parents:
        inner[part] = dict(inner.get(part) or {})
        inner = inner[part]
    inner[last] = replicas
    return changed


def _at(obj: Object, path: str) -> Any:
    value: Any = obj if path else None
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
