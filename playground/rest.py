"""What can be done with objects: read, create, replace, patch, delete; each with admission and dry run."""

import base64
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fedhpa.api.fielderror import invalid
from playground import bodies, defaults, patches, refusals, rules
from playground.definitions import definitions, schema_of
from playground.kinds import NAMESPACES, Kind
from playground.pipeline import Admitter, Attributes, Object, Refusal, Write
from playground.scale import scale_of, scaled
from playground.selecting import selection
from playground.store import Store, count_generation
from playground.watch import shown

# How often a write that asks for no version is done again because somebody else was quicker.
TRIES: Final = 5
# What a client cannot change; written into the object before admission sees it.
_FIXED: Final = ("creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
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

    def _list(self, call: Call) -> Object:
        kind, query = call.kind, call.query
        wanted = selection(kind, query)
        limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
        version, start = self._version(query), ""
        if query.get("continue"):
            version, start = _read_token(query["continue"])
        try:
            found = self.store.at(kind.collection, version, call.namespace)
        except Refusal as error:
            raise refusals.expired(EXPIRED_CONTINUE) if start else error from error
        items = [obj for obj in found if _key(obj) > start and wanted(obj)]
        metadata: Object = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            metadata["continue"] = _token(version, _key(items[limit - 1]))
            if wanted.everything:
                metadata["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        for obj in items:
            if kind.custom:
                obj["apiVersion"] = kind.api_version
            else:
                del obj["kind"], obj["apiVersion"]
        return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata, "items": items}

    def _version(self, query: Mapping[str, str]) -> int:
        """The version to list at: the newest, unless a certain one is asked for."""
        asked = int(query.get("resourceVersion") or 0)
        if asked > self.store.version:
            text = f"Too large resource version: {asked}, current: {self.store.version}"
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            details = {"causes": causes, "retryAfterSeconds": 1}
            raise Refusal(504, "Timeout", f"Timeout: {text}", details=details, headers={"Retry-After": "1"})
        return asked if query.get("resourceVersionMatch") == "Exact" else self.store.version

    # -- creating --------------------------------------------------------------------------------------
    def _object(self, call: Call) -> Object:
        return bodies.object_of(call.body, call.content_type, call.kind, call.directive, call.warnings.append)

    async def _create(self, call: Call, obj: Object) -> Object:
        kind, metadata = call.kind, obj["metadata"]
        _check_namespace(metadata, call.namespace)
        if metadata.pop("resourceVersion", ""):
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
        gone = self.store.delete(kind.collection, call.namespace, at.name, dry_run=dry_run)
        if kind.gives_deleted or "deletionTimestamp" in gone["metadata"]:
            return shown(kind, gone)
        details = {"name": at.name, "group": kind.group, "kind": kind.plural, "uid": gone["metadata"]["uid"]}
        if not kind.group:
            del details["group"]
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return {**status, "details": details}

    async def _delete_collection(self, call: Call) -> Object:
        found = self._list(call)
        for obj in found["items"]:
            await self._delete(call.named(obj))
        return found


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _token(version: int, last: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((version, last))).decode()


def _read_token(token: str) -> tuple[int, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str])
    except (ValueError, msgspec.DecodeError) as error:
        raise refusals.bad_request(f"continue key is not valid: {error}") from error


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
