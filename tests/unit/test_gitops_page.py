"""The health check of docs/how-to/gitops.md names the state of an object. Lua 5.1 runs it, as in Argo CD."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from fedhpa.api.federatedhpa import GROUP

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "gitops.md").read_text(encoding="utf-8")
KEY = "resource.customizations.health."
CHECKS: dict[str, str] = yaml.safe_load(KEY + PAGE.split(f"```\n{KEY}")[1].split("```")[0])
CHECK = CHECKS[f"{KEY}{GROUP}_FederatedHPA"]
NO_DECISION = ("Progressing", "no decision yet")


def ready(status: str, generation: int | None = 3) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "Reconciled",
        "message": f"it is {status}",
        "lastTransitionTime": "2026-11-22T22:00:00Z",
        **({} if generation is None else {"observedGeneration": generation}),
    }


def health(status: Any) -> tuple[str, str]:
    """Returns status and message of an object of generation 3. `...` is an object without status."""
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    found: dict[str, Any] = {"metadata": {"name": "web", "generation": 3}, "spec": {}}
    found |= {} if status is ... else {"status": status}
    lua.globals().obj = lua.table_from(found, recursive=True)
    answer = lua.execute(CHECK)
    return answer["status"], answer["message"]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([ready("True")], ("Healthy", "it is True")),
        ([ready("False")], ("Degraded", "it is False")),
        ([ready("Unknown")], ("Progressing", "it is Unknown")),
        ([], NO_DECISION),
        ([ready("True", 2)], NO_DECISION),
        ([ready("False", 2)], NO_DECISION),
        ([ready("True", None)], NO_DECISION),
        ([{**ready("False"), "type": "AbleToScale"}], NO_DECISION),
        ([{**ready("False"), "type": "AbleToScale"}, ready("True")], ("Healthy", "it is True")),
        ([ready("True"), {**ready("False"), "type": "HubCompatible"}], ("Healthy", "it is True")),
    ],
    ids=["True", "False", "Unknown", "none", "stale", "stale False", "never", "other", "last", "first"],
)
def test_ready_of_this_generation_is_the_health(
    conditions: list[dict[str, Any]], expected: tuple[str, str]
) -> None:
    assert health({"conditions": conditions}) == expected


@pytest.mark.parametrize("status", [..., None, {}, {"conditions": None}, {"currentReplicas": 2}])
def test_an_object_without_conditions_is_progressing(status: Any) -> None:
    assert health(status) == NO_DECISION


def test_the_page_names_the_key_of_both_kinds() -> None:
    """The block has the key of one kind, and the sentence before it the name of the other."""
    assert list(CHECKS) == [f"{KEY}{GROUP}_FederatedHPA"]
    assert f"`{GROUP}_CronFederatedHPA`" in PAGE
