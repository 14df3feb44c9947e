"""An emulated Kubernetes API server: lists, watches, reads and writes of the objects in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from benchmarks.world.http import Answer, Request
from benchmarks.world.store import Change, Collection, Kind, Object, Refused, Store

BOOKMARK_SECONDS: Final = 60.0


class Api:
    """Answers the requests to one API server.

    `more` returns the body of a path that is computed, as metrics
    are; None for any other path.
    """

    def __init__(self, store: Store, more: Callable[[str], bytes | None] = lambda _: None) -> None:
        self.store = store
        self._more = more

    def handle(self, request: Request) -> Answer:
        """Returns the answer to a request; a refusal is a Status."""
        try:
            return self._answer(request)
        except Refused as error:
            body = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": error.reason,
                "message": str(error),
                "code": error.status,
            }
            return Answer(error.status, msgspec.json.encode(body))

    def _answer(self, request: Request) -> Answer:
        computed = self._more(request.path)
        if computed is not None:
            return Answer(200, computed)
        root, *parts = request.path.strip("/").split("/")
        if root in ("readyz", "livez", "healthz"):
            return Answer(200, b"ok")
        if root == "version":
            return _json({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
        if root not in ("api", "apis"):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        taken = 1 if root == "api" else 2
        version, rest = "/".join(parts[:taken]), parts[taken:]
        if not rest:
            return self._discovery(root, version)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        collection = self.store.collection(version, rest[0])
        if len(rest) == 1:
            return self._of_collection(request, collection, namespace)
        return self._of_object(request, collection, namespace, rest[1], "/".join(rest[2:]))

    # -- discovery -------------------------------------------------------------------------------------
    def _discovery(self, root: str, version: str) -> Answer:
        kinds = [kind for kind in self.store.versions() if kind.version == version]
        if kinds:
            resources = [entry for kind in kinds for entry in _resources(kind)]
            return _json(
                {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": version,
                    "resources": resources,
                }
            )
        served = {kind.version for kind in self.store.versions()}
        versions = sorted(one for one in served if one.rpartition("/")[0] == version)
        if root == "api" or not version or not versions:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        named = [{"groupVersion": one, "version": one.rpartition("/")[2]} for one in versions]
        group = {"kind": "APIGroup", "apiVersion": "v1", "name": version, "versions": named}
        return _json({**group, "preferredVersion": named[0]})

    # -- collections -----------------------------------------------------------------------------------
    def _of_collection(self, request: Request, collection: Collection, namespace: str) -> Answer:
        if request.method == "POST":
            given = msgspec.json.decode(request.body)
            if collection.kind.namespaced:
                given.setdefault("metadata", {})["namespace"] = namespace
            kind = collection.kind
            return _json(self.store.create(kind.version, kind.plural, given), 201)
        if request.method != "GET":
            raise Refused(405, "MethodNotAllowed", f"{request.method} of a collection is not emulated")
        matches = selected(namespace, request.query)
        if request.query.get("watch") in ("true", "1"):
            return self._watch(request, collection, matches)
        found = [collection.bodies[key] for key, one in collection.objects.items() if matches(one)]
        head = {"kind": f"{collection.kind.kind}List", "apiVersion": collection.kind.version}
        meta = {"resourceVersion": str(self.store.number)}
        begin = msgspec.json.encode({**head, "metadata": meta})[:-1]
        return Answer(200, b'%s,"items":[%s]}' % (begin, b",".join(found)))

    def _watch(self, request: Request, collection: Collection, matches: Callable[[Object], bool]) -> Answer:
        since = int(request.query.get("resourceVersion") or self.store.number)
        seconds = float(request.query.get("timeoutSeconds") or 1800)

        def follow(send: Callable[[bytes], None]) -> Callable[[], None]:
            def tell(change: Change) -> None:
                if matches(change.object):
                    send(b'{"type":"%s","object":%s}' % (change.type.encode(), change.body))

            def mark() -> None:
                kind = collection.kind
                meta = {"resourceVersion": str(self.store.number)}
                marked = {"kind": kind.kind, "apiVersion": kind.version, "metadata": meta}
                send(msgspec.json.encode({"type": "BOOKMARK", "object": marked}))
                timer[0] = loop.call_later(BOOKMARK_SECONDS, mark)

            loop = asyncio.get_running_loop()
            end = self.store.follow(collection, since, tell)
            timer = [loop.call_later(BOOKMARK_SECONDS, mark)]

            def stop() -> None:
                end()
                timer[0].cancel()

            return stop

        return Answer(200, follow=follow, lasts=seconds)

    # -- objects ---------------------------------------------------------------------------------------
    def _of_object(
        self, request: Request, collection: Collection, namespace: str, name: str, part: str
    ) -> Answer:
        kind = collection.kind
        version, plural = kind.version, kind.plural
        found = self.store.find(version, plural, name, namespace)
        if found is None:
            group = version.rpartition("/")[0]
            raise Refused(404, "NotFound", f'{plural}{group and "."}{group} "{name}" not found')
        if request.method == "PUT":
            found = self.store.race(version, plural, found)
        if part == "scale" and kind.scale:
            return self._scale(request, collection, found)
        if part not in ("", "status"):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        match request.method:
            case "GET":
                return Answer(200, collection.bodies[namespace, name])
            case "PUT":
                given = msgspec.json.decode(request.body)
                return _json(self.store.replace(version, plural, given, part=part))
            case "PATCH":
                given = merged(found, msgspec.json.decode(request.body))
                return _json(self.store.replace(version, plural, given, part=part))
            case "DELETE":
                options = msgspec.json.decode(request.body) if request.body else {}
                only = options.get("preconditions") or {}
                return _json(self.store.delete(version, plural, name, namespace, only))
        raise Refused(405, "MethodNotAllowed", f"{request.method} is not emulated")

    def _scale(self, request: Request, collection: Collection, found: Object) -> Answer:
        if request.method == "PUT":
            given = msgspec.json.decode(request.body)
            meta = {**found["metadata"]}
            asked = given["metadata"].get("resourceVersion")
            if asked:
                meta["resourceVersion"] = asked
            spec = {**found["spec"], "replicas": given["spec"].get("replicas", 0)}
            changed = {**found, "metadata": meta, "spec": spec}
            found = self.store.replace(collection.kind.version, collection.kind.plural, changed)
        elif request.method != "GET":
            raise Refused(405, "MethodNotAllowed", f"{request.method} of a scale is not emulated")
        return _json(scale_of(found))


def scale_of(workload: Object) -> Object:
    """Returns the Scale of a workload."""
    meta = workload["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    labels = workload["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": workload["spec"]["replicas"]},
        "status": {"replicas": (workload.get("status") or {}).get("replicas", 0), "selector": selector},
    }


def merged(old: Any, patch: Any) -> Any:
    """Returns an object with a JSON merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def selected(namespace: str, query: Mapping[str, str]) -> Callable[[Object], bool]:
    """Returns what a list or watch asks for: a namespace, labels and fields by equality."""
    labels = _terms(query.get("labelSelector", ""))
    fields = _terms(query.get("fieldSelector", ""))

    def matches(one: Object) -> bool:
        meta = one["metadata"]
        if namespace and meta.get("namespace") != namespace:
            return False
        own = meta.get("labels") or {}
        return all(_holds(own.get(key), sign, value) for key, sign, value in labels) and all(
            _holds(_field(one, key), sign, value) for key, sign, value in fields
        )

    return matches


def _terms(text: str) -> list[tuple[str, str, str]]:
    terms = []
    for term in filter(None, text.split(",")):
        for sign in ("!=", "==", "="):
            if sign in term:
                key, _, value = term.partition(sign)
                terms.append((key, "!=" if sign == "!=" else "=", value))
                break
        else:
            if " " in term:
                raise Refused(400, "BadRequest", f"the selector {text!r} is not emulated")
            terms.append((term.removeprefix("!"), "absent" if term.startswith("!") else "exists", ""))
    return terms


def _holds(found: str | None, sign: str, value: str) -> bool:
    match sign:
        case "=":
            return found == value
        case "!=":
            return found != value
        case "exists":
            return found is not None
    return found is None


def _field(one: Object, path: str) -> str | None:
    found: Any = one
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return None if found is None else str(found)


def _resources(kind: Kind) -> list[Object]:
    first = {
        "name": kind.plural,
        "kind": kind.kind,
        "namespaced": kind.namespaced,
        "verbs": ["get", "list", "watch"],
    }
    if not kind.scale:
        return [first]
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale", "name": f"{kind.plural}/scale"}
    return [first, {**scale, "namespaced": kind.namespaced, "verbs": ["get", "update"]}]


def _json(content: Object, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(content))
