"""Each alert fires for its fault and for no other, as promtool evaluates the rule file."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.alert_faults import BEGIN, FAULTS, Fault, Stage

RULES = Path(__file__).parents[2] / "charts" / "fedhpa" / "files" / "alerts.yaml"
ALERTS = [
    rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
SERIES = set(re.findall(r"fedhpa_\w+", json.dumps(ALERTS)))
MINUTES = 45
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
SECONDS = 120


def series(fault: Fault) -> dict[str, list[float | str]]:
    """Returns the values of each series minute by minute; `_` where it is absent."""
    stage = Stage()
    found: dict[str, list[float | str]] = {}
    for minute in range(MINUTES):
        stage.minute()
        fault.provoke(stage)
        for name, value in stage.samples(SERIES):
            found.setdefault(name, ["_"] * MINUTES)[minute] = value
    return found


def unit_test(name: str, fault: Fault) -> dict[str, Any]:
    """Returns a test in promtool's form: which alerts fire in the last minute, and how often."""
    fires = [{"labels": f'{{alertname="{alert}"}}', "value": count} for alert, count in fault.alerts.items()]
    return {
        "name": name,
        "interval": "1m",
        "start_timestamp": BEGIN,
        "input_series": [
            {"series": one, "values": " ".join(map(str, values))} for one, values in series(fault).items()
        ],
        "promql_expr_test": [{"expr": FIRING, "eval_time": f"{MINUTES - 1}m", "exp_samples": fires}],
    }


def promtool(assets: Path, folder: Path, *tests: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Runs `promtool test rules` over the rule file of the chart."""
    file = folder / "tests.yaml"
    text = json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests})
    file.write_text(text, encoding="utf-8")
    return subprocess.run(
        [str(assets / "promtool"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


async def test_each_alert_fires_for_its_fault_and_not_otherwise(assets: Path, tmp_path: Path) -> None:
    """During each fault exactly its alerts fire, each once for a cluster or namespace. All have a fault."""
    done = promtool(assets, tmp_path, *(unit_test(name, fault) for name, fault in FAULTS.items()))

    assert done.returncode == 0, done.stdout + done.stderr
    assert {alert for fault in FAULTS.values() for alert in fault.alerts} == {one["alert"] for one in ALERTS}


@pytest.mark.parametrize(
    ("name", "labels", "description"),
    [
        ("no reconcile succeeds", {}, "shop/web"),
        ("a token is not renewed", {"cluster": "m1"}, "2023-11-21"),
    ],
)
async def test_texts_that_ask_for_values_are_filled_in(
    assets: Path, tmp_path: Path, name: str, labels: dict[str, str], description: str
) -> None:
    """promtool prints the alert as people would get it."""
    alert = next(iter(FAULTS[name].alerts))
    wanted = {"eval_time": f"{MINUTES - 1}m", "alertname": alert, "exp_alerts": [{"exp_labels": labels}]}
    done = promtool(assets, tmp_path, {**unit_test(name, FAULTS[name]), "alert_rule_test": [wanted]})

    assert description in done.stdout + done.stderr
    assert "error" not in done.stdout + done.stderr
