"""Questions put to the API server about tokens, access and oneself: answers that nobody stores."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import fields

from fedhpa.api.fielderror import FieldError, invalid
from fedhpa.serving.authentication import utc_now
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Attributes, Object, User
from testbed.embedded.auth.authentication import AUDIENCE, DEFAULT_TOKEN, Authenticator, user_info
from testbed.embedded.auth.authorization import Authorizer
from testbed.embedded.network.pki import Pki

_CHOICE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_NAMED = {field.name for field in fields(Attributes)} - {"user", "path"}


class Reviews:
    """Takes the body of a review, who sent it and the path's namespace and name; gives the body answered."""

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, now: Callable[[], dt.datetime] = utc_now
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._now = now

    def token(self, body: Object, _user: User, _namespace: str, _name: str) -> Object:
        """TokenReview. Refusal without a token."""
        token = (body.get("spec") or {}).get("token")
        if not token:
            raise refusals.bad_request("token is required for TokenReview in authentication")
        user = self._authenticator.bearer(token)
        if user is None:
            return {**body, "metadata": {}, "status": {"user": {}, "error": "invalid bearer token"}}
        known = {"authenticated": True, "user": user_info(user), "audiences": [AUDIENCE]}
        return {**body, "metadata": {}, "status": known}

    def access(self, body: Object, _user: User, _namespace: str, _name: str) -> Object:
        """SubjectAccessReview. Refusal for one that says neither who nor what."""
        spec = body.get("spec") or {}
        problems = _unclear(spec)
        if not spec.get("user") and not spec.get("groups"):
            problems.append(invalid("spec.user", "", "at least one of user or group must be specified"))
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
        return self._reviewed(body, problems, user)

    def own_access(self, body: Object, user: User, _namespace: str, _name: str) -> Object:
        """SelfSubjectAccessReview."""
        return self._reviewed(body, _unclear(body.get("spec") or {}), user)

    def oneself(self, body: Object, user: User, _namespace: str, _name: str) -> Object:
        """SelfSubjectReview: `kubectl auth whoami`."""
        metadata = {"creationTimestamp": f"{self._now():%Y-%m-%dT%H:%M:%SZ}"}
        return {**body, "metadata": metadata, "status": {"userInfo": user_info(user)}}

    def new_token(self, body: Object, _user: User, namespace: str, name: str) -> Object:
        """TokenRequest, of a ServiceAccount. Refusal."""
        spec: Object = {"audiences": [AUDIENCE], "expirationSeconds": DEFAULT_TOKEN, "boundObjectRef": None}
        spec |= body.get("spec") or {}
        token, expires = self._authenticator.issue(namespace, name, spec["expirationSeconds"])
        created = f"{self._now():%Y-%m-%dT%H:%M:%SZ}"
        return {
            **body,
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": f"{expires:%Y-%m-%dT%H:%M:%SZ}"},
        }

    def _reviewed(self, body: Object, problems: list[FieldError], user: User) -> Object:
        if problems:
            # Without a kind: by then Kubernetes has forgotten it.
            raise refusals.invalid("authorization.k8s.io", "", "", problems)
        spec = body["spec"]
        wanted = spec.get("resourceAttributes") or spec["nonResourceAttributes"]
        named = {key: value for key, value in wanted.items() if key in _NAMED}
        attributes = Attributes(user, path=wanted.get("path") or "", **{"verb": "", **named})
        why = self._authorizer.allowed(attributes)
        status = {"allowed": why is not None} | ({"reason": why} if why else {})
        return {**body, "metadata": {}, "status": status}


def trust_config_map(pki: Pki) -> Object:
    """kube-system/extension-apiserver-authentication: whom aggregated servers should believe."""
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


def _unclear(spec: Object) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = {key.title(): value for key, value in path.items()}
        return [invalid("spec.nonResourceAttributes", shown, _NOT_BOTH)]
    return [invalid("spec.resourceAttributes", None, _CHOICE)] if resource is None and path is None else []
