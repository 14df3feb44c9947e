"""The certificates and kubeconfigs of one plane, in a folder."""

import datetime as dt
import ssl
from functools import lru_cache
from pathlib import Path

from certs import CertificateAuthority, IssuedCertificate
from testbed.stage import by_certificate, write_kubeconfig

HOUR = dt.timedelta(hours=1)
SERVER_NAMES = ("localhost", "kubernetes.default.svc")


class Pki:
    """One CA for the server and its users, and one CA for the front proxy."""

    def __init__(self, folder: Path, plane: str) -> None:
        self.folder = folder
        self.plane = plane
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ca = CertificateAuthority.create(f"{plane}-ca")
        self.front_proxy_ca = CertificateAuthority.create(f"{plane}-front-proxy-ca")
        self._users: dict[str, tuple[Path, Path]] = {}
        self._front_proxy = self._saved(self.front_proxy_ca.issue_client("front-proxy-client"), "front-proxy")

    def serving(self, *, untrusted: bool = False, expired: bool = False) -> ssl.SSLContext:
        """Returns a server context that requests client certificates without requiring them.

        `untrusted`: another CA of the same name signs the certificate. `expired`: it expired an hour ago.
        """
        issuer = CertificateAuthority.create(f"{self.plane}-ca") if untrusted else self.ca
        issued = dt.datetime.now(dt.UTC) - (2 * HOUR if expired else 0 * HOUR)
        validity = HOUR if expired else 24 * 365 * HOUR
        leaf = issuer.issue_server(
            "kube-apiserver", dns=SERVER_NAMES, ips=["127.0.0.1"], validity=validity, now=issued
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._saved(leaf, "serving"))
        context.load_verify_locations(cadata=self.ca.bundle_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        # OpenSSL refuses to resume sessions with client certificates unless a session id context is set.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        return context

    def user(self, name: str, *groups: str) -> tuple[Path, Path]:
        """Returns the files of a user's client certificate and key."""
        if name not in self._users:
            leaf = self.ca.issue_client(name, organizations=groups)
            self._users[name] = self._saved(leaf, f"user-{len(self._users)}")
        return self._users[name]

    def kubeconfig(self, path: Path, server: str, name: str, *groups: str, token: str = "") -> Path:
        """Write a kubeconfig with the token or, without one, with the user's client certificate."""
        user = {"token": token} if token else by_certificate(*self.user(name, *groups))
        return write_kubeconfig(path, server, self.ca.bundle_pem, user, plane=self.plane, name=name)

    def client(self, name: str | None = None, *groups: str) -> ssl.SSLContext:
        """Returns a client context that trusts this plane; with a name, it sends that user's certificate."""
        context = ssl.create_default_context(cadata=self.ca.bundle_pem.decode())
        if name is not None:
            context.load_cert_chain(*self.user(name, *groups))
        return context

    def front_proxy(self, ca_pem: str) -> ssl.SSLContext:
        """Returns a client context with the front proxy's certificate."""
        return client_context(ca_pem, self._front_proxy)

    def _saved(self, leaf: IssuedCertificate, name: str) -> tuple[Path, Path]:
        leaf.save(self.folder, cert_name=f"{name}.crt", key_name=f"{name}.key")
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"


@lru_cache(maxsize=64)
def client_context(ca_pem: str, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Returns a client context that trusts the CA, or the system's CAs if `ca_pem` is "".

    Raises ValueError or SSLError for a CA that cannot be read.
    """
    context = ssl.create_default_context(cadata=ca_pem or None)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context
