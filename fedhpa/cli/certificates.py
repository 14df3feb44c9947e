"""The report of `fedhpa certs show`, as JSON and as text."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography import x509

    from certs import CertificateAuthority
    from certs.hub import Reading
    from certs.state import Authority

# A fingerprint's digits in the text form. JSON has all 64.
SHORT = 16
HOST_NOT_IN_CERTIFICATE = "HostNotInCertificate"
CERTIFICATE_TEXTS = {
    "ours": "no usable certificate",
    "absent": "does not exist",
    "foreign": "belongs to somebody else",
    "unread": "cannot be read",
}
REGISTRATION_TEXTS = {
    "absent": "not registered",
    "foreign": "of another server",
    "unread": "cannot be read",
}


def report_of(reading: Reading, namespace: str, now: datetime) -> dict[str, Any]:
    """Returns the report about the Secrets and registrations. Fingerprints are SHA-256, times RFC 3339."""
    from certs.hub import SERVING_SECRETS
    from certs.stages import stage_of
    from certs.state import Status, fingerprint

    state = reading.state
    problems = [
        {"object": name, "reason": problem.reason, "message": problem.text}
        for name, problem in sorted(reading.problems.items())
    ]
    if state.authority_status is Status.ABSENT:
        # The names of the missing certificates are no problem of their own.
        problems = [each for each in problems if each["reason"] != HOST_NOT_IN_CERTIFICATE]
        message = (
            f"it does not exist in {namespace}: start a controller with --manage-certificates, or choose "
            "another namespace with -n"
        )
        problems.append({"object": "secrets/fedhpa-ca", "reason": "Missing", "message": message})
    certificates = []
    for each in state.serving:
        entry: dict[str, Any] = {"server": each.server, "secret": SERVING_SECRETS[each.server]}
        entry["status"] = each.status.value
        if each.pair is not None:
            leaf = each.pair.certificate
            entry |= _dates(leaf) | {"hosts": sorted(each.pair.hosts())}
            entry["signedBy"] = next(
                (fingerprint(root) for root in state.authority.roots if _is_signed(leaf, root)), ""
            )
            if leaf.not_valid_after_utc <= now:
                message = f"it expired at {_time(leaf.not_valid_after_utc)}"
                problems.append(
                    {"object": f"secrets/{entry['secret']}", "reason": "Expired", "message": message}
                )
        certificates.append(entry)
    wanted = set(state.authority.roots)
    registrations = [
        {
            "name": each.name,
            "server": each.server,
            "status": each.status.value,
            "current": all(set(bundle) == wanted for bundle in each.bundles),
            "roots": sorted({fingerprint(root) for bundle in each.bundles for root in bundle}),
        }
        for each in state.trusting
    ]
    return {
        "source": f"secrets in {namespace}",
        "stage": stage_of(state).value,
        "rotationRequested": state.authority.rotation_requested,
        "roots": _roots(state.authority),
        "certificates": certificates,
        "registrations": registrations,
        "problems": problems,
    }


def report_of_files(authority: CertificateAuthority, folder: Path, *, successor: bool) -> dict[str, Any]:
    """Returns the report about a CA in files."""
    stage = "publish" if successor else "sign" if authority.previous else "stable"
    # The root of the stage publish is the first after the one that signs.
    roles = ["signs", "next" if successor else "trusted", *("trusted" for _ in authority.previous)]
    roots = zip(roles, (authority.certificate, *authority.previous), strict=False)
    return {
        "source": f"files in {folder}",
        "stage": stage,
        "rotationRequested": False,
        "roots": [{"role": role} | _dates(root) for role, root in roots],
        "certificates": [],
        "registrations": [],
        "problems": [],
    }


def as_json(report: dict[str, Any]) -> str:
    """Returns the report as indented JSON."""
    return json.dumps(report, indent=2)


def as_text(report: dict[str, Any]) -> str:
    """Returns the report as lines for people."""
    requested = ", a new root was asked for" if report["rotationRequested"] else ""
    lines = [f"{report['source']}: stage {report['stage']}{requested}"]
    lines += [
        f"  root {root['fingerprint'][:SHORT]} {root['role']}, until {root['notAfter']}"
        for root in report["roots"]
    ]
    for each in report["certificates"]:
        if "notAfter" in each:
            signer = each["signedBy"][:SHORT] or "another root"
            found = f"until {each['notAfter']}, signed by {signer}"
        else:
            found = CERTIFICATE_TEXTS[each["status"]]
        lines.append(f"  certificate {each['server']} ({each['secret']}): {found}")
    for each in report["registrations"]:
        found = REGISTRATION_TEXTS.get(each["status"], "")
        if not found:
            known = "has these roots" if each["current"] else "has other roots"
            found = known if each["roots"] else "has no CA"
        lines.append(f"  {each['name']}: {found}")
    lines += [f"  problem: {each['object']}: {each['message']}" for each in report["problems"]]
    return "\n".join(lines)


def _roots(authority: Authority) -> list[dict[str, Any]]:
    from certs.state import fingerprint

    roles = {
        fingerprint(root.certificate): role
        for role, root in (("signs", authority.signer), ("next", authority.successor))
        if root is not None
    }
    return [{"role": roles.get(fingerprint(root), "trusted")} | _dates(root) for root in authority.roots]


def _dates(certificate: x509.Certificate) -> dict[str, str]:
    from certs.state import fingerprint

    return {
        "fingerprint": fingerprint(certificate),
        "notBefore": _time(certificate.not_valid_before_utc),
        "notAfter": _time(certificate.not_valid_after_utc),
    }


def _is_signed(leaf: x509.Certificate, root: x509.Certificate) -> bool:
    from certs.authority import is_signed_by

    return is_signed_by(leaf, root)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
