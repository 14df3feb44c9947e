"""A webhook of Karmada is foreign only if it judges that objects of our kinds are created or updated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.hub_check import find_foreign_webhook

OURS: dict[str, Any] = {
    "apiGroups": ["autoscaling.karmada.io"],
    "apiVersions": ["*"],
    "resources": ["federatedhpas"],
    "operations": ["CREATE", "UPDATE"],
    "scope": "*",
}
# Karmada's protection against deletion, as its chart registers it.
PROTECTION: dict[str, Any] = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["*"],
    "operations": ["DELETE"],
    "scope": "*",
}


class Hub:
    """A hub with one registration of one webhook."""

    def __init__(self, rules: list[dict[str, Any]] | None, **webhook: Any) -> None:
        found = {"name": "some.karmada.io", "rules": rules, **webhook}
        self.registration = {"metadata": {"name": "validating-config"}, "webhooks": [found]}

    async def list(self, path: str, item: Any) -> Any:
        """Returns the registration among the validating ones."""
        found = [self.registration] if path.endswith("/validatingwebhookconfigurations") else []
        return SimpleNamespace(items=[msgspec.convert(one, item) for one in found])


async def told(hub: Hub) -> str:
    """The message of the finding; "" without one."""
    found = await find_foreign_webhook(hub, "federatedhpas")  # type: ignore[arg-type]  # it only lists
    return "" if found is None else found.message


@pytest.mark.parametrize(
    ("rule", "is_foreign"),
    [
        (OURS, True),
        (OURS | {"operations": ["*"]}, True),
        (OURS | {"operations": ["UPDATE", "DELETE"]}, True),
        (OURS | {"apiGroups": ["apps", "*"], "resources": ["*/*"]}, True),
        (OURS | {"apiVersions": ["v1alpha1"], "scope": "Namespaced"}, True),
        (PROTECTION, False),
        (OURS | {"operations": ["DELETE", "CONNECT"]}, False),
        (OURS | {"operations": []}, False),
        (OURS | {"apiGroups": ["policy.karmada.io"], "resources": ["*"]}, False),
        (OURS | {"apiGroups": [""], "resources": ["*"]}, False),
        (OURS | {"resources": ["federatedhpas/status", "federatedhpas/*", "*/scale"]}, False),
        (OURS | {"apiVersions": ["v2"]}, False),
        (OURS | {"scope": "Cluster"}, False),
    ],
)
async def test_webhook_counts_by_its_rules(rule: dict[str, Any], is_foreign: bool) -> None:
    """Group, version, resource, scope and operation must all match."""
    assert bool(await told(Hub([rule]))) is is_foreign


async def test_one_matching_rule_of_several_is_enough() -> None:
    """The message names the webhook and its registration."""
    assert "some.karmada.io of validating-config" in await told(Hub([PROTECTION, OURS]))


async def test_selectors_do_not_make_a_webhook_harmless() -> None:
    """A webhook with selectors judges some objects, if not all."""
    selectors = {
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "objectSelector": {"matchLabels": {"c": "d"}},
    }

    assert await told(Hub([OURS], **selectors))


@pytest.mark.parametrize("rules", [None, []])
async def test_webhook_without_rules_judges_nothing(rules: list[dict[str, Any]] | None) -> None:
    """The API server calls it for no request."""
    assert await told(Hub(rules)) == ""
