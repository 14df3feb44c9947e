"""The API server that has the Secrets of the certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller import certificates
from controller.flags import CERTIFICATES_KUBECONFIG, SECTIONS
from fedhpa.kube import SYSTEM, ApiClient, ApiConfig
from fedhpa.serving.flags.parsing import parse_flags

HUB = ApiConfig(server="https://hub")
POD = ApiConfig(server="https://pod")


@pytest.mark.parametrize(
    ("flags", "in_pod", "server"),
    [
        ([], False, "https://hub"),
        (["--kubeconfig=hub"], False, "https://hub"),
        ([], True, "https://hub"),
        (["--kubeconfig=hub"], True, "https://pod"),
        (["--kubeconfig=hub", "--certificates-kubeconfig={own}"], True, "https://own"),
        (["--certificates-kubeconfig={own}"], False, "https://own"),
    ],
)
async def test_it_is_the_pods_own_unless_a_flag_names_another(
    flags: list[str], in_pod: bool, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod without --kubeconfig the hub is the pod's own API server already."""
    own = tmp_path / "own"
    own.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: 'https://own'}}]\nusers: [{name: x, user: {}}]\n"
    )
    monkeypatch.setattr(certificates, "in_cluster_config", lambda _: POD)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    given = ["--manage-certificates", *(flag.format(own=own) for flag in flags)]
    values = parse_flags(SECTIONS, given, {})
    config = await certificates.secrets_config(values, clock=SYSTEM)
    kubeconfig = values[CERTIFICATES_KUBECONFIG]

    async with (
        ApiClient(HUB) as hub,
        certificates._secrets_api(config, kubeconfig, hub, clock=SYSTEM) as found,
    ):
        assert found.config.server == server
