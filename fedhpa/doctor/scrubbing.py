"""Removes texts that look like credentials from decoded JSON. Pure.

It is a second net: what is packed has only known fields, but people write credentials into many of them.
"""

from __future__ import annotations

import re
from typing import Any, Final

REMOVED: Final = "(removed)"
# Fields whose values are never shown, whatever they contain.
_FIELDS: Final = re.compile(
    r"token|password|passwd|secret(?!ref|s?\.|missing|_)|authorization|kubeconfig.+|private.?key|cabundle|"
    r"client.?key|certificate.?authority.?data|proxy.?header|credential|api.?key|env$",
    re.IGNORECASE,
)
_TEXTS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)",
        r"eyJ[\w-]{8,}(?:\.[\w-]*){0,2}",  # a JSON web token
        r"LS0tLS1CRUdJTi[\w+/=]*",  # PEM in base64
        r"(?i:bearer|basic) +[\w.~+/=-]+",
        r"(?<=://)[^/@\s\"']+@",  # the user and the password of a URL
        r"(?i:(?:token|password|passwd|secret|api_?key)\"?\s*[=:]\s*\"?)[^\s,;\"']+",
    )
)


def scrubbed(value: Any) -> Any:
    """Returns decoded JSON without texts that look like credentials."""
    if isinstance(value, dict):
        return {
            clean(str(key)): REMOVED if isinstance(each, str) and _FIELDS.search(str(key)) else scrubbed(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrubbed(each) for each in value]
    return clean(value) if isinstance(value, str) else value


def clean(text: str) -> str:
    """Returns a text without parts that look like credentials."""
    for pattern in _TEXTS:
        text = pattern.sub(REMOVED, text)
    return text
