"""What can be done with objects: read, create, replace, patch, delete; each with admission and dry run."""

import dataclasses
from collections.abc import Callable
from typing import Final

from fedhpa.api.fielderror import invalid
from testbed.embedded.api import bodies, patches
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.calls import Call
from testbed.embedded.api.lists import listed
from testbed.embedded.api.scale import scale_of, scaled
from testbed.embedded.api.types import Admitter, Object, Refusal, Write
from testbed.embedded.api.watches import shown
from testbed.embedded.objects import defaults, rules
from testbed.embedded.objects.definitions import definitions, schema_of
from testbed.embedded.objects.kinds import NAMESPACES, Kind
from testbed.embedded.storage.store import Store, count_generation

# How often a write that asks for no version is done again because somebody else was quicker.
TRIES: Final = 5
# What a client cannot change; written into the object before admission sees it.
_FIXED: Final = ("creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class AdmitAll:
    """Admission without webhooks."""

    async def admit(self, write: Write, validate: Callable[[Object], Object]) -> Object | None:
        """The object if it is valid."""
        return None if write.object is None else validate(write.object)


class Resources:
    """The objects of one store as requests see them."""

    def __init__(self, store: Store, admitter: Admitter | None = None) -> None:
        self.store = store
        self.admitter: Admitter = admitter or AdmitAll()

    async def answer(self, call: Call) -> tuple[int, Object]:
        """The status and the body of the answer to anything but a watch. Refusal."""
        match call.attributes.verb:
            case "get":
                return 200, self._get(call)
            case "list":
                return 200, listed(self.store, call)
            case "create":
                return 201, await self._create(call, self._object(call))
            case "update":
                return await self._update(call)
            case "patch":
                return 200, await self._patch(call)
            case "delete":
                return 200, await self._delete(call)
            case _:
                return 200, await self._delete_collection(call)

    # -- reading ---------------------------------------------------------------------------------------
    def _get(self, call: Call) -> Object:
        obj = self._stored(call)
        return scale_of(call.kind, obj, must_be=True) if call.is_scale else obj

    def _stored(self, call: Call) -> Object:
        return shown(call.kind, self.store.get(call.kind.collection, call.namespace, call.attributes.name))

    # -- creating --------------------------------------------------------------------------------------
    def _object(self, call: Call) -> Object:
        return bodies.object_of(call.body, call.content_type, call.kind, call.directive, call.warnings.append)

    async def _create(self, call: Call, obj: Object) -> Object:
        kind, metadata = call.kind, obj["metadata"]
        _check_namespace(metadata, call.namespace)
        if metadata.pop("resourceVersion", "") not in ("", "0"):
            raise refusals.plain("resourceVersion should not be set on objects to be created")
        if metadata.get("generateName") and not metadata.get("name"):
            prefix = metadata["generateName"]
            metadata["name"] = self.store.free_name(kind.collection, call.namespace, prefix)
        name = metadata.get("name", "")
        namespace = name if kind.collection == NAMESPACES else call.namespace
        if kind.namespaced:
            rules.check_namespace(self.store.find(NAMESPACES, "", namespace), kind, name, namespace)
        defaults.begin(kind, obj)
        at = dataclasses.replace(call.attributes, name=name, namespace=namespace)

        def validate(each: Object) -> Object:
            kept = bodies.checked(each, kind)
            self.store.identify(kind.collection, kept["metadata"])
            return kept

        write = Write(at, "CREATE", kind.kind, obj, None, call.dry_run, call.warnings.append)
        admitted = await self.admitter.admit(write, validate)
        assert admitted is not None
        stored = self.store.create(kind.collection, admitted, identified=True, dry_run=call.dry_run)
        return shown(kind, stored)

    # -- changing --------------------------------------------------------------------------------------
    async def _update(self, call: Call) -> tuple[int, Object]:
        at, kind = call.attributes, call.kind
        if call.is_scale:
            body = bodies.checked_scale(bodies.decode(call.body, call.content_type, "Scale"))
        else:
            body = self._object(call)
        _check_name(body.setdefault("metadata", {}), call)
        asked, uid = body["metadata"].get("resourceVersion"), body["metadata"].get("uid")
        old = self.store.find(kind.collection, call.namespace, at.name)
        if old is None and kind.put_creates and not at.subresource:
            return 201, await self._create(call, body)
        if old is not None and uid not in (None, old["metadata"]["uid"]):
            there = old["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}"
            raise refusals.conflict(kind.group, kind.plural, at.name, why)
        if not asked and not kind.unconditional and not call.is_scale and old is not None:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise refusals.invalid(kind.group, kind.plural, at.name, [problem])
        return 200, await self._change(call, lambda _old: body, conditional=bool(asked))

    async def _patch(self, call: Call) -> Object:
        kind = call.kind
        definition = definitions()[bodies.SCALE] if call.is_scale else schema_of(kind)

        def patched(old: Object) -> Object:
            new = patches.apply_patch(kind, definition, old, call.content_type, call.body)
            if call.is_scale:
                new = bodies.checked_scale(new)
            else:
                new = bodies.patched(new, kind, call.directive, call.warnings.append)
            _check_name(new["metadata"], call)
            return new

        return await self._change(call, patched, conditional=False)

    async def _change(self, call: Call, make: Callable[[Object], Object], *, conditional: bool) -> Object:
        """Write what `make` makes of the present object; anew if it changed meanwhile and nobody minds."""
        for attempt in range(1, TRIES + 1):
            old = self._stored(call)
            seen = scale_of(call.kind, old) if call.is_scale else old
            made = make(seen)
            # What is shared with the old object must not be written into.
            new = {**made, "metadata": {**made["metadata"]}}
            version = old["metadata"]["resourceVersion"]
            explicit = conditional or new["metadata"].get("resourceVersion") not in (None, "", version)
            if not explicit:
                new["metadata"]["resourceVersion"] = version
            try:
                return await self._replace(call, old, seen, new)
            except Refusal as refusal:
                if refusal.reason != "Conflict" or explicit or attempt == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _replace(self, call: Call, old: Object, seen: Object, new: Object) -> Object:
        kind, at = call.kind, call.attributes
        asked, version = new["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]
        if at.subresource == "status":
            new = {**_with_status_of(old, new), "metadata": {**old["metadata"], "resourceVersion": asked}}
        elif not call.is_scale:
            _fix(new["metadata"], old["metadata"])
            if "status" in kind.subresources:
                new = _with_status_of(new, old)

        def validate(each: Object) -> Object:
            if asked != version:
                raise refusals.conflict(kind.group, kind.plural, at.name)
            if call.is_scale:
                return each
            kept = bodies.checked(each, kind, old)
            count_generation(kind.collection, kept, old)
            return kept

        name = "Scale" if call.is_scale else kind.kind
        write = Write(at, "UPDATE", name, new, seen, call.dry_run, call.warnings.append)
        admitted = await self.admitter.admit(write, validate)
        assert admitted is not None
        whole = scaled(kind, old, admitted) if call.is_scale else admitted
        whole = {**whole, "metadata": {**whole["metadata"], "resourceVersion": version}}
        stored = shown(kind, self.store.update(kind.collection, whole, dry_run=call.dry_run))
        return scale_of(kind, stored) if call.is_scale else stored

    # -- deleting --------------------------------------------------------------------------------------
    async def _delete(self, call: Call) -> Object:
        options = bodies.decode(call.body, call.content_type, "DeleteOptions") if call.body else {}
        at, kind = call.attributes, call.kind
        old = self._stored(call)
        _check_preconditions(kind, old["metadata"], options.get("preconditions") or {})
        dry_run = call.dry_run or bool(options.get("dryRun"))
        write = Write(at, "DELETE", kind.kind, None, old, dry_run, call.warnings.append)
        await self.admitter.admit(write, lambda each: each)
        _check_preconditions(kind, self._stored(call)["metadata"], options.get("preconditions") or {})
        gone = self.store.delete(kind.collection, call.namespace, at.name, dry_run=dry_run)
        if kind.gives_deleted or "deletionTimestamp" in gone["metadata"]:
            return shown(kind, gone)
        details = {"name": at.name, "group": kind.group, "kind": kind.plural, "uid": gone["metadata"]["uid"]}
        if not kind.group:
            del details["group"]
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return {**status, "details": details}

    async def _delete_collection(self, call: Call) -> Object:
        found = listed(self.store, call)
        for obj in found["items"]:
            await self._delete(call.named(obj))
        return found


def _check_namespace(metadata: Object, namespace: str) -> None:
    if metadata.get("namespace", namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace


def _check_name(metadata: Object, call: Call) -> None:
    wanted, name = call.attributes.name, metadata.get("name")
    if not name:
        raise refusals.bad_request(
            f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )
    if name != wanted:
        raise refusals.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        )
    _check_namespace(metadata, call.namespace)


def _check_preconditions(kind: Kind, stored: Object, asked: Object) -> None:
    for field_, word, what in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if asked.get(field_) not in (None, stored[field_]):
            why = (
                f"the {word} in the precondition ({asked[field_]}) does not match the {word} in record "
                f"({stored[field_]}). The object might have been {what}"
            )
            # Here Kubernetes names the kind, not the resource.
            raise refusals.conflict(kind.group, kind.kind, stored["name"], why)


def _fix(metadata: Object, kept: Object) -> None:
    for name in _FIXED:
        metadata.pop(name, None)
        if name in kept:
            metadata[name] = kept[name]
    metadata.setdefault("uid", kept["uid"])


def _with_status_of(obj: Object, other: Object) -> Object:
    found = {name: value for name, value in obj.items() if name != "status"}
    return {**found, "status": other["status"]} if "status" in other else found
