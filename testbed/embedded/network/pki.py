"""The certificates and kubeconfigs of one embedded plane, in a folder: a CA for its server and its users, and
one for its front proxy.
"""

import datetime as dt
import ssl
from functools import lru_cache
from pathlib import Path

from certs import CertificateAuthority, IssuedCertificate
from testbed.stage.kubeconfig import by_certificate, write_kubeconfig

HOUR = dt.timedelta(hours=1)
SERVER_NAMES = ("localhost", "kubernetes.default.svc")


class Pki:
    """What one plane proves itself with, and believes. Nothing here outlives the folder."""

    def __init__(self, folder: Path, plane: str) -> None:
        self.folder = folder
        self.plane = plane
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ca = CertificateAuthority.create(f"{plane}-ca")
        self.front_proxy_ca = CertificateAuthority.create(f"{plane}-front-proxy-ca")
        self._users: dict[str, tuple[Path, Path]] = {}
        self._front_proxy = self._saved(self.front_proxy_ca.issue_client("front-proxy-client"), "front-proxy")

    def serving(self, *, stranger: bool = False, expired: bool = False) -> ssl.SSLContext:
        """A server's context, that asks clients for certificates and does not insist on them.

        `stranger`: its certificate is of a CA of the same name that nobody trusts; `expired`: since an hour.
        """
        issuer = CertificateAuthority.create(f"{self.plane}-ca") if stranger else self.ca
        issued = dt.datetime.now(dt.UTC) - (2 * HOUR if expired else 0 * HOUR)
        validity = HOUR if expired else 24 * 365 * HOUR
        leaf = issuer.issue_server(
            "kube-apiserver", dns=SERVER_NAMES, ips=["127.0.0.1"], validity=validity, now=issued
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._saved(leaf, "serving"))
        context.load_verify_locations(cadata=self.ca.bundle_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        # OpenSSL refuses to resume sessions that carry client certificates without more ado.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        return context

    def user(self, name: str, *groups: str) -> tuple[Path, Path]:
        """The files of a client certificate, issued when first asked for, and of its key."""
        if name not in self._users:
            leaf = self.ca.issue_client(name, organizations=groups)
            self._users[name] = self._saved(leaf, f"user-{len(self._users)}")
        return self._users[name]

    def kubeconfig(self, path: Path, server: str, name: str, *groups: str, token: str = "") -> Path:
        """Write a kubeconfig, all inside: with the token, or with a client certificate of that user."""
        user = {"token": token} if token else by_certificate(*self.user(name, *groups))
        return write_kubeconfig(path, server, self.ca.bundle_pem, user, plane=self.plane, name=name)

    def client(self, name: str | None = None, *groups: str) -> ssl.SSLContext:
        """A context that trusts this plane and, with a name, shows that user's certificate."""
        context = ssl.create_default_context(cadata=self.ca.bundle_pem.decode())
        if name is not None:
            context.load_cert_chain(*self.user(name, *groups))
        return context

    def front_proxy(self, ca_pem: str, *, verify: bool = True) -> ssl.SSLContext:
        """A context that trusts an aggregated server and shows it the front proxy's certificate."""
        return trusting(ca_pem, verify, self._front_proxy)

    def _saved(self, leaf: IssuedCertificate, name: str) -> tuple[Path, Path]:
        leaf.save(self.folder, cert_name=f"{name}.crt", key_name=f"{name}.key")
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"


@lru_cache(maxsize=64)
def trusting(
    ca_pem: str, verify: bool = True, certificate: tuple[Path, Path] | None = None
) -> ssl.SSLContext:
    """A client's context; without a CA the system's are trusted. ValueError or SSLError for a wrong CA."""
    context = ssl.create_default_context(cadata=ca_pem or None)
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context
