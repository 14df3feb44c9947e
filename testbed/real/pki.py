"""Certificates and kubeconfigs of one control plane."""

import ssl
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs import CertificateAuthority
from testbed.stage import by_certificate, write_kubeconfig

SERVICE_RANGE = "10.96.0.0/16"
KUBERNETES_SERVICE_IP = "10.96.0.1"


class PlanePki:
    """The keys and certificates of one control plane, in one folder.

    One CA signs clients and servers, another one front proxies. A key signs service account tokens.
    """

    def __init__(self, folder: Path, plane: str) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.ca = CertificateAuthority.create(f"{plane}-ca")
        self.front_proxy_ca = CertificateAuthority.create(f"{plane}-front-proxy-ca")
        self.ca.save(folder)
        self.file("front-proxy-ca.crt").write_bytes(self.front_proxy_ca.bundle_pem)
        self.server(
            "apiserver",
            dns=["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
            ips=["127.0.0.1", KUBERNETES_SERVICE_IP],
        )
        # etcd's gateway is a client of etcd, so the serving certificate must allow client authentication.
        self.server("etcd", dns=["localhost"], client_auth=True)
        self.client("etcd-client", "kube-apiserver-etcd-client")
        self.client("kubelet-client", "kube-apiserver-kubelet-client", groups=["system:masters"])
        self.client("admin", "system:admin", groups=["system:masters"])
        self.client("kube-controller-manager", "system:kube-controller-manager")
        self.client("kube-scheduler", "system:kube-scheduler")
        proxy = self.front_proxy_ca.issue_client("front-proxy-client")
        proxy.save(folder, cert_name="front-proxy-client.crt", key_name="front-proxy-client.key")
        self._save_service_account_key()

    def file(self, name: str) -> Path:
        """Returns the path of a file in the folder."""
        return self.folder / name

    def server(
        self, name: str, *, dns: list[str], ips: list[str] | None = None, client_auth: bool = False
    ) -> None:
        """Issues NAME.crt and NAME.key for a server on 127.0.0.1."""
        leaf = self.ca.issue_server(name, dns=dns, ips=ips or ["127.0.0.1"], client_auth=client_auth)
        leaf.save(self.folder, cert_name=f"{name}.crt", key_name=f"{name}.key")

    def client(self, name: str, user: str, *, groups: list[str] | None = None) -> None:
        """Issues NAME.crt and NAME.key for a user."""
        leaf = self.ca.issue_client(user, organizations=groups or [])
        leaf.save(self.folder, cert_name=f"{name}.crt", key_name=f"{name}.key")

    def kubeconfig(self, name: str, plane: str, server: str, path: Path) -> Path:
        """Writes a kubeconfig with the client certificate NAME inline."""
        user = by_certificate(self.file(f"{name}.crt"), self.file(f"{name}.key"))
        return write_kubeconfig(path, server, self.ca.bundle_pem, user, plane=plane, name=name)

    def client_context(self, name: str | None) -> ssl.SSLContext:
        """Returns a TLS context that trusts this plane and, with `name`, presents that client certificate."""
        context = ssl.create_default_context(cadata=self.ca.bundle_pem.decode())
        if name is not None:
            context.load_cert_chain(self.file(f"{name}.crt"), self.file(f"{name}.key"))
        return context

    def _save_service_account_key(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.file("service-account.key").touch(mode=0o600)
        self.file("service-account.key").write_bytes(private)
        self.file("service-account.pub").write_bytes(public)
