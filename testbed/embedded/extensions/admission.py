"""Admission webhooks: selects the registered webhooks of a write and applies their verdicts.

Follows k8s.io/apiserver 0.36, admission/plugin/webhook, without conversion between versions (matchPolicy),
reinvocation, Services in clientConfig, and CEL: a webhook is called even if its matchConditions are false.
"""

import asyncio
import uuid
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import aiohttp
import msgspec

from fedhpa.api.selectors import selector_of
from testbed.embedded.api import statuses
from testbed.embedded.api.patches import json_patch
from testbed.embedded.api.types import Attributes, Object, StatusError, Validate, Write
from testbed.embedded.auth.authentication import user_info
from testbed.embedded.extensions.outgoing import Outgoing, Unreachable, ca_bundle, go_words
from testbed.embedded.network.pki import client_context
from testbed.embedded.storage.store import Collection, Store

GROUP = "admissionregistration.k8s.io"
MUTATING: Collection = (GROUP, "mutatingwebhookconfigurations")
VALIDATING: Collection = (GROUP, "validatingwebhookconfigurations")
DEFAULT_SECONDS: Final = 10
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, */*"}


class Admission:
    """Calls the webhooks that are registered when a write arrives."""

    def __init__(self, store: Store, outgoing: Outgoing) -> None:
        self._store = store
        self._outgoing = outgoing

    async def admit(self, write: Write, validate: Validate) -> Object | None:
        """Returns the object after all mutating webhooks, `validate`, and all validating webhooks."""
        for hook in self._registered(MUTATING, write):
            if self._selects(hook, write):
                write = replace(write, object=await self._mutated(hook, write))
        if write.object is not None:
            write = replace(write, object=validate(write.object))
        hooks = [hook for hook in self._registered(VALIDATING, write) if self._selects(hook, write)]
        calls = (self._call(hook, write) for hook in hooks)
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
        return write.object

    def _registered(self, collection: Collection, write: Write) -> Iterator[Object]:
        # Registrations are exempt. Otherwise a broken webhook could not be removed.
        exempt = write.attributes.group == GROUP
        for configuration in [] if exempt else self._store.list(collection):
            yield from configuration.get("webhooks") or ()

    def _selects(self, hook: Object, write: Write) -> bool:
        objects = [obj for obj in (write.object, write.old) if obj is not None]
        selector = selector_of(hook.get("objectSelector") or {})
        return (
            any(_rule_matches(rule, write) for rule in hook.get("rules") or ())
            and any(selector.matches(obj["metadata"].get("labels")) for obj in objects)
            and self._selects_namespace(hook, write)
        )

    def _selects_namespace(self, hook: Object, write: Write) -> bool:
        selector = selector_of(hook.get("namespaceSelector") or {})
        if not selector.requirements or not write.attributes.namespace:
            return True
        namespace = self._store.get(("", "namespaces"), "", write.attributes.namespace)
        return selector.matches(namespace["metadata"].get("labels"))

    async def _mutated(self, hook: Object, write: Write) -> Object | None:
        patch = (await self._call(hook, write)).get("patch")
        if not patch or write.object is None:
            return write.object
        try:
            return json_patch(write.object, patch)
        except StatusError as error:
            raise statuses.internal(str(error)) from error

    async def _call(self, hook: Object, write: Write) -> Object:
        """Returns the webhook's response, or {} for an ignored failure. Raises StatusError."""
        name = hook["name"]
        try:
            response = await call_webhook(self._outgoing, hook, write)
        except Unreachable as error:
            if hook.get("failurePolicy") == "Ignore":
                return {}
            raise statuses.internal(f'failed calling webhook "{name}": {error}') from error
        for warning in response.get("warnings") or ():
            write.warn(warning)
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or {})
        return response


def _rule_matches(rule: Object, write: Write) -> bool:
    attributes = write.attributes
    wanted = {
        "operations": write.operation,
        "apiGroups": attributes.group,
        "apiVersions": attributes.version,
    }
    return all({"*", value} & set(rule.get(key) or ()) for key, value in wanted.items()) and any(
        _resource_matches(resource, attributes) for resource in rule.get("resources") or ()
    )


def _resource_matches(resource: str, attributes: Attributes) -> bool:
    plural, _, subresource = resource.partition("/")
    return plural in ("*", attributes.resource) and subresource in ("*", attributes.subresource)


def _denied(name: str, status: Object) -> StatusError:
    """k8s.io/apiserver, admission/plugin/webhook/errors."""
    reason = status.get("reason") or ""
    why = status.get("message") or reason
    text = f'admission webhook "{name}" denied the request' + (f": {why}" if why else " without explanation")
    code = status.get("code") or 0
    return StatusError(code if code >= 400 else 400, reason, text, details=status.get("details"))


# -- one call -------------------------------------------------------------------------------------------


async def call_webhook(outgoing: Outgoing, hook: Object, write: Write) -> Object:
    """Returns the response in the webhook's AdmissionReview, its patch decoded. Raises Unreachable."""
    review = _review(write)
    config, seconds = hook["clientConfig"], hook.get("timeoutSeconds") or DEFAULT_SECONDS
    url = f"{config.get('url')}?timeout={seconds}s"
    try:
        call = outgoing.session.post(
            url,
            data=msgspec.json.encode(review),
            headers=_HEADERS,
            ssl=client_context(ca_bundle(config)),
            allow_redirects=False,
        )
        async with asyncio.timeout(seconds), call as answer:
            status, body = answer.status, await answer.read()
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unreachable(f'failed to call webhook: Post "{url}": {go_words(error)}') from error
    if status >= 300:
        raise Unreachable(f"failed to call webhook: an error on the server: HTTP {status}")
    return _response(review["request"]["uid"], body)


def _review(write: Write) -> Object:
    attributes = write.attributes
    group_version = {"group": attributes.group, "version": attributes.version}
    kind = {**group_version, "kind": write.kind}
    if write.kind == "Scale":
        kind |= {"group": "autoscaling", "version": "v1"}
    resource = {**group_version, "resource": attributes.resource}
    options: Object = {"kind": f"{write.operation.title()}Options", "apiVersion": "meta.k8s.io/v1"}
    if write.dry_run:
        options["dryRun"] = ["All"]
    place = {
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
        "name": attributes.name or (write.object or {}).get("metadata", {}).get("name"),
        "namespace": attributes.namespace,
    }
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **{key: value for key, value in place.items() if value},
        "operation": write.operation,
        "userInfo": user_info(attributes.user),
        "object": write.object,
        "oldObject": write.old,
        "dryRun": write.dry_run,
        "options": options,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _response(uid: str, body: bytes) -> Object:
    """Returns the response of an AdmissionReview. Raises Unreachable if it is malformed."""
    try:
        response = msgspec.json.decode(body, type=dict)["response"]
        if response["uid"] != uid:
            raise ValueError("it answers another request")
        patch = msgspec.json.decode(b64decode(response.get("patch") or "bnVsbA=="), type=list | None)
    except (msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
        raise Unreachable(f"received invalid webhook response: {error}") from error
    return {**response, "patch": patch}
