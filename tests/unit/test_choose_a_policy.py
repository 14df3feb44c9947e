"""The manifests of docs/how-to/choose-a-policy.md are admitted and begin with the bounds of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.distributed import burst
from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.api.assignment_policies import ASSIGNMENT_POLICIES, AssignmentPolicy
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.assignment import Member, Rules
from fedhpa.assignment.minima import initial

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "choose-a-policy.md").read_text(encoding="utf-8")
MANIFESTS: dict[str, Any] = {
    found["spec"]["federatedHPAAssignment"]["federatedHPAAssignmentType"]: found
    for part in TEXT.split("```yaml\n")[1:]
    for found in [yaml.safe_load(part.split("```")[0])]
}


def test_every_policy_has_a_row_a_chapter_and_an_example() -> None:
    """A policy that is added must be explained here."""
    rows, chapters = TEXT.partition("## Then the mode")[0], TEXT.split("\n## ")

    assert set(MANIFESTS) == set(ASSIGNMENT_POLICIES)
    for policy in ASSIGNMENT_POLICIES:
        assert f"[`{policy}`](#{policy.lower()})" in rows
        assert any(chapter.startswith(f"{policy}\n") for chapter in chapters)


@pytest.mark.parametrize("mode", ["Centralized", "Distributed"])
@pytest.mark.parametrize("policy", ASSIGNMENT_POLICIES)
def test_an_example_is_admitted_in_both_modes(policy: str, mode: str) -> None:
    """Only LoadWeighted is refused in mode Distributed. The one warning is that of Duplicated's copies."""
    manifest = MANIFESTS[policy]
    fhpa = decode(FederatedHPA, {**manifest, "spec": {**manifest["spec"], "mode": mode}})
    refused = [str(error).partition(":")[0] for error in validate_federatedhpa(fhpa)]
    warnings = list(warn_federatedhpa(fhpa, admitted=True))

    if (policy, mode) == ("LoadWeighted", "Distributed"):
        assert refused == ["spec.federatedHPAAssignment.federatedHPAAssignmentType"]
    else:
        assert refused == []
    assert [one for one in warnings if "up to 3 x 10 = 30 pods" not in one] == []
    assert bool(warnings) == (policy == "Duplicated")


@pytest.mark.parametrize(
    ("policy", "members", "bounds"),
    [
        ("StaticWeighted", [{"weight": 2}, {}, {}], "2 to 8, 1 to 4 and 1 to 4"),
        (
            "DynamicWeighted",
            [{"room": 1}, {"room": 5}, {"room": 2}],
            "1 to 3, 5 to 15 and 2 to 6",
        ),
        ("Prioritized", [{"priority": 10, "room": 8}, {"priority": 1}], "6 to 8 there and 1 to 12"),
    ],
)
def test_mode_distributed_begins_with_the_bounds_of_the_page(
    policy: str, members: list[dict[str, Any]], bounds: str
) -> None:
    """The numbers are those of fedhpa.assignment."""
    spec = MANIFESTS[policy]["spec"]
    states = [Member(cluster=f"m{i}", **fields) for i, fields in enumerate(members)]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    found = initial(Rules(minimum=least, maximum=most, policy=AssignmentPolicy.of(policy)), states)
    assert found.maxima is not None
    shown = [f"{low} to {found.maxima[name]}" for name, low in found.minima.items() if low is not None]
    words = bounds.replace(" there", "").replace(",", "").replace(" and", "").split()

    assert bounds in " ".join(TEXT.split())
    assert " ".join(shown).split() == words


def test_the_example_of_priorities_is_the_one_that_the_demo_plays() -> None:
    """The page says so."""
    file = Path(burst.__file__).with_name("burst.yaml")
    *_, played = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    spec = MANIFESTS["Prioritized"]["spec"]

    assert {key: played["spec"][key] for key in spec} == spec
