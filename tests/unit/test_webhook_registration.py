"""The objects that register the webhook, and the rights it may be given."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from fedhpa.cli.main import app
from webhook.registration import Endpoint, configurations


def printed(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["webhook-config", *arguments])
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.stdout))


def webhooks() -> list[dict[str, Any]]:
    mutating, validating = configurations(Endpoint(url="https://10.0.0.1:8443/"), b"ca")
    return [*mutating["webhooks"], *validating["webhooks"]]


def test_each_kind_is_registered_under_karmadas_names() -> None:
    """Resource, path and what happens when the webhook is down, as in the reference."""
    rows = [
        (
            hook["name"],
            hook["rules"][0]["resources"],
            hook["clientConfig"]["url"].removeprefix("https://10.0.0.1:8443"),
            hook["failurePolicy"],
        )
        for hook in webhooks()
    ]

    assert rows == [
        ("autoscaling.karmada.io", ["federatedhpas"], "/mutate-federatedhpa", "Ignore"),
        ("federatedhpa.karmada.io", ["federatedhpas"], "/validate-federatedhpa", "Fail"),
        ("cronfederatedhpa.karmada.io", ["cronfederatedhpas"], "/validate-cronfederatedhpa", "Fail"),
    ]


def test_what_all_of_them_have_in_common() -> None:
    """Creations and updates of the objects themselves, in any version, for three seconds."""
    for hook in webhooks():
        assert len(hook["rules"]) == 1
        assert hook["rules"][0] | {"resources": None} == {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["autoscaling.karmada.io"],
            "apiVersions": ["*"],
            "resources": None,
            "scope": "Namespaced",
        }
        assert hook["timeoutSeconds"] == 3
        assert hook["matchPolicy"] == "Equivalent"
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert [condition["name"] for condition in hook["matchConditions"]] == [
            "not-on-its-way-out",
            "not-a-subresource",
        ]


def test_the_configurations_are_not_karmadas() -> None:
    """Applying ours never overwrites the ones that hold all of Karmada's webhooks."""
    names = {configuration["metadata"]["name"] for configuration in configurations(Endpoint(url="x"), b"")}

    assert names == {"fedhpa-webhook"}


def test_without_a_reader_no_rights_are_printed() -> None:
    """The webhook needs none for its verdicts."""
    assert [document["kind"] for document in printed("--url", "https://10.0.0.1:8443")] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


@pytest.mark.parametrize(
    ("reader", "subject"),
    [
        (
            "fedhpa-system/fedhpa-webhook",
            {"kind": "ServiceAccount", "namespace": "fedhpa-system", "name": "fedhpa-webhook"},
        ),
        (
            "system:fedhpa",
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:fedhpa"},
        ),
    ],
)
def test_a_reader_gets_the_least_rights(reader: str, subject: dict[str, str]) -> None:
    """Nothing can be written, no Secret and no workload read: autoscalers, clusters, scales of targets."""
    role, binding, *_ = printed("--service", "fedhpa-system/fedhpa-webhook", "--reader", reader)

    assert binding["subjects"] == [subject]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    resources = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert verbs == {"get", "list", "watch"}
    assert resources == {
        "federatedhpas",
        "cronfederatedhpas",
        "horizontalpodautoscalers",
        "clusters",
        "deployments/scale",
        "replicasets/scale",
        "statefulsets/scale",
    }


@pytest.mark.parametrize("reader", ["/name", "namespace/", "a/b/c"])
def test_a_reader_that_is_none_is_refused(reader: str) -> None:
    """Exit 2, naming the option."""
    done = CliRunner().invoke(app, ["webhook-config", "--url", "https://x", "--reader", reader])

    assert done.exit_code != 0
    assert "--reader" in str(done.exception)
