"""Admission: which webhooks have a say in a write, in which order, and what becomes of their answers.

After k8s.io/apiserver 0.36, admission/plugin/webhook, without conversion between versions (matchPolicy),
without reinvocation, and without CEL: a webhook with matchConditions is asked as if they held.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

from fedhpa.api.selectors import selector_of
from testbed.embedded.api.patches import json_patch
from testbed.embedded.api.types import Attributes, Object, Refusal, Write
from testbed.embedded.extensions.outgoing import Outgoing, Unreachable
from testbed.embedded.extensions.webhooks import ask
from testbed.embedded.storage.store import Collection, Store

GROUP = "admissionregistration.k8s.io"
MUTATING: Collection = (GROUP, "mutatingwebhookconfigurations")
VALIDATING: Collection = (GROUP, "validatingwebhookconfigurations")


class Admission:
    """The webhooks that are registered at the moment of a write."""

    def __init__(self, store: Store, outgoing: Outgoing) -> None:
        self._store = store
        self._outgoing = outgoing

    async def admit(self, write: Write, validate: Callable[[Object], Object]) -> Object | None:
        """The object to store: mutated in the order of names, completed, and let pass by everybody."""
        for hook in self._registered(MUTATING, write):
            if self._concerns(hook, write):
                write = replace(write, object=await self._mutated(hook, write))
        if write.object is not None:
            write = replace(write, object=validate(write.object))
        hooks = [hook for hook in self._registered(VALIDATING, write) if self._concerns(hook, write)]
        asked = (self._ask(hook, write, mutating=False) for hook in hooks)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
        return write.object

    def _registered(self, collection: Collection, write: Write) -> Iterator[Object]:
        # Or a webhook that does not answer could not be removed.
        exempt = write.attributes.group == GROUP
        for configuration in [] if exempt else self._store.list(collection):
            yield from configuration.get("webhooks") or ()

    def _concerns(self, hook: Object, write: Write) -> bool:
        objects = [obj for obj in (write.object, write.old) if obj is not None]
        selector = selector_of(hook.get("objectSelector") or {})
        return (
            any(_matches(rule, write) for rule in hook.get("rules") or ())
            and any(selector.matches(obj["metadata"].get("labels")) for obj in objects)
            and self._is_in_namespace(hook, write)
        )

    def _is_in_namespace(self, hook: Object, write: Write) -> bool:
        wanted = write.attributes
        selector = selector_of(hook.get("namespaceSelector") or {})
        if not selector.requirements or not (wanted.namespace or _is_namespace(wanted)):
            return True
        if _is_namespace(wanted) and write.object is not None:
            namespace = write.object
        else:
            namespace = self._store.get(("", "namespaces"), "", wanted.namespace or wanted.name)
        return selector.matches(namespace["metadata"].get("labels"))

    async def _mutated(self, hook: Object, write: Write) -> Object | None:
        patch = (await self._ask(hook, write, mutating=True)).get("patch")
        if not patch:
            return write.object
        if write.object is None:
            why = f'admission webhook "{hook["name"]}" attempted to modify the object, which is not supported'
            raise _internal(f"{why} for this operation")
        try:
            return json_patch(write.object, patch)
        except Refusal as error:
            raise _internal(str(error)) from error

    async def _ask(self, hook: Object, write: Write, *, mutating: bool) -> Object:
        """The webhook's response; {} if there is none and that may be. Refusal."""
        name = hook["name"]
        try:
            response = await ask(self._outgoing, hook, write, mutating=mutating)
        except Unreachable as error:
            if hook.get("failurePolicy") == "Ignore":
                return {}
            raise _internal(f'failed calling webhook "{name}": {error}') from error
        for warning in response.get("warnings") or ():
            write.warn(warning)
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or {})
        return response


def _matches(rule: Object, write: Write) -> bool:
    wanted = write.attributes
    scope = "Namespaced" if wanted.namespace and not _is_namespace(wanted) else "Cluster"
    return (
        rule.get("scope", "*") in ("*", scope)
        and bool({"*", write.operation} & set(rule["operations"]))
        and bool({"*", wanted.group} & set(rule["apiGroups"]))
        and bool({"*", wanted.version} & set(rule["apiVersions"]))
        and any(_names(resource, wanted) for resource in rule["resources"])
    )


def _names(resource: str, wanted: Attributes) -> bool:
    plural, _, subresource = resource.partition("/")
    return plural in ("*", wanted.resource) and subresource in ("*", wanted.subresource)


def _is_namespace(wanted: Attributes) -> bool:
    return (wanted.group, wanted.resource) == ("", "namespaces")


def _internal(text: str) -> Refusal:
    details = {"causes": [{"message": text}]}
    return Refusal(500, "InternalError", f"Internal error occurred: {text}", details=details)


def _denied(name: str, status: Object) -> Refusal:
    """k8s.io/apiserver, admission/plugin/webhook/errors."""
    why = status.get("message") or status.get("reason")
    text = f'admission webhook "{name}" denied the request' + (f": {why}" if why else " without explanation")
    code = status.get("code") or 0
    return Refusal(
        code if code >= 400 else 400, status.get("reason") or "", text, details=status.get("details")
    )
