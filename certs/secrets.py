"""Secrets and registrations as objects of the API, to and from the state of `certs.stages`.

Whatever stands in these objects is decoded: a part that cannot be used counts as missing.
"""

from __future__ import annotations

import base64
import binascii
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning

from certs.authority import CertificateAuthority, IssuedCertificate, key_pem
from certs.state import MAX_ROOTS, Authority, Status
from fedhpa.api.rights import PART_OF, PROJECT

Object = dict[str, Any]

AUTHORITY_SECRET: Final = "fedhpa-ca"  # noqa: S105  # the name of a Secret
CA_CERT, CA_KEY, NEXT_CERT, NEXT_KEY = "ca.crt", "ca.key", "next.crt", "next.key"
TLS_CERT, TLS_KEY = "tls.crt", "tls.key"
# A person asks for a new root with this annotation on the CA Secret. The leader removes it.
ROTATE: Final = "fedhpa.io/rotate"
# Bytes of one value. A bundle of eight roots has about 6 kB, and each value is parsed every few seconds.
MAX_VALUE: Final = 64 * 1024


def is_ours(found: Mapping[str, Any]) -> bool:
    """True if an object has the label of this project."""
    return _mapping(_mapping(found.get("metadata")).get("labels")).get(PART_OF) == PROJECT


def status_of(found: Mapping[str, Any] | None) -> Status:
    """Returns the status of a Secret that was read; None if it does not exist."""
    if found is None:
        return Status.ABSENT
    return Status.OURS if is_ours(found) else Status.FOREIGN


def decode_authority(found: Mapping[str, Any] | None) -> Authority:
    """Returns the content of the CA Secret."""
    if found is None:
        return Authority()
    roots = bundle_of(_value(found, CA_CERT))
    signer = _root(roots, _value(found, CA_KEY))
    successor = _root(bundle_of(_value(found, NEXT_CERT)), _value(found, NEXT_KEY))
    used = [root.certificate for root in (signer, successor) if root is not None]
    annotations = _mapping(_mapping(found.get("metadata")).get("annotations"))
    others = tuple(root for root in roots if root not in used)
    return Authority(signer, successor, others, rotation_requested=ROTATE in annotations)


def encode_authority(authority: Authority) -> dict[str, bytes]:
    """Returns the data of the CA Secret. `ca.crt` has all roots, and the one that signs is the first."""
    data = {CA_CERT: bundle_pem(authority.roots)}
    if authority.signer is not None:
        data[CA_KEY] = key_pem(authority.signer.key)
    if authority.successor is not None:
        data[NEXT_CERT] = bundle_pem([authority.successor.certificate])
        data[NEXT_KEY] = key_pem(authority.successor.key)
    return data


def decode_pair(found: Mapping[str, Any] | None) -> IssuedCertificate | None:
    """Returns the pair of a serving Secret, or None unless certificate and key fit each other."""
    if found is None:
        return None
    pair = IssuedCertificate(_value(found, TLS_CERT), _value(found, TLS_KEY))
    return pair if bundle_of(pair.cert_pem) and pair.matches() else None


def decode_bundle(found: Mapping[str, Any] | None) -> tuple[x509.Certificate, ...]:
    """Returns the certificates of `ca.crt`."""
    return () if found is None else bundle_of(_value(found, CA_CERT))


def encode_serving(pair: IssuedCertificate, roots: Iterable[x509.Certificate]) -> dict[str, bytes]:
    """Returns the data of a serving Secret."""
    return {CA_CERT: bundle_pem(roots), TLS_CERT: pair.cert_pem, TLS_KEY: pair.key_pem}


def secret_with(
    found: Mapping[str, Any] | None, namespace: str, name: str, kind: str, data: Mapping[str, bytes]
) -> Object:
    """Returns the Secret to write: a new one, or the found one with other data. `kind` is its type.

    The request for a rotation is removed, because every write of the CA Secret answers it.
    """
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    if found is None:
        labels = {"app.kubernetes.io/name": PROJECT, PART_OF: PROJECT}
        labels["app.kubernetes.io/component"] = "certificates"
        metadata: Object = {"name": name, "namespace": namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "data": encoded}
    metadata = dict(_mapping(found.get("metadata")))
    annotations = {k: v for k, v in _mapping(metadata.get("annotations")).items() if k != ROTATE}
    return {**found, "metadata": {**metadata, "annotations": annotations}, "data": encoded}


def bundle_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Returns the certificates of a PEM bundle; none if it is unreadable or too large."""
    if not pem or len(pem) > MAX_VALUE:
        return ()
    try:
        with warnings.catch_warnings():
            # Serial numbers and names of others' certificates may be odd. They are only compared.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()
    return tuple(dict.fromkeys(found))[: MAX_ROOTS + 1]


def bundle_pem(roots: Iterable[x509.Certificate]) -> bytes:
    """Returns certificates as a PEM bundle."""
    return b"".join(root.public_bytes(serialization.Encoding.PEM) for root in roots)


def decoded(text: Any) -> bytes:
    """Returns the bytes of a base64 text; none if it is no such text or too large."""
    if not isinstance(text, str) or len(text) > MAX_VALUE * 4 // 3 + 4:
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _root(roots: tuple[x509.Certificate, ...], key: bytes) -> CertificateAuthority | None:
    """Returns the root that has this EC key; None if no root has it."""
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        return None
    for root in roots:
        try:
            if root.public_key() == private.public_key():
                return CertificateAuthority(root, private)
        except (ValueError, UnsupportedAlgorithm):
            continue
    return None


def _value(found: Mapping[str, Any], key: str) -> bytes:
    return decoded(_mapping(found.get("data")).get(key))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
