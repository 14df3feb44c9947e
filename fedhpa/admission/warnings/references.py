"""The API version of a target. Karmada does not check it, so admission only warns."""

from __future__ import annotations

from fedhpa.api.fielderror import quoted
from fedhpa.api.metrics.parts import CrossVersionObjectReference
from fedhpa.api.model import MAX_TEXT


def has_group_and_version(reference: CrossVersionObjectReference) -> bool:
    """True if apiVersion names the group and version of something that can be scaled."""
    group, slash, version = reference.api_version.partition("/")
    if reference.kind == "ReplicationController" and reference.api_version == "v1":
        return True
    return bool(slash and group and version) and "/" not in version


def no_group_and_version(reference: CrossVersionObjectReference) -> str:
    """Returns the warning about an apiVersion, without its path."""
    shown = quoted(reference.api_version[:MAX_TEXT])
    return f"{shown} names no API group and version; write one such as apps/v1"
