"""Kubeconfig files with inline credentials for one API server."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(
    path: Path,
    server: str,
    authority: bytes,
    user: Mapping[str, str],
    *,
    plane: str = "hub",
    name: str = "user",
    namespace: str = "",
) -> Path:
    """Writes a kubeconfig for `server`, readable by its owner only; returns the path.

    `authority` is the PEM of the server's CA. `user` is a token, or the result of `by_certificate`.
    """
    cluster = {"server": server, "certificate-authority-data": _inline(authority)}
    context = {"cluster": plane, "user": name} | ({"namespace": namespace} if namespace else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": plane, "cluster": cluster}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": plane, "context": context}],
        "current-context": plane,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def merge_kubeconfigs(path: Path, kubeconfigs: Mapping[str, Path]) -> Path:
    """Writes a kubeconfig with a context for each of the kubeconfigs, by name; returns the path.

    Clusters and contexts have these names, users are called NAME-admin. The first context is the current one.
    """
    merged: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [],
        "users": [],
        "contexts": [],
    }
    for name, kubeconfig in kubeconfigs.items():
        content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        user = f"{name}-admin"
        merged["clusters"].append({**content["clusters"][0], "name": name})
        merged["users"].append({**content["users"][0], "name": user})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": user}})
    merged["current-context"] = next(iter(kubeconfigs))
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(merged, sort_keys=False), encoding="utf-8")
    return path


def by_certificate(certificate: Path, key: Path) -> dict[str, str]:
    """Returns the user entry for a client certificate, with the content of both files."""
    return {
        "client-certificate-data": _inline(certificate.read_bytes()),
        "client-key-data": _inline(key.read_bytes()),
    }


def _inline(pem: bytes) -> str:
    return b64encode(pem).decode()
