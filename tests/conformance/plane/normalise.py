"""Replaces values that differ between runs by names, so that transcripts can be compared.

Equal identifiers get equal names, so a transcript still shows that an update kept the uid and changed the
resourceVersion. Checks use times of 2020 as fixed values; these stay.
"""

from __future__ import annotations

import re
from typing import Any

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"(?!2020-)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(?:Z|\+00:00)")
CREDENTIAL = re.compile(r"X509SHA256=[0-9a-f]{64}|JTI=<uid \d+>")
# Go's message for a failed connection follows the request line of net/http or "dial".
GO_ERROR = re.compile(r"(Post|Get) \\?\"(https?://[^\"\\]+)\\?\": [^\"]+")
# The key and the error code of etcd.
STORAGE_ERROR = re.compile(r"StorageError: .*?AdditionalErrorMsg: ")
DIAL_ERROR = re.compile(r"(error trying to reach service: ).+")

LEFT_OUT = ("managedFields", "selfLink", "storageVersionHash")


class Normaliser:
    """The names of one conversation."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._literals: dict[str, str] = {}

    def literal(self, text: str, name: str) -> None:
        """Replace `text` by `name` from now on."""
        self._literals[text] = name

    def json(self, value: Any, key: str = "", *, whole: bool = False) -> Any:
        """Returns the JSON value with names. Nulls are dropped unless `whole` is true.

        Go writes null where it cannot omit a field, so a null in an answer has no meaning.
        """
        if isinstance(value, dict):
            return self._object(value, whole)
        if isinstance(value, list):
            return [self.json(item, key, whole=whole) for item in value]
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" and value not in ("", "0"):
            return "<version>"
        if key == "continue" and value:
            return "<continue>"
        return self.text(value)

    def text(self, text: str) -> str:
        """Returns the text with names."""
        for known, name in sorted(self._literals.items(), key=lambda item: -len(item[0])):
            text = text.replace(known, name)
        text = UUID.sub(lambda found: self._uid(found.group()), text)
        text = TIME.sub(lambda found: "<microtime>" if found.group(1) else "<time>", text)
        text = CREDENTIAL.sub("<credential>", text)
        text = GO_ERROR.sub(r'\1 "\2": <why>', text)
        text = STORAGE_ERROR.sub("", text)
        text = DIAL_ERROR.sub(r"\1<why>", text)
        if "ResourceVersion" in text or "resource version" in text:
            text = re.sub(r"\b\d+\b", lambda found: self._versions.get(found.group(), found.group()), text)
        return text

    def _object(self, value: dict[str, Any], whole: bool) -> dict[str, Any]:
        if value.get("reason") == "Invalid" and "details" in value:
            value = _with_causes_in_order(value)
        kept: dict[str, Any] = {}
        for key, item in value.items():
            if key in LEFT_OUT or (key == "continue" and not item) or (item is None and not whole):
                continue
            if key == "resourceVersion" and "uid" in value and item:
                kept[key] = self._version(item)
            else:
                kept[self.text(key)] = self.json(item, key, whole=whole or key == "sent")
        if "verbs" in kept:
            # The order of verbs has no meaning, and the embedded plane has no deletecollection.
            kept["verbs"] = sorted(set(kept["verbs"]) - {"deletecollection"})
        return kept

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")

    def _version(self, version: str) -> str:
        return self._versions.setdefault(version, f"<version {len(self._versions) + 1}>")


def _with_causes_in_order(status: dict[str, Any]) -> dict[str, Any]:
    """Returns a Status with its causes sorted and without duplicates; Go's maps have no order."""
    causes = status["details"].get("causes") or []
    if len(causes) < 2:
        return status
    kept = {(cause.get("field", ""), cause["message"]): cause for cause in causes}
    texts = [f"{field}: {message}" for field, message in sorted(kept)]
    subject = status["message"].partition(" is invalid: ")[0]
    message = f"{subject} is invalid: " + (texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    details = {**status["details"], "causes": [kept[key] for key in sorted(kept)]}
    return {**status, "message": message, "details": details}
