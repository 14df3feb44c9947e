"""Each printed right of the metrics adapter is needed: without it callers are refused, or see less."""

from __future__ import annotations

from asyncio import sleep
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.world.network import Cable
from fedhpa.api.rights import ADAPTER_ROLE, READER_ROLE, rights_of, user
from fedhpa.kube import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.members import MemberRegistry, SharedLists
from fedhpa.serving import Health
from fedhpa.serving.authentication import Authenticator, TokenReviewer
from fedhpa.serving.authorization import Authorizer, Guard, review_problem
from fedhpa.serving.tls import ServingTls, TlsFiles
from fedhpa.serving.trust import LiveTrust, TrustFiles
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from testbed.embedded.api.types import User
from testbed.embedded.auth.reviews import trust_config_map
from tests.support.federation import Federation, federation
from tests.support.fewer_rights import LEAST, client_of_least, names_of, serve_reviews, without
from tests.support.memory_network import MemoryListener
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

Logs = list[dict[str, Any]]
# A person with the role of readers.
READER = "reader"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
# Seconds, after which the hub was listed and the members answered.
SOON = 20

RIGHTS = rights_of("metrics-adapter", user(LEAST), secrets={"kube-system": ()})
READERS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "readers"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER_ROLE},
    "subjects": [user(READER)],
}
# Bindings of roles that Kubernetes has.
REVIEWS, TRUST = f"{ADAPTER_ROLE}:auth-delegator", f"{ADAPTER_ROLE}:authentication-reader"
# The status of a reader's request without a right, and the words of the complaint.
COMPLAINTS = {
    f"{ADAPTER_ROLE}: cluster.karmada.io/clusters list/watch": (503, "listing /apis/cluster.karmada.io"),
    f"{ADAPTER_ROLE}:secrets: /secrets get/list/watch": (503, "its secret cannot be read"),
    f"{READER_ROLE}: metrics.k8s.io/pods get/list": (403, 'User \\"reader\\" cannot list resource'),
    REVIEWS: (401, "token could not be reviewed"),
    TRUST: (200, "extension-apiserver-authentication"),
}


async def answered(f: Federation, hub: ApiClient, folder: Path) -> tuple[int, str]:
    """Runs the parts of the adapter that use the hub. Returns the status of a read, and all texts."""
    members = MemberRegistry(hub, clock=f.clock)
    files = TlsFiles(folder / "tls.crt", folder / "tls.key")
    trust = LiveTrust(TrustFiles(), ServingTls(files, request_client_certificates=True), f.clock)
    reviewer = TokenReviewer(hub, clock=f.clock.monotonic)
    guard = Guard(
        Authenticator(lambda: trust.peers, reviewer),
        Authorizer(hub, clock=f.clock.monotonic),
        [],
        clock=f.clock.monotonic,
    )
    telemetry = Telemetry(lambda: members.members)
    async with SharedLists(clock=f.clock.monotonic) as lists:
        source = MembersSource(
            lambda: members.members,
            lists,
            max_age=0.0,
            observer=telemetry,
            unlisted=lambda: members.unlisted,
            clock=f.clock.monotonic,
        )
        catalogue = MetricDiscoveryCache(source, clock=f.clock.monotonic)
        application = build_application(source, guard, Health(), telemetry, discovery_cache=catalogue)
        async with (
            MemoryListener(f.network, application) as listener,
            background(members.run()),
            background(trust.follow_hub(hub)),
        ):
            connector = Cable(f.network).connector(ApiConfig(server=listener.server))
            headers = {"Authorization": f"Bearer {READER}"}
            async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
                await sleep(SOON)
                async with session.get(listener.server + PODS) as response:
                    told = [await response.text(), *response.headers.getall("Warning", [])]
            told += [members.problem or "", await review_problem(hub, hub) or ""]
            return response.status, "\n".join(told)


@pytest.mark.parametrize("right", ["", *names_of(RIGHTS), REVIEWS, TRUST])
async def test_each_right_of_the_adapter_is_missed(tmp_path: Path, logs: Logs, right: str) -> None:
    """A log line, a warning, a probe or the answer itself names what is refused."""
    refused: list[str] = []
    async with federation(tmp_path, m1=1) as f:
        f.hub.server.store.create(("", "configmaps"), trust_config_map(f.hub.pki))
        serve_reviews(f)
        f.hub.authenticator.tokens[READER] = User(READER, ("system:authenticated",))
        manifests = [*without(RIGHTS, right), READERS]
        async with client_of_least(f, f.hub, manifests, refused) as hub:
            status, told = await answered(f, hub, tmp_path)
    text = "\n".join([told, *map(str, logs)])

    wanted, words = COMPLAINTS.get(right, (200, ""))

    assert status == wanted
    assert words in text
    assert ("forbidden" in text) == bool(right)
    # A review refuses the reader, and the hub itself the adapter.
    assert bool(refused) == (right != "" and wanted != 403)


def test_each_right_has_its_complaint() -> None:
    assert list(COMPLAINTS) == [*names_of(RIGHTS), REVIEWS, TRUST]
