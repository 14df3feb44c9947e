"""Who the embedded API server takes its clients for, over real TLS and from kubeconfigs."""

import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from certs import CertificateAuthority
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import load_config
from testbed.embedded.api.types import User
from testbed.embedded.controlplane import ControlPlane

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
CREDENTIAL = "authentication.kubernetes.io/credential-id"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    made = ControlPlane(tmp_path, "hub")
    await made.start()
    try:
        yield made
    finally:
        await made.end()


async def call(
    plane: ControlPlane,
    path: str,
    context: ssl.SSLContext | None = None,
    *,
    method: str = "GET",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    connector = aiohttp.TCPConnector(ssl=context or plane.pki.client())
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request(method, plane.server + path, json=body, headers=headers) as answer,
    ):
        return answer.status, json.loads(await answer.read()), answer.headers


async def whoami(
    plane: ControlPlane, context: ssl.SSLContext | None = None, headers: Mapping[str, str] | None = None
) -> Any:
    status, body, _ = await call(plane, WHOAMI, context, method="POST", body=REVIEW, headers=headers)
    assert status == 201
    return body["status"]["userInfo"]


async def test_a_client_certificate_names_user_and_groups(plane: ControlPlane) -> None:
    """CN and O; which certificate it was is in the extra, as in Kubernetes."""
    found = await whoami(plane, plane.pki.client("jane", "dev", "ops"))

    assert found["username"] == "jane"
    assert found["groups"] == ["dev", "ops", "system:authenticated"]
    assert found["extra"][CREDENTIAL][0].startswith("X509SHA256=")


async def test_a_token_is_its_user(plane: ControlPlane) -> None:
    """From the table, or issued to a ServiceAccount by its own endpoint; the certificate goes first."""
    plane.authenticator.tokens["t0k3n"] = User("joe", ("dev",))
    bearer = {"Authorization": "Bearer t0k3n"}

    assert (await whoami(plane, headers=bearer))["username"] == "joe"
    assert (await whoami(plane, plane.pki.client("jane"), bearer))["username"] == "jane"

    plane.store.create(("", "serviceaccounts"), {"metadata": {"namespace": "default", "name": "robot"}})
    async with plane.api() as api:
        made = await api.ask(
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/robot/token",
            body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
    robot = await whoami(plane, headers={"Authorization": f"Bearer {made['status']['token']}"})

    assert robot["username"] == "system:serviceaccount:default:robot"


async def test_wrong_credentials_are_refused_and_none_are_nobody(plane: ControlPlane) -> None:
    """401 for a token that nobody has; 403 for who has none, in Kubernetes' words."""
    status, body, _ = await call(plane, "/api/v1/pods", headers={"Authorization": "Bearer wrong"})

    assert status == 401
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }

    status, body, _ = await call(plane, "/api/v1/pods")

    assert status == 403
    assert body["message"] == (
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group ""'
        " at the cluster scope"
    )


async def test_other_schemes_and_headers_prove_nothing(plane: ControlPlane) -> None:
    """Basic is not understood; X-Remote-* are believed from nobody."""
    for headers in ({"Authorization": "Basic eDp5"}, {"X-Remote-User": "system:admin"}):
        status, body, _ = await call(plane, "/api/v1/pods", headers=headers)

        assert status == 403
        assert 'User "system:anonymous"' in body["message"]


async def test_who_may_do_everything_may_be_somebody_else(plane: ControlPlane) -> None:
    """`kubectl --as`: for the superuser alone; a ServiceAccount has its groups."""
    admin, robot = plane.pki.client("system:admin", "system:masters"), "system:serviceaccount:shop:robot"
    as_jane = await whoami(plane, admin, {"Impersonate-User": "jane", "Impersonate-Group": "dev"})
    as_robot = await whoami(plane, admin, {"Impersonate-User": robot})
    status, body, _ = await call(
        plane, "/api", plane.pki.client("joe"), headers={"Impersonate-User": "system:admin"}
    )

    assert as_jane == {"username": "jane", "groups": ["dev", "system:authenticated"]}
    assert as_robot["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:shop",
        "system:authenticated",
    ]
    assert status == 403
    assert body["message"] == (
        'users "system:admin" is forbidden: User "joe" cannot impersonate resource "users"'
        ' in API group "" at the cluster scope'
    )


async def test_a_certificate_that_proves_no_client_is_refused(plane: ControlPlane, tmp_path: Path) -> None:
    """A server's own certificate, or one that is over, is of the right CA and yet of nobody."""
    past = dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)
    wrong = {
        "server": plane.pki.ca.issue_server("apiserver", dns=["localhost"]),
        "over": plane.pki.ca.issue_client("jane", validity=dt.timedelta(hours=1), now=past),
        "stranger": CertificateAuthority.create("hub-ca").issue_client("jane"),
    }
    for name, leaf in wrong.items():
        leaf.save(tmp_path / name)
        context = plane.pki.client()
        context.load_cert_chain(tmp_path / name / "tls.crt", tmp_path / name / "tls.key")
        try:
            status, _, _ = await call(plane, "/api/v1/pods", context)
        except (aiohttp.ClientError, ssl.SSLError, ConnectionError):
            status = 401  # the handshake had refused it

        assert (name, status) == (name, 401)


@pytest.mark.parametrize("token", ["", "t0k3n"])
async def test_kubeconfigs_are_for_the_products_client(
    plane: ControlPlane, tmp_path: Path, token: str
) -> None:
    """With a client certificate or a token; nobody else can read the file."""
    plane.authenticator.tokens["t0k3n"] = User("system:admin", ("system:masters",))
    path = plane.pki.kubeconfig(
        tmp_path / "kubeconfig", plane.server, "system:admin", "system:masters", token=token
    )
    client = ApiClient(await load_config(str(path)))
    try:
        found = await client.get_json("/api/v1/namespaces/default")
    finally:
        await client.close()

    assert found["metadata"]["name"] == "default"
    assert path.stat().st_mode & 0o077 == 0


async def test_aggregated_servers_are_told_whom_to_believe(plane: ControlPlane) -> None:
    """The keys that kube-apiserver writes; who may read them is a Role of kube-system."""
    async with plane.api() as api:
        found = await api.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        role = await api.get(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
            "/extension-apiserver-authentication-reader"
        )

    assert found["data"] == {
        "client-ca-file": plane.pki.ca.bundle_pem.decode(),
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-client-ca-file": plane.pki.front_proxy_ca.bundle_pem.decode(),
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    assert role["rules"][0]["resourceNames"] == ["extension-apiserver-authentication"]


async def test_aggregated_servers_may_have_reviews_delegated(plane: ControlPlane) -> None:
    """By the ClusterRole that every Kubernetes cluster has for them."""
    async with plane.api() as api:
        role = await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:auth-delegator")

    assert {(*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
