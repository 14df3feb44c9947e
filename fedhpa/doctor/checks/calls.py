"""The cause of a call that the API server could not make, by its words.

Source of the words: k8s.io/apiserver (webhook errors), kube-aggregator (availability), and Go's net and
crypto/x509 packages.
"""

from __future__ import annotations

import re
from typing import Final

# The suffix of a finding's id, and the words that show it. The first match counts: an expired certificate
# is also "failed to verify".
_CAUSES: Final = (
    ("certificate-expired", re.compile(r"certificate has expired|not yet valid")),
    ("certificate-untrusted", re.compile(r"x509:|tls: |certificate", re.IGNORECASE)),
    ("no-endpoints", re.compile(r"no endpoints available|no service endpoints|endpoints .*not found")),
    ("service-missing", re.compile(r'service "?[\w./-]*"? ?(?:in "[\w.-]*" )?(?:not found|is not present)')),
    ("name-unknown", re.compile(r"dial tcp: lookup |no such host|name resolution", re.IGNORECASE)),
    ("connection-refused", re.compile(r"connection refused|no route to host|network is unreachable")),
    ("timeout", re.compile(r"context deadline exceeded|timeout|timed out", re.IGNORECASE)),
)
# The query of a call names its timeout, and a path may contain any word.
_URL: Final = re.compile(r'"https?://[^"]*"|https?://\S+')


def cause_of(text: str) -> str:
    """Returns the suffix of the finding for the API server's words; "" for an unknown cause."""
    words = _URL.sub("URL", text)
    return next((cause for cause, pattern in _CAUSES if pattern.search(words)), "")


def issue_command(server: str, namespace: str = "NAMESPACE") -> str:
    """Returns the command that issues the certificate of a server of ours behind its Service."""
    return f"fedhpa certs issue --ca-dir ca --out tls --common-name {server} --dns {server}.{namespace}.svc"
