"""Renders the Helm chart by Helm 3 and Helm 4, without a cluster."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller import flags as controller_flags
from fedhpa.admission import crd
from fedhpa.serving.flags import parse_flags
from metrics_adapter import settings as adapter_settings
from metrics_adapter.registration import Registration, api_services
from testbed.reference import chart as reference
from tests.support.chart import (
    CHART,
    NAMESPACE,
    Manifest,
    Refused,
    merged,
    render,
    render_anew,
    render_text,
    settings,
)
from tests.support.commands import fedhpa
from webhook import settings as webhook_settings
from webhook.registration import Endpoint, configurations

DEPLOYMENTS = {
    "fedhpa-controller": controller_flags.SECTIONS,
    "fedhpa-metrics-adapter": adapter_settings.FLAGS,
    "fedhpa-webhook": webhook_settings.FLAGS,
}
COMPONENTS = ("controller", "metricsAdapter", "webhook")
PARTS = ("all", "host", "hub")
EVERYTHING: dict[str, Any] = {
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
    "apis": {"metrics": True},
    "rbac": {"secretsNamespaces": ["credentials"]},
}
FILES = {"tls": {"source": "files", "caBundle": "a PEM text"}}
CERT_MANAGER = {"tls": {"source": "certManager"}}
# Part hub must be told the CA.
CERT_MANAGER_ANYWHERE = {"tls": {"source": "certManager", "caBundle": "a PEM text"}}
PROFILES: dict[str, Any] = {
    "members": {"from": ["clusters", "clusterprofiles"], "clusterProfiles": {"namespaces": ["fleet"]}}
}
ARGOCD: dict[str, Any] = {"members": {"from": ["argocd"], "argocd": {"secrets": ["eu", "us"]}}}
HOST, HUB = {"part": "host"}, {"part": "hub"}

ROLLOUTS = {"group": "argoproj.io", "resources": ["rollouts"]}

Example = tuple[Any, dict[str, Any]]


def of_each_component(name: str, value: Callable[[str], Any]) -> dict[str, Example]:
    return {f"{component}.{name}": (value(component.lower()), {}) for component in COMPONENTS}


OUR_CRDS = ["scalingrecords.fedhpa.io", "placements.fedhpa.io"]
# A value other than the default for every value of the chart, and the settings beside which it has an effect.
EXAMPLES: dict[str, Example] = {
    "part": ("hub", {}),
    "propagation": ("karmada", {}),
    "watchNamespaces": (["shop"], {}),
    "hub.kubeconfigSecret": ("other-kubeconfig", HOST),
    "hub.webhookHost": ("webhook.example:8443", HUB),
    "hub.metricsAdapterHost": ("adapter.example", HUB),
    "hub.users": (["hub-user"], HUB),
    **{f"{name}.hubKubeconfigSecret": (f"{name.lower()}-kubeconfig", HOST) for name in COMPONENTS},
    **{f"{name}.hubUsers": ([f"{name.lower()}-user"], HUB) for name in COMPONENTS},
    "global.imageRegistry": ("mirror.example:5000", {}),
    "rbac.create": (False, {}),
    "rbac.aggregateToDefaultRoles": (False, {}),
    "rbac.admissionPolicy": (False, {}),
    "rbac.distributed": (True, {"propagation": "karmada"}),
    "rbac.scaleTargets": ([{"group": "example.com", "resources": ["machines"]}], {"propagation": "karmada"}),
    "rbac.secretsNamespaces": (["credentials"], {}),
    "image.registry": ("other-registry.example", {}),
    "image.repository": ("other/repository", {}),
    "image.tag": ("1.2.3", {}),
    "image.digest": ("sha256:" + "0" * 64, {}),
    "image.pullPolicy": ("Always", {}),
    "imagePullSecrets": ([{"name": "registry"}], {}),
    "commonLabels": ({"team": "scaling"}, {}),
    "serviceAccount.annotations": ({"cloud.example/role": "scaler"}, {}),
    "logging.format": ("text", {}),
    "logging.verbosity": (4, {}),
    "tls.source": ("certManager", {}),
    "tls.caBundle": ("another PEM text", FILES),
    "tls.hosts": (["hub.example", "192.0.2.1"], {}),
    "tls.certManager.issuerRef": ({"name": "ours", "kind": "ClusterIssuer"}, CERT_MANAGER),
    "crds.install": (False, {}),
    "crds.clusters": (False, {}),
    "apis.metrics": (True, {}),
    "apis.custom": (False, {}),
    "apis.external": (False, {}),
    "members.from": (["clusterprofiles"], {"members": {"clusterProfiles": {"namespaces": ["fleet"]}}}),
    "members.acceptChangedServers": (True, PROFILES),
    "members.clusterProfiles.namespaces": (["other"], PROFILES),
    "members.argocd.namespace": ("gitops", ARGOCD),
    "members.argocd.secrets": (["other"], ARGOCD),
    "members.argocd.wholeNamespace": (True, ARGOCD),
    "members.argocd.servers": (["*.example.com"], ARGOCD),
    "members.argocd.adapterUsesOwnTokens": (True, ARGOCD),
    "controller.metricsVia": ("hub", {}),
    "controller.shards": (2, {}),
    "controller.shardBy": ("namespace", {"controller": {"shards": 2}}),
    "placement.enabled": (True, {}),
    "placement.clusterProfileNamespaces": (["published"], {}),
    "placement.publishTo": (["argocd"], {}),
    "placement.argocdNamespace": ("delivery", {"placement": {"publishTo": ["argocd"]}}),
    "controller.ports.metrics": (18080, {}),
    "controller.ports.health": (10358, {}),
    "webhook.failurePolicy": ("Ignore", {}),
    "webhook.timeoutSeconds": (10, {}),
    "webhook.crossObjectWarnings": (False, {}),
    "releaseClusters": (False, {"propagation": "direct"}),
    "podDisruptionBudget.enabled": (False, {}),
    "podDisruptionBudget.maxUnavailable": ("50%", {}),
    "podDisruptionBudget.minAvailable": (1, {}),
    "podSecurityContext": ({"fsGroup": 2000}, {}),
    "securityContext": ({"runAsUser": 2000}, {}),
    "livenessProbe": ({"failureThreshold": 9}, {}),
    "readinessProbe": ({"periodSeconds": 7}, {}),
    "networkPolicy.enabled": (True, {}),
    "networkPolicy.apiPorts": ([16443], {"networkPolicy": {"enabled": True}}),
    "networkPolicy.storePorts": ([9090], {"networkPolicy": {"enabled": True}}),
    "serviceMonitor.enabled": (True, {}),
    "serviceMonitor.interval": ("17s", {"serviceMonitor": {"enabled": True}}),
    "serviceMonitor.labels": ({"release": "prometheus"}, {"serviceMonitor": {"enabled": True}}),
    "serviceMonitor.relabelings": (
        [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}],
        {"serviceMonitor": {"enabled": True}},
    ),
    "serviceMonitor.metricRelabelings": (
        [{"action": "drop", "sourceLabels": ["__name__"], "regex": "python_.*"}],
        {"serviceMonitor": {"enabled": True}},
    ),
    "prometheusRule.enabled": (True, {}),
    "prometheusRule.docsUrl": ("https://docs.example/fedhpa/", {"prometheusRule": {"enabled": True}}),
    "prometheusRule.labels": ({"release": "prometheus"}, {"prometheusRule": {"enabled": True}}),
    "grafanaDashboard.enabled": (True, {}),
    "grafanaDashboard.annotations": ({"grafana_folder": "Scaling"}, {"grafanaDashboard": {"enabled": True}}),
    "grafanaDashboard.labels": ({"dashboard": "yes"}, {"grafanaDashboard": {"enabled": True}}),
    "extraObjects": ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "further"}}], {}),
    **of_each_component("replicas", lambda _: 3),
    **of_each_component("resources", lambda name: {"requests": {f"{name}.example/gpu": "1"}}),
    **of_each_component("affinity", lambda name: {"podAntiAffinity": {"topologyKey": f"{name}-zone"}}),
    **of_each_component("tolerations", lambda name: [{"key": f"{name}-spot", "operator": "Exists"}]),
    **of_each_component("nodeSelector", lambda name: {"pool": f"{name}-nodes"}),
    **of_each_component("priorityClassName", lambda name: f"{name}-priority"),
    **of_each_component("topologySpreadConstraints", lambda name: [{"topologyKey": f"{name}-rack"}]),
    **of_each_component("podLabels", lambda name: {"sidecar": f"{name}-off"}),
    **of_each_component("podAnnotations", lambda name: {"note": f"{name}-text"}),
    **of_each_component("extraArgs", lambda name: [f"--config={name}.yaml"]),
    **of_each_component(
        "env", lambda name: [{"name": "HTTPS_PROXY", "value": f"http://{name}.example:3128"}]
    ),
    **of_each_component("volumes", lambda name: [{"name": f"{name}-rules", "configMap": {"name": "rules"}}]),
    **of_each_component(
        "volumeMounts", lambda name: [{"name": f"{name}-rules", "mountPath": f"/etc/{name}"}]
    ),
    **of_each_component("hostNetwork", lambda _: True),
    **{
        f"{component}.{name}": (value, PROFILES)
        for component in COMPONENTS[:2]
        for name, value in (
            ("initContainers", [{"name": f"plugins-of-{component.lower()}", "image": "plugins"}]),
            ("clusterProfileProviders", [{"name": component, "execConfig": {"command": "plugin"}}]),
            ("pluginSecrets", [f"{component.lower()}-token"]),
        )
    },
    **{
        f"{component}.ports.{name}": (number, {})
        for component in COMPONENTS[1:]
        for name, number in (("https", 9443), ("metrics", 18080), ("health", 18000))
    },
}


@pytest.fixture(scope="module", params=["helm", "helm3"])
def either_helm(assets: Path, request: pytest.FixtureRequest) -> Path:
    return assets / str(request.param)


@pytest.fixture(scope="module")
def helm(assets: Path) -> Path:
    return assets / "helm"


def pod(manifests: dict[tuple[str, str], Manifest], name: str) -> Manifest:
    return dict(manifests["Deployment", name]["spec"]["template"]["spec"])


def parsed(manifests: dict[tuple[str, str], Manifest], name: str) -> dict[str, Any]:
    """Returns the values of the flags that a Deployment sets, as its process reads them."""
    (container,) = pod(manifests, name)["containers"]
    assert container["command"] == [name]
    known = [flag for flags in DEPLOYMENTS[name].values() for flag in flags]
    values = parse_flags(DEPLOYMENTS[name], container["args"], {}, name)
    return {flag.name: values[flag] for flag in known if values.given(flag)}


def without(manifest: Manifest, *keys: str) -> Manifest:
    return {key: value for key, value in manifest.items() if key not in keys}


def test_lint_finds_nothing(either_helm: Path) -> None:
    """`helm lint --strict` accepts the chart and its defaults."""
    done = subprocess.run(
        [str(either_helm), "lint", "--strict", "--quiet", str(CHART)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("part", PARTS)
def test_both_versions_of_helm_render_the_same(assets: Path, part: str) -> None:
    """Every part renders with nothing else set, by Helm 3 and Helm 4 alike."""
    old, new = (render(assets / name, {"part": part}) for name in ("helm3", "helm"))

    assert old == new
    assert old


def test_every_value_has_an_example() -> None:
    """EXAMPLES has each leaf of the schema, and none besides."""
    assert set(EXAMPLES) == {value.path for value in reference.values()}


def test_every_value_changes_what_is_rendered(helm: Path) -> None:
    """No value is idle: another one than the default gives another text."""
    together = {path: value for path, (value, beside) in EXAMPLES.items() if not beside and texts(value)}
    plain = render_text(helm)
    everything = render_text(helm, merged(*(settings(path, value) for path, value in together.items())))
    idle = []
    for path, (value, beside) in EXAMPLES.items():
        shown = path in together and any(one in everything and one not in plain for one in texts(value))
        if not shown and render_text(helm, merged(beside, settings(path, value))) == render_text(
            helm, beside
        ):
            idle.append(path)

    assert idle == []


def texts(value: Any) -> list[str]:
    """The texts of an example that no other example has. One render shows whether they arrive."""
    if isinstance(value, dict):
        return [one for part in (*value.keys(), *value.values()) for one in texts(part)]
    if isinstance(value, list):
        return [one for part in value for one in texts(part)]
    return [value] if isinstance(value, str) and re.search(r"[-./]", value) else []


def test_a_second_render_is_the_same_text(helm: Path) -> None:
    """Nothing is generated at random or from the clock, so GitOps tools see no drift."""
    values = merged(EVERYTHING, CERT_MANAGER)
    first, again = (render_anew(helm, values) for _ in range(2))

    assert first == again


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_null(helm: Path, part: str) -> None:
    """No field of any object is null or an empty mapping of labels or annotations."""

    def nulls(node: Any, path: str) -> list[str]:
        if node is None:
            return [path]
        if isinstance(node, dict):
            empty = [path] if node == {} and path.endswith(("annotations", "labels")) else []
            return empty + [found for key, value in node.items() for found in nulls(value, f"{path}.{key}")]
        if isinstance(node, list):
            return [found for index, value in enumerate(node) for found in nulls(value, f"{path}[{index}]")]
        return []

    for beside in ({}, EVERYTHING, merged(EVERYTHING, CERT_MANAGER_ANYWHERE)):
        for (kind, name), manifest in render(helm, merged({"part": part}, beside)).items():
            assert nulls(manifest, f"{kind} {name}") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 3},
        {"controller": {"replica": 3}},
        {"image": {"name": "x"}},
        {"tls": {"certManager": {"issuer": {}}}},
        {"webhook": {"ports": {"http": 80}}},
        {"controller": {"ports": {"https": 8443}}},
        {"part": "member"},
        {"webhook": {"ports": {"https": 443}}},
        {"webhook": {"timeoutSeconds": 31}},
        {"image": {"digest": "latest"}},
        {"controller": {"podLabels": {"a": 1}}},
        {"hub": {"webhookHost": "https://webhook.example"}},
        {"hub": {"webhookHost": "2001:db8::1"}},
        {"hub": {"webhookHost": "webhook.example:0"}},
        {"hub": {"metricsAdapterHost": "192.0.2.1"}},
        {"hub": {"metricsAdapterHost": "[2001:db8::1]:443"}},
        {"hub": {"metricsAdapterHost": "adapter.example/path"}},
        {"tls": {"hosts": ["https://hub.example"]}},
        {"tls": {"hosts": ["hub.example:443"]}},
        {"image": {"registry": "https://registry.example"}},
        {"image": {"repository": "team/fedhpa@sha256"}},
        {"global": {"imageRegistry": "https://registry.example"}},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"podDisruptionBudget": {"minAvailable": "half"}},
        {"prometheusRule": {"docsUrl": "https://docs.example/without-a-slash"}},
    ],
    ids=json.dumps,
)
def test_unknown_and_wrong_values_are_refused(either_helm: Path, wrong: dict[str, Any]) -> None:
    """A misspelt name, a wrong type or a number out of range ends the command with the path of the value."""
    with pytest.raises(Refused, match="values don't meet the specifications"):
        render(either_helm, wrong)


def test_every_mapping_of_the_schema_refuses_unknown_names() -> None:
    """additionalProperties is false wherever the schema lists names, except in `global`: others share it."""

    def open_ones(node: Any, path: str) -> list[str]:
        if not isinstance(node, dict):
            return []
        mine = [path] if "properties" in node and node.get("additionalProperties") is not False else []
        return mine + [found for key, value in node.items() for found in open_ones(value, f"{path}/{key}")]

    assert open_ones(reference.schema(), "") == ["/properties/global"]


@pytest.mark.parametrize("part", ["all", "host"])
@pytest.mark.parametrize("source", ["self", "certManager", "files"])
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_processes_understand_their_arguments(helm: Path, part: str, source: str, name: str) -> None:
    """The flag parser of each process accepts the rendered arguments, and ports agree with probes."""
    tls = {"source": source, "hosts": ["hub.example", "2001:db8::1"], "caBundle": "a PEM text"}
    values = {"part": part, "tls": tls, "watchNamespaces": ["shop"]}
    manifests = render(helm, values)
    flags = parsed(manifests, name)
    (container,) = pod(manifests, name)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert flags["metrics-bind-address"] == f":{ports['metrics']}"
    assert flags["health-probe-bind-address"] == f":{ports['health']}"
    assert flags.get("secure-port", 8443) == ports.get("https", 8443)
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {
        "health"
    }
    assert flags.get("kubeconfig", "") == ("/etc/fedhpa/hub/kubeconfig" if part == "host" else "")


@pytest.mark.parametrize("part", ["all", "host"])
def test_services_and_budgets_select_the_pods(helm: Path, part: str) -> None:
    """Selectors are labels of the pods and never name the release; target ports are names of ports."""
    manifests = render(helm, merged({"part": part}, EVERYTHING))
    for name in DEPLOYMENTS:
        template = manifests["Deployment", name]["spec"]["template"]
        labels = template["metadata"]["labels"].items()
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        service = manifests["Service", name]["spec"]
        selectors = [
            manifests["Deployment", name]["spec"]["selector"]["matchLabels"],
            service["selector"],
            manifests["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"],
            manifests["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"],
        ]

        assert all(selector.items() <= labels for selector in selectors)
        assert all("app.kubernetes.io/instance" not in selector for selector in selectors)
        assert {port["targetPort"] for port in service["ports"]} <= ports
        monitor = manifests["ServiceMonitor", name]["spec"]
        assert (
            monitor["selector"]["matchLabels"].items()
            <= manifests["Service", name]["metadata"]["labels"].items()
        )


def test_pods_are_restricted(helm: Path) -> None:
    """The pods meet Pod Security restricted, and write to no place but /tmp."""
    for name in DEPLOYMENTS:
        spec = pod(render(helm), name)
        (container,) = spec["containers"]

        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume} == {"tmp"}
        assert all(port["containerPort"] > 1024 for port in container["ports"])


@pytest.mark.parametrize(
    ("name", "scenario", "figure"),
    [
        ("fedhpa-webhook", "webhook", "resident, MB"),
        ("fedhpa-metrics-adapter", "adapter", "LIST of 20,000 pods over 10 members, resident, MB"),
    ],
)
def test_requests_cover_what_was_measured(helm: Path, name: str, scenario: str, figure: str) -> None:
    """The requested memory is at least the limit of the benchmark. CPU has no limit, which would throttle."""
    budget = yaml.safe_load((CHART.parents[1] / "benchmarks" / "budget.yaml").read_text(encoding="utf-8"))
    resources = pod(render(helm), name)["containers"][0]["resources"]

    assert int(resources["requests"]["memory"].removesuffix("Mi")) >= budget[scenario][figure]
    assert "cpu" not in resources["limits"]


@pytest.mark.parametrize("part", ["all", "hub"])
def test_webhooks_are_those_of_the_command(helm: Path, part: str) -> None:
    """The configurations are what `fedhpa webhook-config` prints, apart from labels and the caBundle."""
    if part == "all":
        endpoint = Endpoint(namespace=NAMESPACE, service="fedhpa-webhook")
    else:
        endpoint = Endpoint(url=f"https://fedhpa-webhook.{NAMESPACE}.svc:443")
    manifests = render(helm, {"part": part})
    for expected in configurations(endpoint, b""):
        found = manifests[expected["kind"], expected["metadata"]["name"]]

        assert without(found, "metadata") == without(expected, "metadata")
        assert expected["metadata"]["labels"].items() <= found["metadata"]["labels"].items()


@pytest.mark.parametrize("part", ["all", "hub"])
def test_apis_are_those_of_the_command(helm: Path, part: str) -> None:
    """The APIServices are what `fedhpa apiservice` prints, apart from labels and the caBundle."""
    manifests = render(helm, {"part": part, "apis": {"metrics": True}})
    expected = {one["metadata"]["name"]: one["spec"] for one in api_services(Registration(), b"")}
    found = {name: one["spec"] for (kind, name), one in manifests.items() if kind == "APIService"}

    assert found == {name: without(spec, "caBundle") for name, spec in expected.items()}


@pytest.mark.parametrize(("part", "registered"), [("all", False), ("hub", True)])
def test_the_api_of_kubectl_top_is_left_to_a_hub_with_pods(helm: Path, part: str, registered: bool) -> None:
    """metrics.k8s.io is registered by default only on a hub that runs no pods."""
    assert (("APIService", "v1beta1.metrics.k8s.io") in render(helm, {"part": part})) is registered


def test_the_ca_bundle_is_left_to_run_time(helm: Path) -> None:
    """Only a given bundle is rendered, so an upgrade does not blank the published one."""
    assert "caBundle" not in webhook_and_apis(helm, {})
    assert "caBundle" not in webhook_and_apis(helm, {"tls": {"caBundle": "ignored with self"}})
    assert (
        webhook_and_apis(helm, merged(FILES, {"tls": {"caBundle": "text"}})).count('"caBundle": "dGV4dA=="')
        == 6
    )


def webhook_and_apis(helm: Path, values: dict[str, Any]) -> str:
    kinds = ("APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return json.dumps([one for (kind, _), one in render(helm, values).items() if kind in kinds])


def test_cert_manager_injects_its_ca(helm: Path) -> None:
    """With cert-manager each registration names the Certificate whose CA is to be trusted."""
    manifests = render(helm, CERT_MANAGER)
    for (kind, name), manifest in manifests.items():
        if kind == "APIService" or kind.endswith("WebhookConfiguration"):
            place = manifest["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            namespace, _, certificate = place.partition("/")

            assert namespace == NAMESPACE
            spec = manifests["Certificate", certificate]["spec"]
            assert f"{certificate}.{NAMESPACE}.svc" in spec["dnsNames"], name
            assert spec["secretName"] == f"{certificate}-tls"


@pytest.mark.parametrize("values", [{}, CERT_MANAGER], ids=["self", "certManager"])
def test_certificates_have_the_host_that_the_hub_calls(helm: Path, values: dict[str, Any]) -> None:
    """One values file serves both parts: part host puts the webhook's host into its certificate."""
    named = {"hub": {"webhookHost": "webhook.example:8443"}, "tls": {"hosts": ["192.0.2.1"]}}
    manifests = render(helm, merged(HOST, values, named))
    (container,) = pod(manifests, "fedhpa-controller")["containers"]
    if values:
        spec = manifests["Certificate", "fedhpa-webhook"]["spec"]
        assert "webhook.example" in spec["dnsNames"]
        assert spec["ipAddresses"] == ["192.0.2.1"]
    else:
        assert "--certificates-hosts=192.0.2.1,webhook.example" in container["args"]


@pytest.mark.parametrize(
    ("host", "url", "name"),
    [
        ("", f"https://fedhpa-webhook.{NAMESPACE}.svc:443", ""),
        ("webhook.example", "https://webhook.example:443", "webhook.example"),
        ("192.0.2.1:8443", "https://192.0.2.1:8443", "192.0.2.1"),
        ("[2001:db8::1]", "https://[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443", "2001:db8::1"),
    ],
)
def test_hosts_may_be_names_and_addresses(either_helm: Path, host: str, url: str, name: str) -> None:
    """The hub calls the whole address, and the certificate names it without port and brackets."""
    hub, pods = (
        render(either_helm, {"part": part, "hub": {"webhookHost": host}}) for part in ("hub", "host")
    )
    (webhook,) = hub["MutatingWebhookConfiguration", "fedhpa-webhook"]["webhooks"]

    assert webhook["clientConfig"]["url"] == f"{url}/mutate-federatedhpa"
    assert parsed(pods, "fedhpa-controller").get("certificates-hosts", ()) == ((name,) if name else ())


@pytest.mark.parametrize(
    "values",
    [{"tls": {"source": "files"}}, {**HUB, "tls": {"source": "files"}}, merged(HUB, CERT_MANAGER)],
)
def test_a_ca_that_nobody_publishes_is_asked_for(either_helm: Path, values: dict[str, Any]) -> None:
    """Otherwise the hub could verify neither webhook nor adapter, and would refuse all FederatedHPAs."""
    with pytest.raises(Refused, match=r"tls\.caBundle is not set"):
        render(either_helm, values)


def test_an_image_is_asked_for(either_helm: Path) -> None:
    """With a default name, the owner of that name could supply our pods. Part hub needs no image."""
    with pytest.raises(Refused, match=r"image\.repository is not set"):
        render(either_helm, {"image": {"repository": ""}})

    assert render(either_helm, merged(HUB, {"image": {"repository": ""}}))


def test_a_mirror_replaces_the_registry(helm: Path) -> None:
    """global.imageRegistry wins, and what else stands in `global` is ignored."""
    manifests = render(helm, {"global": {"imageRegistry": "mirror.example:5000", "storageClass": "fast"}})

    assert pod(manifests, "fedhpa-webhook")["containers"][0]["image"] == "mirror.example:5000/fedhpa:0.1.0"


def test_a_budget_has_one_bound(helm: Path) -> None:
    """The API refuses a budget with both."""
    specs = [
        render(helm, {"podDisruptionBudget": values})["PodDisruptionBudget", "fedhpa-webhook"]["spec"]
        for values in ({}, {"minAvailable": "50%"})
    ]

    assert [without(spec, "selector") for spec in specs] == [{"maxUnavailable": 1}, {"minAvailable": "50%"}]


def test_only_the_adapter_reaches_the_store(helm: Path) -> None:
    """The ports of the metrics store are open for the process that queries it."""
    manifests = render(helm, {"networkPolicy": {"enabled": True, "storePorts": [9090]}})
    open_to = [name for name in DEPLOYMENTS if "9090" in json.dumps(manifests["NetworkPolicy", name]["spec"])]

    assert open_to == ["fedhpa-metrics-adapter"]


def test_series_keep_the_namespace_of_their_object(helm: Path) -> None:
    """Without honorLabels all objects would be in the namespace of the pods, and two of one name alike."""
    manifests = render(helm, EVERYTHING)
    endpoints = [manifests["ServiceMonitor", name]["spec"]["endpoints"] for name in DEPLOYMENTS]

    assert [one["honorLabels"] for (one,) in endpoints] == [True] * len(DEPLOYMENTS)


def test_crds_stay_and_are_those_of_the_models(helm: Path) -> None:
    """The CRDs are the generated ones, and Helm never deletes them."""
    manifests = render(helm)
    kinds = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA, crd.CLUSTER, *crd.RECORDS)
    for expected in map(crd.custom_resource_definition, kinds):
        found = manifests["CustomResourceDefinition", expected["metadata"]["name"]]

        assert found["spec"] == expected["spec"]
        assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"propagation": "karmada"}, OUR_CRDS),
        ({"crds": {"install": False}}, OUR_CRDS),
        (HOST, []),
    ],
    ids=str,
)
def test_crds_of_others_are_left_alone(helm: Path, values: dict[str, Any], expected: list[str]) -> None:
    """A Karmada hub has CRDs of its own, but no ScalingRecord. The host of an external hub needs none."""
    found = [name for kind, name in render(helm, values) if kind == "CustomResourceDefinition"]

    assert found == expected


def test_alerts_and_dashboard_are_the_tested_files(helm: Path) -> None:
    """The PrometheusRule and the ConfigMap have the files that other tests check. Runbooks get an address."""
    docs = "https://docs.example/"
    manifests = render(helm, merged(EVERYTHING, {"prometheusRule": {"docsUrl": docs}}))
    files = CHART / "files"
    alerts = yaml.safe_load((files / "alerts.yaml").read_text())
    for rule in (rule for group in alerts["groups"] for rule in group["rules"]):
        rule["annotations"]["runbook_url"] = docs + rule["annotations"]["runbook_url"]

    assert manifests["PrometheusRule", "fedhpa"]["spec"] == alerts
    dashboard = manifests["ConfigMap", "fedhpa-dashboard"]["data"]["fedhpa.json"]
    assert json.loads(dashboard) == json.loads((files / "dashboard.json").read_text())


@pytest.mark.parametrize("part", PARTS)
def test_every_object_carries_the_labels(helm: Path, part: str) -> None:
    """Objects can be found by app.kubernetes.io/part-of, and commonLabels reach all of them and the pods."""
    values = merged({"part": part, "commonLabels": {"team": "scaling"}}, EVERYTHING, CERT_MANAGER_ANYWHERE)
    for (kind, name), manifest in render(helm, values).items():
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "fedhpa", (kind, name)
        assert labels["team"] == "scaling", (kind, name)
        assert {"app.kubernetes.io/name", "app.kubernetes.io/component"} <= labels.keys(), (kind, name)
        if kind == "Deployment":
            assert manifest["spec"]["template"]["metadata"]["labels"]["team"] == "scaling"


def hook(manifest: dict[str, Any]) -> str:
    """The hook of helm that an object belongs to; "" for an object of the release."""
    return str(manifest["metadata"].get("annotations", {}).get("helm.sh/hook", ""))


@pytest.mark.parametrize(("part", "kinds"), [("all", 4), ("host", 1), ("hub", 0)])
def test_clusters_are_released_after_the_controller(helm: Path, part: str, kinds: int) -> None:
    """A Job runs where the processes ran, and only if the controller has finalizers."""
    hooks = [one for one in render(helm, {"part": part, "propagation": "direct"}).values() if hook(one)]
    jobs = [one["spec"]["template"]["spec"] for one in hooks if one["kind"] == "Job"]

    assert {hook(one) for one in hooks} <= {"post-delete"}
    assert len(hooks) == kinds
    assert [job["containers"][0]["args"][0] for job in jobs] == ["release-clusters"] * bool(kinds)
    assert not any(map(hook, render(helm, {"part": part, "propagation": "karmada"}).values()))


def test_host_and_hub_are_together_what_all_is(helm: Path) -> None:
    """The two parts have the objects of `all`, apart from the ServiceAccounts, which both need."""
    whole, host, hub = (
        {key for key, one in render(helm, {"part": part, "apis": {"metrics": True}}).items() if not hook(one)}
        for part in PARTS
    )

    assert whole == host | hub
    assert {kind for kind, _ in host & hub} == {"ServiceAccount", "Service"}


def test_extra_objects_may_be_templates(helm: Path) -> None:
    """A text among extraObjects is rendered as a template."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-further\n"
    manifests = render(helm, {"extraObjects": [text]})

    assert ("ConfigMap", "fedhpa-further") in manifests


# Only part hub serves metrics.k8s.io by default.
NO_METRICS = ("--api=custom", "--api=external")
RIGHTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "default": (
        {},
        ("--propagation=direct", "--manage-certificates", *NO_METRICS, "--aggregate-to-default-roles"),
    ),
    "hub": (
        {"part": "hub"},
        ("--part=hub", "--propagation=direct", "--manage-certificates", "--aggregate-to-default-roles"),
    ),
    "without custom metrics": (
        {"apis": {"metrics": True, "custom": False}},
        (
            "--propagation=direct",
            "--manage-certificates",
            "--api=metrics",
            "--api=external",
            "--aggregate-to-default-roles",
        ),
    ),
    "host": (
        {"part": "host", "rbac": {"aggregateToDefaultRoles": False}},
        ("--part=host", "--propagation=direct", "--manage-certificates"),
    ),
    "karmada": (
        {"propagation": "karmada", **FILES, "rbac": {"aggregateToDefaultRoles": False}},
        ("--propagation=karmada", "--secrets-namespace=karmada-cluster"),
    ),
    "metrics of the hub": (
        {"controller": {"metricsVia": "hub"}, "rbac": {"secretsNamespaces": ["credentials"]}},
        (
            "--propagation=direct",
            "--metrics-via=hub",
            "--secrets-namespace=credentials",
            "--manage-certificates",
            *NO_METRICS,
            "--aggregate-to-default-roles",
        ),
    ),
    "members of ClusterProfiles": (
        {
            "members": {"from": ["clusterprofiles"], "clusterProfiles": {"namespaces": ["fleet", "fleet2"]}},
            "controller": {"pluginSecrets": ["m2", "m1"]},
            "rbac": {"aggregateToDefaultRoles": False},
        },
        (
            "--propagation=direct",
            "--manage-certificates",
            *NO_METRICS,
            "--members-from=clusterprofiles",
            "--clusterprofile-namespaces=fleet,fleet2",
            "--plugin-secret=m1",
            "--plugin-secret=m2",
        ),
    ),
    "members of Argo CD": (
        {**ARGOCD, "rbac": {"aggregateToDefaultRoles": False}},
        (
            "--propagation=direct",
            "--manage-certificates",
            *NO_METRICS,
            "--members-from=argocd",
            "--argocd-secrets=us,eu",
        ),
    ),
    "other workloads": (
        {
            "propagation": "karmada",
            "rbac": {"scaleTargets": [{"group": "apps", "resources": ["deployments"]}, ROLLOUTS]},
        },
        (
            "--propagation=karmada",
            "--secrets-namespace=karmada-cluster",
            "--scale-target=apps/deployments",
            "--scale-target=argoproj.io/rollouts",
            "--manage-certificates",
            *NO_METRICS,
            "--aggregate-to-default-roles",
        ),
    ),
}


@pytest.mark.parametrize(("values", "options"), RIGHTS.values(), ids=RIGHTS)
def test_rights_are_those_of_the_command(
    helm: Path, values: dict[str, Any], options: tuple[str, ...]
) -> None:
    """Roles, bindings and accounts are what `fedhpa rbac hub` prints, apart from Helm's labels."""
    printed = fedhpa("rbac", "hub", *options)
    expected = {named(one): one for one in yaml.safe_load_all(printed.stdout)}
    found = {
        named(one): one
        for (kind, _), one in render(helm, values).items()
        if not hook(one)
        and (
            kind == "ServiceAccount"
            or one["apiVersion"].startswith("rbac.")
            or (kind == "ConfigMap" and "data" not in one)
        )
    }

    assert printed.returncode == 0, printed.stderr
    assert found.keys() == expected.keys()
    for key, one in expected.items():
        assert without(found[key], "metadata") == without(one, "metadata"), key
        assert one["metadata"]["labels"].items() <= found[key]["metadata"]["labels"].items(), key


def named(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.mark.parametrize("part", PARTS)
def test_no_right_of_the_defaults_is_wider_than_needed(helm: Path, part: str) -> None:
    """No ClusterRole has a wildcard or Secrets, and in the release's namespace only named ones are read."""
    for (kind, name), manifest in render(helm, {"part": part}).items():
        for rule in manifest.get("rules", ()) if kind in ("ClusterRole", "Role") else ():
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], name
            if "secrets" in rule["resources"]:
                assert kind == "Role", name
                assert rule.get("resourceNames") or rule["verbs"] == ["create"], name


def test_users_of_the_hub_have_the_rights_of_the_processes(helm: Path) -> None:
    """Each user of hub.users is beside the ServiceAccount in every binding of part hub."""
    manifests = render(helm, {"part": "hub", "hub": {"users": ["hub-user"]}})
    for (kind, name), manifest in manifests.items():
        if kind.endswith("RoleBinding"):
            assert [one["name"] for one in manifest["subjects"]][1:] == ["hub-user"], name


def test_each_process_may_have_its_own_user_of_the_hub(helm: Path) -> None:
    """Its pods mount its Secret, and its user has the rights of `fedhpa rbac` for it, and no others."""
    kinds = {"controller": "controller", "metricsAdapter": "metrics-adapter", "webhook": "webhook"}
    own: dict[str, Any] = {
        each: {"hubKubeconfigSecret": f"{name}-hub", "hubUsers": [f"{name}-user"]}
        for each, name in kinds.items()
    }
    host, hub = render(helm, {"part": "host", **own}), render(helm, {"part": "hub", **own})

    for name in kinds.values():
        pod = host["Deployment", f"fedhpa-{name}"]["spec"]["template"]["spec"]
        mounted = [each["secret"]["secretName"] for each in pod["volumes"] if each["name"] == "hub"]
        assert mounted == [f"{name}-hub"]
    bindings = [manifest for (kind, _), manifest in hub.items() if kind.endswith("RoleBinding")]
    assert len(bindings) > len(kinds)
    for binding in bindings:
        account, user = binding["subjects"]
        assert user["kind"] == "User"
        assert f"fedhpa-{user['name']}" == f"{account['name']}-user"


OWN_LABELS = ("name", "component", "part-of", "instance", "version", "managed-by")


@pytest.mark.parametrize("label", [*(f"app.kubernetes.io/{name}" for name in OWN_LABELS), "helm.sh/chart"])
@pytest.mark.parametrize("value", ["commonLabels", "webhook.podLabels", "serviceMonitor.labels"])
def test_labels_of_the_chart_cannot_be_set(either_helm: Path, value: str, label: str) -> None:
    """The selectors would match no pod, or a key would stand twice; the message names value and label."""
    with pytest.raises(Refused, match=f"{value} must not set the label {label}"):
        render(either_helm, settings(value, {label: "other"}))


def test_a_label_for_monitoring_comes_before_a_common_one(helm: Path) -> None:
    """The same label in both values stands once."""
    found = render(
        helm, merged(EVERYTHING, {"commonLabels": {"team": "a"}, "serviceMonitor": {"labels": {"team": "b"}}})
    )
    text = render_text(
        helm, {"commonLabels": {"team": "a"}, "serviceMonitor": {"enabled": True, "labels": {"team": "b"}}}
    )

    assert found["ServiceMonitor", "fedhpa-webhook"]["metadata"]["labels"]["team"] == "b"
    assert all(one.count("\n    team: ") <= 1 for one in text.split("\n---"))


@pytest.mark.parametrize(("name", "number"), [("install", 3), ("install-on-karmada", 2)])
def test_the_commands_of_the_pages_render(either_helm: Path, tmp_path: Path, name: str, number: int) -> None:
    """Each `helm install` of the page names values that the chart has, as does the page's values.yaml."""
    page = (CHART.parents[1] / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(?:\$ )?helm install .*?[^\\]$", page, flags=re.MULTILINE | re.DOTALL)
    values = tmp_path / "values.yaml"
    files = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    values.write_text(next(text for text in files if "image:" in text), encoding="utf-8")

    assert len(commands) == number
    for command in commands:
        given = re.findall(r"--set=(\S+)", command)
        done = subprocess.run(
            [
                *(str(either_helm), "template", "fedhpa", str(CHART), f"--values={values}"),
                *(f"--set={one}" for one in given),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        assert given or "-f values.yaml" in command
