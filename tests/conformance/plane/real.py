"""A real plane's hub as the plane under test."""

from __future__ import annotations

from pathlib import Path

from testbed.real.controlplane import ControlPlane
from tests.conformance.plane.under_test import LIMITED, PlaneUnderTest

# On a busy machine an unavailable API may stay unavailable for a minute.
PATIENCE = 160.0


def of_hub(hub: ControlPlane, member: ControlPlane | None = None) -> PlaneUnderTest:
    """The hub, where no controller creates pods; `member` has working metrics."""
    if not hub.pki.file(f"{LIMITED}.crt").exists():
        hub.pki.client(LIMITED, LIMITED)
    folder: Path = hub.folder / "conformance"
    folder.mkdir(exist_ok=True)
    return PlaneUnderTest(
        server=hub.server,
        admin=hub.pki.client_context("admin"),
        limited=hub.pki.client_context(LIMITED),
        nobody=hub.pki.client_context(None),
        kubeconfig=hub.kubeconfig,
        folder=folder,
        kubectl=hub.assets / "kubectl",
        member_kubeconfig=member.kubeconfig if member is not None else None,
        patience=PATIENCE,
    )
