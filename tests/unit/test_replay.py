"""`fedhpa replay` answers every scenario in order and names what it cannot read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpa.cli.main import run
from tests.support.costs import least_cpu_seconds
from tests.support.scenarios import carry_on, cluster, scenario


def replayed(capsysbinary: pytest.CaptureFixture[bytes], path: Path, *options: str) -> tuple[int, list[Any]]:
    code = run(["replay", str(path), *options])
    out = capsysbinary.readouterr().out
    return code, [json.loads(line) for line in out.splitlines()]


def named(name: str, **changes: Any) -> dict[str, Any]:
    return {**scenario([cluster("member1", [80, 80])]), "name": name, **changes}


def in_first_pod(pod: dict[str, Any]) -> dict[str, Any]:
    return {"clusters": [{**cluster("m", []), "pods": [pod]}]}


@pytest.mark.parametrize("form", ["object", "pretty", "array", "lines"])
def test_reads_every_form(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, form: str) -> None:
    """The input may be one object, an array, or JSON lines."""
    given = [named("a")] if form in ("object", "pretty") else [named("a"), named("b")]
    text = {
        "object": json.dumps(given[0]),
        "pretty": json.dumps(given[0], indent=2),
        "array": json.dumps(given, indent=2),
        "lines": "\n".join(json.dumps(one) for one in given) + "\n",
    }[form]
    path = tmp_path / "scenarios.json"
    path.write_text(text)

    code, answers = replayed(capsysbinary, path)

    assert code == 0
    assert [answer["name"] for answer in answers] == [one["name"] for one in given]
    assert {answer["desiredReplicas"] for answer in answers} == {4}


def yaml_of(*documents: Any) -> str:
    return "".join("---\n" + yaml.safe_dump(document) for document in documents)


@pytest.mark.parametrize(
    "text",
    [
        yaml_of(named("a"), named("b")),
        yaml_of([named("a"), named("b")]),
        yaml_of(named("a")).removeprefix("---\n") + yaml_of(named("b")),
        f"# Two scenarios\n---\n{json.dumps(named('a'))}\n---\n{json.dumps(named('b'))}\n",
        f"---\n{json.dumps(named('a'))}\n---\n{json.dumps(named('b'))}\n",
        re.sub("'(2026.*)'", r"\1", yaml_of(named("a"))) + yaml_of(named("b")),
    ],
    ids=["documents", "a list", "no first marker", "a comment", "JSON documents", "times without quotes"],
)
def test_reads_yaml(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, text: str) -> None:
    """YAML may have several documents, and a document may be a list. Times need no quotes."""
    path = tmp_path / "scenarios.yaml"
    path.write_text(text)

    code, answers = replayed(capsysbinary, path)

    assert (code, [answer.get("error") for answer in answers]) == (0, [None, None])
    assert [answer["name"] for answer in answers] == ["a", "b"]
    assert {answer["desiredReplicas"] for answer in answers} == {4}


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
)
COPIES = f"a: &a {'x' * 10_000}\n" + "\n".join(f"b{i}: [{', '.join(['*a'] * 1000)}]" for i in range(10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "has more than 2000000 values"),
        (COPIES, "has more than 67108864 characters"),
        ("a: &a [*a]", "an alias contains itself"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: 1\na: 2", "line 2: 'a' is a duplicate key"),
        ("a: b: c", "it is not valid YAML"),
        ("a: !!python/object/apply:os.getcwd []", "it is not valid YAML"),
    ],
    ids=["aliases of aliases", "copies", "a cycle", "deep", "duplicate", "no YAML", "a Python object"],
)
def test_unreadable_yaml_is_one_answer(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, text: str, said: str
) -> None:
    """A small file cannot stand for a large one, and nothing in it is run."""
    path = tmp_path / "scenario.yaml"
    path.write_text(text)

    code, (answer,) = replayed(capsysbinary, path)

    assert (code, answer["name"]) == (2, None)
    assert said in answer["error"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"oops": 1}, "oops"),
        ({"controller": {"tolerence": 0.2}}, "controller.tolerence"),
        ({"controller": {"downscaleStabilization": "soon"}}, "controller.downscaleStabilization"),
        ({"now": "noon"}, "now"),
        ({"target": {"replicas": "5"}}, "target.replicas"),
        ({"history": {"scaleUps": [{"time": "x", "change": 1}]}}, "history.scaleUps[0].time"),
        ({"history": {"scaleUps": [{"time": "x", "change": 1, "by": 2}]}}, "history.scaleUps[0].by"),
        ({"hubMetrics": {"podMetrics": []}}, "hubMetrics.podMetrics"),
        ({"clusters": [{"name": "m", "ready": True}]}, "clusters[0].scale"),
        ({"clusters": [{"name": "m", "ready": True, "scale": {}, "pod": []}]}, "clusters[0].pod"),
        (
            {
                "clusters": [
                    {"name": "m", "ready": True, "scale": {}, "pods": [{"status": {"startTime": "x"}}]}
                ]
            },
            "clusters[0].pods[0].status.startTime",
        ),
        (
            in_first_pod({"status": {"conditions": [{}, {"type": "Ready", "lastTransitionTime": "x"}]}}),
            "clusters[0].pods[0].status.conditions[1].lastTransitionTime",
        ),
        (
            in_first_pod(
                {"spec": {"containers": [{}, {"resources": {"requests": {"cpu": "much"}}}]}},
            ),
            "clusters[0].pods[0].spec.containers[1].resources.requests.cpu",
        ),
        (
            {
                "clusters": [
                    {**cluster("m", []), "podMetrics": [{"containers": [{}, {"usage": {"cpu": "x"}}]}]}
                ]
            },
            "clusters[0].podMetrics[0].containers[1].usage.cpu",
        ),
        ({"federatedHPA": {"spec": {}}}, "federatedHPA.spec.maxReplicas"),
    ],
)
def test_names_the_field_that_cannot_be_read(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, change: dict[str, Any], path: str
) -> None:
    """A bad scenario gives a line with its name and the path; the others are answered; exit code 2."""
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps([named("good"), named("bad", **change), named("also good")]))

    code, answers = replayed(capsysbinary, file)

    assert code == 2
    assert [answer["name"] for answer in answers] == ["good", "bad", "also good"]
    assert list(answers[1]) == ["name", "error"]
    assert answers[1]["error"].startswith(f"{path}: ")
    assert answers[2]["desiredReplicas"] == 4


def test_a_broken_line_spoils_only_itself(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """A line that is not JSON gives an error line in its place."""
    file = tmp_path / "scenarios.json"
    file.write_text('{"name": "bro\n' + json.dumps(named("good")) + "\n")

    code, answers = replayed(capsysbinary, file)

    assert code == 2
    assert answers[0]["error"].startswith("not a JSON object")
    assert answers[1]["name"] == "good"


@pytest.mark.parametrize(
    "broken",
    [b'{"name":"\xff"}', b'[{"name":"\xff"}]', b"[" * 100_000, b"nothing\nof this\nis JSON", b"[{},"],
)
def test_what_is_no_json_is_one_line(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, broken: bytes
) -> None:
    """Bytes that are not text, endless nesting and broken arrays give one error line each."""
    file = tmp_path / "scenarios.json"
    file.write_bytes(broken)

    code, answers = replayed(capsysbinary, file)

    assert code == 2
    assert [list(answer) for answer in answers] == [["name", "error"]]


def test_null_is_absent(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """null counts as absent in every part of a scenario, as in Go."""
    member = cluster("member1", [80, 80])
    member["pods"].append({"metadata": {"name": "web-9", "namespace": None}, "spec": None, "status": None})
    member["podMetrics"].append({"metadata": {"name": "x", "labels": None}, "containers": None})
    member |= {"error": None, "customMetrics": None, "hpa": None}
    given = scenario([member])
    given |= {"name": "a", "hubMetrics": None, "controller": {"tolerance": None}}
    given["federatedHPA"]["spec"] |= {"behavior": {"scaleUp": None}, "metrics": None, "scaleTargetRef": None}
    given["federatedHPA"]["status"] = {"conditions": None, "desiredReplicas": None}
    path = tmp_path / "scenarios.json"
    path.write_text(json.dumps(given))

    code, answers = replayed(capsysbinary, path)

    assert (code, answers[0]["name"], answers[0].get("error")) == (0, "a", None)


def test_unknown_fields_of_kubernetes_objects_are_skipped(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """Embedded objects are decoded leniently, without admission rules."""
    given = named("a")
    given["federatedHPA"]["spec"]["whatever"] = {"x": 1}
    given["federatedHPA"]["spec"]["scaleTargetRef"] = {}
    given["clusters"][0]["pods"][0]["spec"]["hostNetwork"] = True
    path = tmp_path / "scenarios.json"
    path.write_text(json.dumps(given))

    code, answers = replayed(capsysbinary, path)

    assert (code, answers[0]["desiredReplicas"]) == (0, 4)


def test_text_on_request(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """-o text prints an explanation."""
    path = tmp_path / "scenarios.json"
    path.write_text(json.dumps(named("a")))

    code = run(["replay", str(path), "-o", "text"])

    assert code == 0
    assert capsysbinary.readouterr().out.startswith(b"a: scale 2 -> 4 replicas; reason: cpu resource")


def test_a_missing_file_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A missing file gives exit code 2."""
    code = run(["replay", str(tmp_path / "nothing.json")])

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err == f"fedhpa: cannot read {tmp_path / 'nothing.json'}: No such file or directory\n"


def test_a_missing_file_leaves_the_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The other files are answered in order; the missing one gives a line on stderr and exit code 2."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps(named(name)))

    code = run(["replay", *(str(tmp_path / name) for name in ("a", "nothing", "b"))])

    captured = capsys.readouterr()
    assert code == 2
    assert [json.loads(line)["name"] for line in captured.out.splitlines()] == ["a", "b"]
    assert captured.err == f"fedhpa: cannot read {tmp_path / 'nothing'}: No such file or directory\n"


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`fedhpa replay -` as a program of its own, with pipes."""
    command = [sys.executable, "-m", "fedhpa.cli.main", "replay", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        # A test that waits in vain for an answer would wait for ever.
        timer = threading.Timer(120, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            process.kill()


def asked(process: subprocess.Popen[bytes], text: bytes) -> Any:
    """Writes to the program, and reads one answer while its input stays open."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text)
    process.stdin.flush()
    return json.loads(process.stdout.readline() or b"null")


def test_a_program_makes_the_next_scenario_from_the_answer(driven: subprocess.Popen[bytes]) -> None:
    """Each line is answered while the input stays open, also a broken one and one after empty lines."""
    given = named("a")
    first = asked(driven, b"\n\n" + json.dumps(given).encode() + b"\n")
    carry_on(given, first)
    second = asked(driven, json.dumps(given | {"name": "b"}).encode() + b"\r\n\n")
    broken = asked(driven, b'{"name": "c",\n')
    last = asked(driven, json.dumps(named("d")).encode() + b"\n")

    assert [first["name"], second["name"], last["name"]] == ["a", "b", "d"]
    assert second["record"]["size"] == first["record"]["size"]
    assert broken["error"].startswith("not a JSON object")
    rest, _ = driven.communicate()
    assert (driven.returncode, rest) == (2, b"")


def test_a_broken_first_line_is_answered_at_once(driven: subprocess.Popen[bytes]) -> None:
    """More lines would not complete it, so nobody waits for them."""
    assert asked(driven, b'{"name": "a\n')["error"].startswith("not a JSON object")
    assert asked(driven, json.dumps(named("b")).encode() + b"\n")["name"] == "b"


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_standard_input_may_be_one_document(
    driven: subprocess.Popen[bytes], indent: int | None, count: int
) -> None:
    """An object or an array over several lines is answered at the end of the input."""
    given = [named(str(number)) for number in range(count)]

    out, _ = driven.communicate(json.dumps(given if count > 1 else given[0], indent=indent).encode())

    assert [json.loads(line)["name"] for line in out.splitlines()] == [one["name"] for one in given]
    assert driven.returncode == 0


def test_a_line_that_is_too_long_spoils_only_itself(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest is passed over, wherever it stands."""
    good = json.dumps(named("good")).encode()
    monkeypatch.setattr("fedhpa.cli.replay.MAX_BYTES", len(good) + 10)
    path = tmp_path / "scenarios.json"
    long = b'{"name": "' + b"x" * 5 * len(good) + b'"}'
    path.write_bytes(b"\n".join([long, good, long, long, good, long]))

    code, answers = replayed(capsysbinary, path)

    refused = {"name": None, "error": f"the line has more than {len(good) + 10} bytes"}
    assert code == 2
    assert [answer if answer["name"] is None else answer["name"] for answer in answers] == [
        *(refused, "good", refused, refused, "good", refused)
    ]


@pytest.mark.parametrize(
    "text", [json.dumps([named("a")], indent=2), yaml_of(named("a")), "{\n" + " " * 9000]
)
def test_a_document_that_is_too_large_is_one_answer(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """No more than the bound is kept, and the message has the remedy."""
    monkeypatch.setattr("fedhpa.cli.replay.MAX_BYTES", 1000)
    path = tmp_path / "scenarios"
    path.write_text(text)

    code, answers = replayed(capsysbinary, path)

    assert code == 2
    assert answers == [{"name": None, "error": "more than 1000 bytes: write one scenario on each line"}]


def test_a_thousand_scenarios_take_seconds(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """A thousand scenarios of a few pods take less than five seconds of CPU."""
    path = tmp_path / "scenarios.json"
    path.write_text("\n".join(json.dumps(named(str(i))) for i in range(1000)))
    found: list[tuple[int, int]] = []

    def work() -> None:
        code, answers = replayed(capsysbinary, path)
        found.append((code, len(answers)))

    assert least_cpu_seconds(work, 5) < 5
    assert found[0] == (0, 1000)
