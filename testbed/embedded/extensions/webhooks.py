"""One call of an admission webhook: the AdmissionReview out, and what counts as an answer."""

import asyncio
import uuid
from base64 import b64decode
from typing import Final

import aiohttp
import msgspec

from testbed.embedded.api.types import Object, Write
from testbed.embedded.auth.authentication import user_info
from testbed.embedded.extensions.outgoing import Outgoing, Unreachable, ca_bundle, server_name, words
from testbed.embedded.network.pki import trusting

DEFAULT_SECONDS: Final = 10
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, */*"}


async def ask(outgoing: Outgoing, hook: Object, write: Write, *, mutating: bool) -> Object:
    """The `response` of the webhook's AdmissionReview, its patch decoded. Unreachable if there is none."""
    review = _review(write)
    config, seconds = hook["clientConfig"], hook.get("timeoutSeconds") or DEFAULT_SECONDS
    service, base, name = config.get("service"), "", None
    if service:
        name = server_name(service)
        base, path = f"https://{name}:{service.get('port') or 443}", service.get("path") or "/"
    else:
        path = config["url"]
    shown = f"{base}{path}?timeout={seconds}s"
    try:
        if service:
            base = outgoing.resolve(service)
        call = outgoing.session.post(
            f"{base}{path}?timeout={seconds}s",
            data=msgspec.json.encode(review),
            headers=_HEADERS,
            ssl=trusting(ca_bundle(config)),
            server_hostname=name,
            allow_redirects=False,
        )
        async with asyncio.timeout(seconds), call as answer:
            status, body = answer.status, await answer.read()
    except (aiohttp.ClientError, OSError, ValueError, Unreachable) as error:
        raise Unreachable(f'failed to call webhook: Post "{shown}": {words(error)}') from error
    if status >= 300:
        raise Unreachable(f"failed to call webhook: {_unsuccessful(status, body)}")
    return _verified(review["request"]["uid"], body, mutating=mutating)


def _review(write: Write) -> Object:
    wanted = write.attributes
    kind = {"group": wanted.group, "version": wanted.version, "kind": write.kind}
    if write.kind == "Scale":
        kind |= {"group": "autoscaling", "version": "v1"}
    resource = {"group": wanted.group, "version": wanted.version, "resource": wanted.resource}
    options: Object = {"kind": f"{write.operation.title()}Options", "apiVersion": "meta.k8s.io/v1"}
    if write.dry_run:
        options["dryRun"] = ["All"]
    where = {
        "subResource": wanted.subresource,
        "requestSubResource": wanted.subresource,
        "name": wanted.name or (write.object or {}).get("metadata", {}).get("name"),
        "namespace": wanted.namespace,
    }
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **{key: value for key, value in where.items() if value},
        "operation": write.operation,
        "userInfo": user_info(wanted.user),
        "object": write.object,
        "oldObject": write.old,
        "dryRun": write.dry_run,
        "options": options,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _unsuccessful(status: int, body: bytes) -> str:
    """k8s.io/apimachinery, api/errors, NewGenericServerResponse."""
    known = {
        404: "the server could not find the requested resource",
        500: f'an error on the server ("{body.decode(errors="replace").strip()}")'
        " has prevented the request from succeeding",
        503: "the server is currently unable to handle the request",
    }
    unknown = f"the server responded with the status code {status} but did not return more information"
    return known.get(status, unknown)


def _verified(uid: str, body: bytes, *, mutating: bool) -> Object:
    """The response within an answer's body. Unreachable if it is none."""
    try:
        response = msgspec.json.decode(body, type=dict).get("response")
    except msgspec.DecodeError as error:
        text = f"couldn't get version/kind; json parse error: {error}"
        raise Unreachable(f"failed to call webhook: {text}") from error
    problem, patch = "", None
    if not isinstance(response, dict):
        problem = "webhook response was absent"
    elif response.get("uid") != uid:
        problem = f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    else:
        patch = response.get("patch")
        given = [key for key in ("patch", "patchType") if response.get(key)]
        if given and not mutating:
            problem = f"validating webhook may not return response.{given[0]}"
        elif len(given) == 1:
            missing = "patchType" if given == ["patch"] else "patch"
            problem = f"webhook returned response.{given[0]} but not response.{missing}"
    if problem or not isinstance(response, dict):
        raise Unreachable(f"received invalid webhook response: {problem}")
    try:
        return {**response, "patch": patch and msgspec.json.decode(b64decode(patch), type=list)}
    except ValueError as error:
        raise Unreachable(f"received undecodable patch in webhook response: {error}") from error
