"""The manifests that register the webhook and give it permissions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from certs import CertificateAuthority
from fedhpa.cli.main import app
from tests.support.commands import fedhpa


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The file of a CA."""
    CertificateAuthority.create("ca").save(tmp_path)
    return tmp_path / "ca.crt"


def printed(authority: Path, *arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["webhook-config", "--ca-file", str(authority), *arguments])
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.stdout))


def test_without_a_ca_nothing_is_printed() -> None:
    """The API server would not trust the webhook, and its policy Fail would refuse all objects."""
    done = fedhpa("webhook-config", "--url", "https://10.0.0.1:8443")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fedhpa: --ca-file is missing: ")
    assert len(done.stderr.splitlines()) == 1


def test_without_a_reader_no_permissions_are_printed(authority: Path) -> None:
    """Verdicts need no permissions."""
    assert [document["kind"] for document in printed(authority, "--url", "https://10.0.0.1:8443")] == [
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
def test_a_reader_gets_the_least_permissions(authority: Path, reader: str, subject: dict[str, str]) -> None:
    """It can list autoscalers and clusters, but no Secret and no workload. It can write nothing."""
    role, binding, *_ = printed(authority, "--service", "fedhpa-system/fedhpa-webhook", "--reader", reader)

    assert binding["subjects"] == [subject]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    resources = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert verbs == {"list", "watch"}
    assert resources == {
        "federatedhpas",
        "cronfederatedhpas",
        "horizontalpodautoscalers",
        "clusters",
    }


@pytest.mark.parametrize("reader", ["/name", "namespace/", "a/b/c"])
def test_an_invalid_reader_is_refused(authority: Path, reader: str) -> None:
    """The error names the option."""
    done = fedhpa("webhook-config", "--url=https://x", f"--ca-file={authority}", "--reader", reader)

    assert done.returncode == 2
    assert "--reader" in done.stderr
