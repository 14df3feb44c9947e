"""What can be done with objects: read, create, replace, patch, delete; each with admission and dry run."""

import base64
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fedhpa.api.fielderror import forbidden, invalid
from playground import bodies, builtins, patches, refusals
from playground.definitions import definitions, schema_of
from playground.kinds import NAMESPACES, Kind
from playground.pipeline import Admitter, Attributes, Object, Refusal, Write
from playground.scale import scale_of, scaled
from playground.selecting import selection
from playground.store import Store
from playground.watch import shown

# How often a write that asks for no version is done again because somebody else was quicker.
TRIES: Final = 5
# What a client cannot change; written into the object before admission sees it.
_FIXED: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
EXPIRED_CONTINUE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class AdmitAll:
    """Admission without webhooks."""

    async def admit(self, write: Write, validate: Callable[[Object], Object]) -> Object | None:
        """The object if it is valid."""
        return None if write.object is None else validate(write.object)


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
    def dry_run(self) -> bool:
        """Whether nothing is to be stored."""
        return bool(self.query.get("dryRun"))

    @property
    def directive(self) -> str:
        """What to do about unknown fields."""
        return self.query.get("fieldValidation") or "Warn"


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
                return 200, self._list(call)
            case "create":
                return 201, await self._create(call)
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
        at, kind = call.attributes, call.kind
        obj = shown(kind, self.store.get(kind.collection, _namespace(call), at.name))
        return scale_of(kind, obj) if at.subresource == "scale" else obj

    def _list(self, call: Call) -> Object:
        kind, query = call.kind, call.query
        wanted = selection(kind, query)
        limit = int(query.get("limit") or 0)
        version, start = self.store.version, ("", "")
        if query.get("continue"):
            version, start = _read_token(query["continue"])
        try:
            found = self.store.at(kind.collection, version, _namespace(call))
        except Refusal as error:
            raise refusals.expired(EXPIRED_CONTINUE) from error
        items = [obj for obj in found if _key(obj) > start and wanted(obj)]
        metadata: Object = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            metadata["continue"] = _token(version, _key(items[limit - 1]))
            if wanted.everything:
                metadata["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        if kind.custom:
            items = [shown(kind, obj) for obj in items]
        else:
            for obj in items:
                del obj["kind"], obj["apiVersion"]
        return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata, "items": items}

    # -- creating --------------------------------------------------------------------------------------
    async def _create(self, call: Call) -> Object:
        kind = call.kind
        obj = bodies.object_of(call.body, call.content_type, kind, call.directive, call.warnings.append)
        return await self._created(call, obj)

    async def _created(self, call: Call, obj: Object) -> Object:
        kind, metadata = call.kind, obj["metadata"]
        _place(metadata, _namespace(call))
        if metadata.pop("resourceVersion", ""):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = self.store.free_name(
                kind.collection, _namespace(call), metadata["generateName"]
            )
        name = metadata.get("name", "")
        namespace = name if kind.collection == NAMESPACES else _namespace(call)
        if kind.namespaced:
            builtins.check_namespace(self.store.find(NAMESPACES, "", namespace), kind, name, namespace)
        at = dataclasses.replace(call.attributes, name=name, namespace=namespace)
        builtins.begin(kind, obj)
        write = Write(at, "CREATE", kind.kind, obj, None, call.dry_run, call.warnings.append)
        admitted = await self.admitter.admit(write, lambda each: bodies.checked(each, kind))
        assert admitted is not None
        return shown(kind, self.store.create(kind.collection, admitted, dry_run=call.dry_run))

    # -- changing --------------------------------------------------------------------------------------
    async def _update(self, call: Call) -> tuple[int, Object]:
        at, kind = call.attributes, call.kind
        if at.subresource == "scale":
            body = bodies.scale(call.body, call.content_type)
        else:
            body = bodies.object_of(call.body, call.content_type, kind, call.directive, call.warnings.append)
        metadata = body.setdefault("metadata", {})
        if metadata.setdefault("name", at.name) != at.name:
            raise refusals.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({at.name})"
            )
        _place(metadata, _namespace(call))
        old = self.store.find(kind.collection, _namespace(call), at.name)
        if old is None and kind.put_creates and not at.subresource:
            return 201, await self._created(call, body)
        asked = metadata.get("resourceVersion") or ""
        if not asked and not kind.unconditional and at.subresource != "scale" and old is not None:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise refusals.invalid(kind.group, kind.plural, at.name, [problem])
        return 200, await self._changed(call, lambda _old: body, conditional=bool(asked))

    async def _patch(self, call: Call) -> Object:
        kind = call.kind
        is_scale = call.attributes.subresource == "scale"
        definition = definitions()[bodies.SCALE] if is_scale else schema_of(kind)

        def patched(old: Object) -> Object:
            new = patches.apply_patch(kind, definition, old, call.content_type, call.body)
            if is_scale:
                return bodies.checked_scale(new)
            return bodies.known(new, kind, call.directive, call.warnings.append)

        return await self._changed(call, patched, conditional=False)

    async def _changed(self, call: Call, make: Callable[[Object], Object], *, conditional: bool) -> Object:
        """Write what `make` makes of the present object; anew if it changed meanwhile and nobody minds."""
        kind, at = call.kind, call.attributes
        for attempt in range(1, TRIES + 1):
            old = shown(kind, self.store.get(kind.collection, _namespace(call), at.name))
            seen = scale_of(kind, old) if at.subresource == "scale" else old
            new = make(seen)
            explicit = conditional or new["metadata"].get("resourceVersion") not in (
                None,
                "",
                old["metadata"]["resourceVersion"],
            )
            try:
                return await self._replaced(call, old, seen, new, explicit=explicit)
            except Refusal as refusal:
                if refusal.reason != "Conflict" or explicit or attempt == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _replaced(
        self, call: Call, old: Object, seen: Object, new: Object, *, explicit: bool
    ) -> Object:
        kind, at = call.kind, call.attributes
        version = old["metadata"]["resourceVersion"]
        asked = new["metadata"].get("resourceVersion") if explicit else version
        _fix(new, old)
        if at.subresource == "status":
            new = {**old, "status": new.get("status")} if "status" in new else _without(old, "status")
        elif not at.subresource and "status" in kind.subresources:
            new = {**_without(new, "status"), **({"status": old["status"]} if "status" in old else {})}
        new["metadata"]["resourceVersion"] = asked

        def validate(each: Object) -> Object:
            if asked != version:
                raise refusals.conflict(kind.group, kind.plural, at.name)
            if at.subresource == "scale":
                return each
            kept = bodies.checked(each, kind)
            _check_finalizers(kind, old["metadata"], kept["metadata"])
            return kept

        name = "Scale" if at.subresource == "scale" else kind.kind
        write = Write(at, "UPDATE", name, new, seen, call.dry_run, call.warnings.append)
        admitted = await self.admitter.admit(write, validate)
        assert admitted is not None
        whole = scaled(kind, old, admitted) if at.subresource == "scale" else admitted
        if at.subresource != "scale":
            _fix(whole, old)
        whole["metadata"] = {**whole["metadata"], "resourceVersion": version}
        stored = shown(kind, self.store.update(kind.collection, whole, dry_run=call.dry_run))
        return scale_of(kind, stored) if at.subresource == "scale" else stored

    # -- deleting --------------------------------------------------------------------------------------
    async def _delete(self, call: Call) -> Object:
        options = bodies.decode(call.body, call.content_type, "DeleteOptions") if call.body else {}
        at, kind = call.attributes, call.kind
        old = self.store.get(kind.collection, _namespace(call), at.name)
        dry_run = call.dry_run or bool(options.get("dryRun"))
        write = Write(at, "DELETE", kind.kind, None, shown(kind, old), dry_run, call.warnings.append)
        await self.admitter.admit(write, lambda each: each)
        conditions = options.get("preconditions") or {}
        gone = self.store.delete(
            kind.collection,
            _namespace(call),
            at.name,
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
            dry_run=dry_run,
        )
        if kind.gives_deleted or "deletionTimestamp" in gone["metadata"]:
            return shown(kind, gone)
        details = {"name": at.name, "group": kind.group, "kind": kind.plural, "uid": gone["metadata"]["uid"]}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }

    async def _delete_collection(self, call: Call) -> Object:
        found = self._list(call)
        for obj in found["items"]:
            metadata = obj["metadata"]
            at = dataclasses.replace(
                call.attributes, name=metadata["name"], namespace=metadata.get("namespace", "")
            )
            await self._delete(dataclasses.replace(call, attributes=at))
        return found


def _namespace(call: Call) -> str:
    return call.attributes.namespace if call.kind.namespaced else ""


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _token(version: int, last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((version, last))).decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, tuple[str, str]])
    except (ValueError, msgspec.DecodeError) as error:
        raise refusals.bad_request(f"continue key is not valid: {error}") from error


def _place(metadata: Object, namespace: str) -> None:
    if metadata.get("namespace", namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace


def _fix(new: Object, old: Object) -> None:
    """What a client cannot change. A uid that is given must be that of the object."""
    metadata, kept = new["metadata"], old["metadata"]
    for name in _FIXED:
        if name == "uid" and metadata.get("uid"):
            continue
        metadata.pop(name, None)
        if name in kept:
            metadata[name] = kept[name]


def _without(obj: Object, name: str) -> Object:
    return {key: value for key, value in obj.items() if key != name}


def _check_finalizers(kind: Kind, old: Object, new: Object) -> None:
    added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if added and "deletionTimestamp" in old:
        names = ", ".join(f'"{name}"' for name in added)
        detail = (
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{names}}}"
        )
        raise refusals.invalid(kind.group, kind.kind, old["name"], [forbidden("metadata.finalizers", detail)])
