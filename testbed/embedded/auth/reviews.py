"""The review APIs: token and access reviews, and token requests."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import fields

from testbed.embedded.api.server import Review, ReviewHandler
from testbed.embedded.api.types import Attributes, Object, User
from testbed.embedded.auth.authentication import AUDIENCE, DEFAULT_TOKEN, Authenticator, user_info
from testbed.embedded.auth.authorization import Authorizer
from testbed.embedded.clock import utc_now
from testbed.embedded.cluster.pods import timestamp
from testbed.embedded.network.pki import Pki

_ATTRIBUTES = {field.name for field in fields(Attributes)} - {"user", "path"}


class Reviews:
    """The handlers of the review APIs."""

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, now: Callable[[], dt.datetime] = utc_now
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._now = now

    def handlers(self) -> Iterator[tuple[Review, ReviewHandler]]:
        """Yields each resource with its handler."""
        yield ("authentication.k8s.io", "tokenreviews", ""), self._token
        yield ("authorization.k8s.io", "subjectaccessreviews", ""), self._access
        yield ("authorization.k8s.io", "selfsubjectaccessreviews", ""), self._own_access
        yield ("", "serviceaccounts", "token"), self._new_token

    def _token(self, _attributes: Attributes, body: Object) -> Object:
        user = self._authenticator.bearer(body["spec"]["token"])
        status: Object = {"user": {}, "error": "invalid bearer token"}
        if user is not None:
            status = {"authenticated": True, "user": user_info(user), "audiences": [AUDIENCE]}
        return {**body, "metadata": {}, "status": status}

    def _access(self, _attributes: Attributes, body: Object) -> Object:
        spec = body.get("spec") or {}
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
        return self._reviewed(body, user)

    def _own_access(self, attributes: Attributes, body: Object) -> Object:
        return self._reviewed(body, attributes.user)

    def _new_token(self, attributes: Attributes, body: Object) -> Object:
        namespace, name = attributes.namespace, attributes.name
        spec: Object = {"audiences": [AUDIENCE], "expirationSeconds": DEFAULT_TOKEN, "boundObjectRef": None}
        spec |= body.get("spec") or {}
        token, expires = self._authenticator.issue(namespace, name, spec["expirationSeconds"])
        created = timestamp(self._now())
        return {
            **body,
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": timestamp(expires)},
        }

    def _reviewed(self, body: Object, user: User) -> Object:
        spec = body.get("spec") or {}
        wanted = spec.get("resourceAttributes") or spec["nonResourceAttributes"]
        given = {key: value for key, value in wanted.items() if key in _ATTRIBUTES}
        attributes = Attributes(user, path=wanted.get("path") or "", **{"verb": "", **given})
        return {**body, "metadata": {}, "status": {"allowed": self._authorizer.allowed(attributes)}}


def trust_config_map(pki: Pki) -> Object:
    """Returns kube-system/extension-apiserver-authentication, the trust of aggregated servers."""
    lists = {
        "allowed-names": "front-proxy-client",
        "username-headers": "X-Remote-User",
        "group-headers": "X-Remote-Group",
        "extra-headers-prefix": "X-Remote-Extra-",
    }
    data = {f"requestheader-{key}": json.dumps([value]) for key, value in lists.items()}
    data["requestheader-client-ca-file"] = pki.front_proxy_ca.bundle_pem.decode()
    data["client-ca-file"] = pki.ca.bundle_pem.decode()
    metadata = {"namespace": "kube-system", "name": "extension-apiserver-authentication"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
