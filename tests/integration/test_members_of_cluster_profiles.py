"""ClusterProfiles register members. Exec plugins make their credentials, within bounds."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from controller.placement.argocd import argocd_name
from controller.placement.profiles import ClusterProfiles
from fedhpa.api.decode import decode
from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.member_sources import TAINTS_MAP, MemberSources
from fedhpa.api.placement_decisions import Profile
from fedhpa.kube import SYSTEM, ApiClient
from fedhpa.members import CLUSTERS_PATH, ForeignCluster
from fedhpa.members.sources import plugins
from fedhpa.members.sources.providers import read_providers
from tests.support.controller import federated_hpa
from tests.support.fakeapi import CLUSTERS, SECRETS, cluster, eventually, fake_api, secret
from tests.support.fleets import (
    FLEET,
    PROFILES,
    fleet_of,
    plugin,
    printing,
    profile,
    profiles_of,
    provider_file,
)
from tests.support.timing import background
from webhook.hub_reader import HubReader


def token_by_server(folder: Path) -> str:
    """Returns a plugin that prints the token of the server that it is told of, and the file it writes."""
    text = f"""
echo "$KUBERNETES_EXEC_INFO" > {folder}/told
env > {folder}/environment
cat {folder}/credential
"""
    (folder / "credential").write_text(printing("m1-token").removeprefix("echo '").removesuffix("'"))
    return plugin(folder, text)


def use_token(folder: Path, token: str, **status: str) -> None:
    """Lets the plugin print another token."""
    (folder / "credential").write_text(printing(token, **status).removeprefix("echo '").removesuffix("'"))


async def test_a_profile_is_a_member(tmp_path: Path) -> None:
    """Its plugin is told of the cluster and makes the token, and the profile's labels select it."""
    described = {
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "one"}},
            {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": ["--evil"]},
        ]
    }
    file = provider_file(tmp_path, token_by_server(tmp_path))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        fleet.hub.put(PROFILES, profile("m1", server.url, server.ca_pem, **described))
        await fleet.ready("m1")
        await eventually(lambda: "clusterName" in (tmp_path / "told").read_text())
        member = fleet["m1"]
        told = json.loads((tmp_path / "told").read_text())

        assert await member.client.get_json("/version")
        assert member.known.labels == {"region": "eu"}
        assert member.cluster.status.kubernetesVersion == "v1.36.3"
        assert told["apiVersion"] == "client.authentication.k8s.io/v1"
        assert told["spec"]["interactive"] is False
        assert told["spec"]["cluster"]["server"] == server.url
        assert told["spec"]["cluster"]["config"] == {"clusterName": "one"}
        assert "additional-args" not in json.dumps(told)


async def test_profiles_come_and_go(tmp_path: Path) -> None:
    """A profile that comes is a member. One that goes is none, and the registry says that it is gone."""
    file = provider_file(tmp_path, token_by_server(tmp_path))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        await fleet.ready("m1")
        server = fleet.servers["m1"]
        fleet.hub.put(PROFILES, profile("m2", server.url, server.ca_pem))
        await eventually(lambda: "m2" in fleet.registry.members)
        fleet.hub.remove(PROFILES, "m2", FLEET)
        await eventually(lambda: "m2" not in fleet.registry.registered)
        gone = fleet.registry.gone("m2")

        assert gone is not None
        assert (gone.reason, gone.held) == (f"its ClusterProfile {FLEET}/m2 is gone", "")
        assert fleet.registry.gone("m1") is None


async def test_a_plugin_gets_no_variable_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of our environment it gets what a cloud needs, and what the flag names."""
    for name in ("FEDHPA_TOKEN", "SECRET", "AWS_REGION", "GOOGLE_X", "CLOUDSDK_X", "AZURE_X", "NAMED"):
        monkeypatch.setenv(name, "1")
    file = provider_file(tmp_path, token_by_server(tmp_path))
    async with fleet_of(profiles_of(file, plugin_environment=("NAMED",)), "m1") as fleet:
        await fleet.ready("m1")
        lines = (tmp_path / "environment").read_text().splitlines()
        names = {line.partition("=")[0] for line in lines}

        assert {"AWS_REGION", "GOOGLE_X", "CLOUDSDK_X", "AZURE_X", "NAMED", "PATH", "HOME"} <= names
        assert not {"FEDHPA_TOKEN", "SECRET"} & names


async def test_a_token_is_renewed_after_a_401(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that got the 401 runs the plugin, and waits for the new token."""
    monkeypatch.setattr(plugins, "LEAST_SECONDS", 0.0)
    file = provider_file(tmp_path, token_by_server(tmp_path))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        await fleet.ready("m1")
        use_token(tmp_path, "other")
        fleet.servers["m1"].token = "other"

        assert await fleet["m1"].client.get_json("/version")
        await fleet.ready("m1")


# The commands of a plugin, and words of the reason. Other faults are in test_exec_plugins_end.py.
FAULTS = {
    "hangs": ("sleep 1000", "no answer within 1 s"),
    "forks": ("sleep 1000 & echo $! > {folder}/child; exit 1", "no answer within 1 s"),
    "refuses": ("echo {big} >&2; exit 3", "exit code 3: no login"),
    "no-token": (printing("a b"), "characters that no token has"),
    "expired": (printing("t", expirationTimestamp="2000-01-01T00:00:00Z"), "has expired"),
}


async def test_a_plugin_that_fails_costs_its_own_member_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is the member's. Another one with the same plugin in a good mood is ready."""
    monkeypatch.setattr(plugins, "DEADLINE_SECONDS", 1.0)
    moods = "".join(f"*mood-{name}*) {text};; " for name, (text, _) in FAULTS.items())
    moods = moods.replace("{folder}", str(tmp_path)).replace("{big}", "no login" + "x" * 2000)
    script = f'case "$KUBERNETES_EXEC_INFO" in {moods} *) {printing("m1-token")};; esac'
    file = provider_file(tmp_path, plugin(tmp_path, script))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        for name in FAULTS:
            extension = {"name": "client.authentication.k8s.io/exec", "extension": {"is": f"mood-{name}"}}
            fleet.hub.put(PROFILES, profile(name, server.url, server.ca_pem, extensions=[extension]))
        reasons = [await fleet.away(name, words) for name, (_, words) in FAULTS.items()]
        await fleet.ready("m1")

        assert max(map(len, reasons)) < 800
        await eventually(lambda: not _alive(int((tmp_path / "child").read_text())))


async def test_nothing_of_a_plugin_outlives_it(tmp_path: Path) -> None:
    """A child that closed the output is ended with the plugin, although that has succeeded."""
    text = f"sleep 1000 >/dev/null 2>&1 &\necho $! > {tmp_path}/child\n{printing('m1-token')}"
    file = provider_file(tmp_path, plugin(tmp_path, text))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        await fleet.ready("m1")
        await eventually(lambda: not _alive(int((tmp_path / "child").read_text())))


async def test_at_most_four_plugins_run_at_once(tmp_path: Path) -> None:
    """A fleet of many profiles does not start many processes."""
    text = f"touch {tmp_path}/run-$$; ls {tmp_path} | grep -c run- >> {tmp_path}/counts; sleep 0.3; "
    text += f"rm {tmp_path}/run-$$; {printing('m1-token')}"
    file = provider_file(tmp_path, plugin(tmp_path, text))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        (tmp_path / "counts").touch()
        for number in range(12):
            fleet.hub.put(PROFILES, profile(f"p{number}", server.url, server.ca_pem))
        await eventually(lambda: len((tmp_path / "counts").read_text().split()) == 13)
        counts = [int(text) for text in (tmp_path / "counts").read_text().split()]

        assert max(counts) <= 4


async def test_the_file_decides_which_provider_is_taken(tmp_path: Path) -> None:
    """The first entry of the file that the profile names, also by the field's older name."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        older = profile("older", server.url, server.ca_pem)
        older["status"]["credentialProviders"] = older["status"].pop("accessProviders")
        fleet.hub.put(PROFILES, older)
        none = profile("none", server.url, server.ca_pem)
        none["status"]["accessProviders"][0]["name"] = "other"
        fleet.hub.put(PROFILES, none)
        await fleet.ready("m1", "older")
        reason = await fleet.away("none", "access providers other")

        assert "the provider file tokens" in reason


async def test_a_member_of_a_profile_is_published_as_that_profile(tmp_path: Path) -> None:
    """Its own profile comes before one that claims its name, and tells its name in Argo CD."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    async with fleet_of(profiles_of(file), "m1") as fleet, ApiClient(fleet.hub.config()) as hub:
        server = fleet.servers["m1"]
        own = profile("m1", server.url, server.ca_pem)
        own["metadata"]["annotations"] = {"fedhpa.io/argocd-name": "one"}
        fleet.hub.put(PROFILES, own)
        other = {"metadata": {"name": "other", "namespace": "else", "labels": {"fedhpa.io/cluster": "m1"}}}
        fleet.hub.put(PROFILES, other)
        await fleet.ready("m1")
        found = ClusterProfiles(hub, ("else", FLEET), SYSTEM.monotonic)
        async with background(found.run()):
            await eventually(lambda: not found.problem)

            assert found.of(fleet.registry.members, {}) == {"m1": Profile(FLEET, "m1")}
        await eventually(lambda: argocd_name("m1", fleet.registry.members) == "one")


async def test_taints_stand_in_a_config_map(tmp_path: Path) -> None:
    """Nothing is written into the profile. Taints that nobody can read keep replicas away."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        await fleet.ready("m1")
        fleet.note(TAINTS_MAP, m1='[{"key": "fedhpa.io/cordon", "effect": "NoSchedule"}]')
        await eventually(lambda: [one.key for one in fleet["m1"].known.taints] == ["fedhpa.io/cordon"])
        fleet.note(TAINTS_MAP, m1="rubbish")
        await eventually(lambda: [one.effect for one in fleet["m1"].known.taints] == ["NoSchedule"])
        fleet.note(TAINTS_MAP)
        await eventually(lambda: not fleet["m1"].known.taints)


async def test_the_first_source_names_a_cluster_that_two_know(tmp_path: Path) -> None:
    """The UID of the cluster tells that both are one. It is no finding, because two sources may know it."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    sources = profiles_of(file, names=("clusterprofiles", "clusters"))
    async with fleet_of(sources, "m1") as fleet:
        server = fleet.servers["m1"]
        server.put(("v1", "namespaces"), {"metadata": {"name": "kube-system", "uid": "one-uid"}})
        fleet.hub.put(SECRETS, secret("c1", token="m1-token", ca=server.ca_pem))
        fleet.hub.put(CLUSTERS, cluster("c1", server.url))
        await eventually(lambda: "c1" in fleet.registry.duplicates)

        assert list(fleet.registry.members) == ["m1"]
        assert isinstance(fleet["m1"].cluster, ForeignCluster)
        assert not fleet.registry.duplicates["c1"].stands_back_in_error


async def test_all_profiles_that_go_at_once_are_held(tmp_path: Path) -> None:
    """An emptied source is more likely a mistake of its owner than the loss of all clusters."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        await fleet.ready("m1")
        fleet.hub.remove(PROFILES, "m1", FLEET)
        await eventually(lambda: "m1" not in fleet.registry.registered)
        gone = fleet.registry.gone("m1")

        assert gone is not None
        assert gone.held == "all members of clusterprofiles are gone at once: nothing is failed over"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"profileSourcedCLIArgsPolicy": "Append"}, "profileSourcedCLIArgsPolicy: 'Append' is not supported"),
        ({"profileSourcedEnvVarsPolicy": "Replace"}, "profileSourcedEnvVarsPolicy: 'Replace'"),
        ({"servers": ["https://*"]}, "is no pattern of servers"),
        ({"execConfig": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "x"}}, "expected"),
        (
            {
                "execConfig": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "x",
                    "env": [{"name": "FEDHPA_X", "value": "1"}],
                }
            },
            "no name may begin with FEDHPA_",
        ),
    ],
)
def test_an_unusable_provider_file_is_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    """A process does not start with it. A profile never chooses what a plugin does."""
    file = provider_file(tmp_path, "plugin", **change)
    with pytest.raises(ConfigError, match="--clusterprofile-provider-file") as raised:
        read_providers(file)

    assert words in str(raised.value)


@pytest.mark.parametrize("cloud", ["gke", "eks", "aks"])
def test_the_examples_are_read(cloud: str) -> None:
    """Each names one provider, and the servers that may get its credentials."""
    file = Path(__file__).parents[2] / "examples" / "providers" / f"{cloud}.json"
    (provider,) = read_providers(str(file))

    assert provider.servers


async def test_without_a_source_the_default_asks_for_clusters_alone() -> None:
    """No ConfigMap and no profile is read, so the rights of the processes stay as they are."""
    async with fleet_of(MemberSources()) as fleet:
        await eventually(fleet.registry.synced)
        paths = {seen.path for seen in fleet.hub.seen}

        assert paths == {"/apis/cluster.karmada.io/v1alpha1/clusters"}
        assert fleet.registry.gone("m1") is None


def _alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended, and waits for whoever reaps it.
    return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_cluster_of_two_sources_is_published_as_its_profile(tmp_path: Path) -> None:
    """The Cluster gives the member its name. Its profile has another one, and is the same cluster."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    sources = profiles_of(file, names=("clusters", "clusterprofiles"))
    async with fleet_of(sources, "m1") as fleet, ApiClient(fleet.hub.config()) as hub:
        server = fleet.servers["m1"]
        server.put(("v1", "namespaces"), {"metadata": {"name": "kube-system", "uid": "one-uid"}})
        fleet.hub.put(SECRETS, secret("c1", token="m1-token", ca=server.ca_pem))
        fleet.hub.put(CLUSTERS, cluster("c1", server.url))
        await eventually(lambda: "m1" in fleet.registry.duplicates)
        profiles = ClusterProfiles(hub, (FLEET,), SYSTEM.monotonic)

        found = profiles.of(fleet.registry.members, fleet.registry.duplicates)
        assert found == {"c1": Profile(FLEET, "m1")}


@pytest.mark.parametrize("knows", [True, False])
async def test_admission_warns_of_no_cluster_that_it_cannot_know(knows: bool) -> None:
    """It reads Clusters only, so with other sources a name that it does not know may be a member."""
    async with fake_api() as hub, ApiClient(hub.config()) as client:
        hub.put(CLUSTERS, cluster("m1", "https://m1"))
        reader = HubReader(client, checks_targets=False, knows_clusters=knows, clock=SYSTEM)
        subject = decode(FederatedHPA, federated_hpa(clusterAffinity={"clusterNames": ["eu-1"]}))
        async with background(reader.run()):
            await eventually(lambda: all(map(reader.knows, reader.reflectors)))
            found = await reader.warnings(subject)
            while knows and not found:
                await asyncio.sleep(0.01)
                found = await reader.warnings(subject)

        assert any("eu-1" in text for text in found) is knows
        assert any(one.path == CLUSTERS_PATH for one in hub.seen) is knows
