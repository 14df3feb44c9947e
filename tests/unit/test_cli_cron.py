"""`fedhpa cron next`, `crds` and `webhook-config`: their output and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from tests.support.commands import fedhpa


def test_next_prints_local_times_as_json() -> None:
    """The answer has schedule, zone, start, and each execution with its UTC offset."""
    done = fedhpa(
        "cron", "next", "0 4 * * *", "--time-zone", "America/New_York", "--from", "2026-03-11T13:23:17Z",
        "--count", "2", "-o", "json",
    )  # fmt: skip

    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "schedule": "0 4 * * *",
        "timeZone": "America/New_York",
        "from": "2026-03-11T09:23:17-04:00",
        "valid": True,
        "next": ["2026-03-12T04:00:00-04:00", "2026-03-13T04:00:00-04:00"],
    }


def test_executions_are_strictly_after_the_start() -> None:
    """A time at the start is not included. Without a zone, times are UTC. Text has one time per line."""
    done = fedhpa("cron", "next", "0 4 * * *", "--from", "2026-03-12T04:00:00Z", "--count", "1", "-o", "text")

    assert done.stdout == "2026-03-13T04:00:00+00:00\n"


@pytest.mark.parametrize("schedule", ["99 * * * *", "-1 * * * *", "0 0 31 2 *", "@every 5m", ""])
def test_an_invalid_schedule_is_a_finding(schedule: str) -> None:
    """The exit code is 1, and the reason is JSON."""
    done = fedhpa("cron", "next", schedule, "-o", "json")
    answer = json.loads(done.stdout)

    assert done.returncode == 1
    assert answer["valid"] is False
    assert set(answer) == {"valid", "error"}


def test_an_unknown_zone_is_a_finding_with_its_remedy() -> None:
    """An offset is refused with the zone name to use instead."""
    done = fedhpa("cron", "next", "@daily", "--time-zone", "UTC+8", "-o", "json")

    assert done.returncode == 1
    assert "Etc/GMT-8" in json.loads(done.stdout)["error"]


def test_text_of_an_invalid_schedule_is_its_reason() -> None:
    """The finding is data: one line on stdout, nothing on stderr."""
    done = fedhpa("cron", "next", "0 0 31 2 *", "-o", "text")

    assert done.returncode == 1
    assert done.stdout.startswith("day-of-month: ")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["@daily", "--from", "yesterday"],
        ["@daily", "--count", "0"],
        ["@daily", "--stdin"],
        ["@daily", "--bogus"],
        ["@daily", "-o", "yaml"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str]) -> None:
    """Nothing on stdout, one line on stderr."""
    done = fedhpa("cron", "next", *arguments)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def answers(*queries: str) -> tuple[int, list[Any]]:
    done = fedhpa("cron", "next", "--stdin", stdin="".join(query + "\n" for query in queries))
    lines = done.stdout.splitlines()
    assert all(
        json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False) == line for line in lines
    )
    return done.returncode, [json.loads(line) for line in lines]


def test_stdin_answers_each_line_in_order() -> None:
    """Each input line gets one compact object, also an invalid schedule; the exit code is 0."""
    code, found = answers(
        '{"schedule":"*/5 * * * *","from":"2026-01-01T00:00:00Z","count":1}',
        '{"schedule":"99 * * * *"}',
        '{"schedule":7}',
        '{"schedule":"@daily","timeZone":"Mars/Phobos"}',
        '{"schedule":"@daily","from":"x"}',
        '{"schedule":"@daily","count":true}',
        "{}",
    )

    assert code == 0
    assert found[0]["next"] == ["2026-01-01T00:05:00+00:00"]
    assert [answer["valid"] for answer in found] == [True] + [False] * 6


def test_a_line_that_is_not_an_object_makes_exit_2() -> None:
    """The bad line gets an error object, and the other lines are still answered."""
    code, found = answers("[1]", "not json", "", '{"schedule":"@daily"}')

    assert code == 2
    assert [answer["valid"] for answer in found] == [False, False, False, True]


def test_every_input_line_gets_one_output_line() -> None:
    """Null counts as absent, CRLF line ends are accepted, and invalid UTF-8 is not an object."""
    lines = [
        b'{"schedule":"@daily","timeZone":null,"from":null,"count":null}\r',
        b'{"schedule":"@daily","count":1e400}',
        b'{"schedule":"\\ud800 \\u2028"}',
        b'{"schedule":"@daily","from":"9999-12-31T23:59:59Z","timeZone":"Etc/GMT-14"}',
        b"\xff\xfe\x00",
        b'{"schedule":"0 0 29 2 *","from":"2096-03-01T00:00:00Z","count":1}',
    ]
    done = subprocess.run(
        [sys.executable, "-m", "fedhpa.cli.main", "cron", "next", "--stdin"],
        input=b"\n".join(lines),
        capture_output=True,
        timeout=60,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]

    assert done.returncode == 2
    assert [answer["valid"] for answer in found] == [True, False, False, False, False, True]
    assert len(found[0]["next"]) == 5
    assert found[5]["next"] == ["2104-02-29T00:00:00+00:00"]


def test_crds_prints_the_charts_files() -> None:
    """With --with-clusters the Cluster CRD is among them. A Karmada hub needs that of the records alone."""
    crds = Path(__file__).parents[2] / "charts" / "fedhpa" / "files" / "crds"
    autoscaling, clusters, records = (
        (crds / f"{group}.yaml").read_text()
        for group in ("autoscaling.karmada.io", "cluster.karmada.io", "fedhpa.io")
    )

    assert fedhpa("crds").stdout == autoscaling + records
    assert fedhpa("crds", "--with-clusters").stdout == autoscaling + clusters + records
    assert fedhpa("crds", "--records").stdout == records


def test_webhook_config_registers_three_webhooks(tmp_path: Path) -> None:
    """The webhooks have Karmada's names in our own objects. Validation fails closed, mutation fails open."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(trustme.CA().cert_pem.bytes())

    done = fedhpa("webhook-config", "--url", "https://10.0.0.1:8443", "--ca-file", str(ca))

    mutating, validating = yaml.safe_load_all(done.stdout)
    assert {mutating["metadata"]["name"], validating["metadata"]["name"]}.isdisjoint(
        {"mutating-config", "validating-config"}
    )
    webhooks = [*mutating["webhooks"], *validating["webhooks"]]
    assert [(webhook["name"], webhook["failurePolicy"]) for webhook in webhooks] == [
        ("autoscaling.karmada.io", "Ignore"),
        ("federatedhpa.karmada.io", "Fail"),
        ("cronfederatedhpa.karmada.io", "Fail"),
    ]
    assert webhooks[0]["clientConfig"]["url"] == "https://10.0.0.1:8443/mutate-federatedhpa"
    assert all(webhook["timeoutSeconds"] == 3 for webhook in webhooks)
    assert all(webhook["rules"][0]["operations"] == ["CREATE", "UPDATE"] for webhook in webhooks)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--url", "http://x"],
        ["--service", "x"],
        ["--service", "a/b:https"],
        ["--url", "https://x", "--service", "a/b"],
        ["--url", "https://x", "--ca-file", "/does/not/exist"],
    ],
)
def test_webhook_config_refuses_wrong_usage(arguments: list[str]) -> None:
    """The exit code is 2, and one line names the option."""
    done = fedhpa("webhook-config", *arguments)

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
