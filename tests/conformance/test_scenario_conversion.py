"""Stored scenarios are converted without a change of any decision, and the comparison would show one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import convert_scenarios
from tests.conformance.convert_scenarios import FILES, FOLDER, converted, main, scenarios
from tests.support.distributed_scenarios import assigned, cluster, federated, replayed, scenario

OLD = """\
cases:
  - name: back for a minute
    why: The clock of west goes on.
    given:
      <<: *usual
      federatedHPA:
        metadata: *metadata
        spec: *spec # as usual
        status: {decision: {absences: {west: {since: "2026-03-11T11:54:00Z", back: "2026-03-11T11:59:00Z"}}}}
    expected: {desiredReplicas: 8}
  - name: the status has a size, too
    given:
      <<: *usual
      federatedHPA:
        metadata: *metadata
        spec: *spec
        status:
          desiredReplicas: 7
          clusters: [{name: west, state: Lost, lastSeen: "2026-03-11T11:54:00Z", message: gone}]

      target: {error: no hub}
    expected: {desiredReplicas: 7}
"""
NEW = """\
cases:
  - name: back for a minute
    why: The clock of west goes on.
    given:
      <<: *usual
      federatedHPA:
        metadata: *metadata
        spec: *spec # as usual
      record: {absences: {west: {since: 1773230040.0, back: 1773230340.0}}}
    expected: {desiredReplicas: 8}
  - name: the status has a size, too
    given:
      <<: *usual
      federatedHPA:
        metadata: *metadata
        spec: *spec
        status:
          desiredReplicas: 7

      target: {error: no hub}
      record: {absences: {west: {since: 1773230040.0}}, clusters: {west: {state: Lost, seen: 1773230040.0}}}
    expected: {desiredReplicas: 7}
"""


def old_form(record: dict[str, Any]) -> dict[str, Any]:
    """The part of an old status with the bounds of a record."""
    return {
        "assignedFor": record["assignedFor"],
        "clusters": [
            {
                "name": name,
                "state": "Answered",
                "currentReplicas": one["replicas"],
                "minReplicas": one["assignment"]["minimum"],
                "maxReplicas": one["assignment"]["maximum"],
            }
            for name, one in record["clusters"].items()
        ],
    }


def passes() -> list[dict[str, Any]]:
    """Passes of mode Distributed that carry their memory in the status, as before there was a record."""
    found = [scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))]
    for number in range(3):
        after = assigned(found[-1], a={"pendingReplicas": 2})
        after["federatedHPA"]["status"] = replayed(found[-1])["status"] | old_form(after.pop("record"))
        found.append(after | {"name": f"pass {number}"})
    return found


@pytest.fixture(params=["cases.yaml", "lines.jsonl"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of each form with scenarios in the earlier form."""
    found: Path = tmp_path / request.param
    found.write_text(OLD if found.suffix == ".yaml" else "".join(json.dumps(one) + "\n" for one in passes()))
    return found


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out


def compared(capsys: pytest.CaptureFixture[str], file: Path) -> tuple[int, str]:
    """Converts the file. Returns the comparison of its decisions with those before."""
    before = file.with_name("before.jsonl")
    before.write_text(run(capsys, "decisions", file)[1])
    run(capsys, "convert", file)
    return run(capsys, "compare", before, file)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_scenarios_of_this_folder_have_the_present_form(file: Path) -> None:
    """No recorded scenario carries memory in its status."""
    assert [converted(one) for one in scenarios(file)] == scenarios(file)


def test_converted_scenarios_decide_the_same(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Both forms of files keep every decision, and none has memory in its status afterwards."""
    code, told = compared(capsys, file)

    assert (code, told) == (0, f"{len(scenarios(file))} decisions, 0 differences\n")
    assert [converted(one) for one in scenarios(file)] == scenarios(file)
    assert any("record" in one for one in scenarios(file))


def test_the_rest_of_a_file_stays_as_people_wrote_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Anchors, comments and other lines stay."""
    file = tmp_path / "cases.yaml"
    file.write_text(OLD)

    run(capsys, "convert", file)

    assert file.read_text() == NEW


def test_a_lost_memory_is_a_difference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """A conversion that forgets the clusters and the clocks of losses fails the comparison."""

    def forgetful(one: dict[str, Any]) -> dict[str, Any]:
        found = converted(one)
        return {**found, "record": {}} if "record" in found else found

    monkeypatch.setattr(convert_scenarios, "converted", forgetful)
    code, told = compared(capsys, file)

    assert code == 1
    assert f"{file.name}: {'back for a minute' if file.suffix == '.yaml' else 'pass 0'}: " in told


def test_a_missing_decision_is_a_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Fewer decisions than before, or those of another file, are no agreement."""
    before, file = tmp_path / "before.jsonl", FOLDER / "flapping.yaml"
    lines = run(capsys, "decisions", file)[1].splitlines(keepends=True)
    for kept in (lines[1:], [line.replace("flapping", "other") for line in lines]):
        before.write_text("".join(kept))

        assert run(capsys, "compare", before, file)[0] == 1


def test_a_mapping_on_one_line_is_not_touched(tmp_path: Path) -> None:
    """The message names the line, and the file stays."""
    file = tmp_path / "cases.yaml"
    text = "cases:\n  - name: a\n    given: {<<: *usual, federatedHPA: {status: {assignedFor: x}}}\n"
    file.write_text(text)

    with pytest.raises(SystemExit, match=r"line \d+: write this mapping with a key on each line first"):
        main(["convert", str(file)])

    assert file.read_text() == text
