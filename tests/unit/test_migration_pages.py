"""The example of docs/how-to/migrate-from-keda.md: its rule is accepted, and its metric is admitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.property.admission_bodies import FHPA, review_of
from tests.support.commands import fedhpa
from webhook.handlers import VALIDATE_FEDERATEDHPA, judge

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-from-keda.md"
BLOCKS = [part.split("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:]]


def test_the_rule_of_the_page_is_accepted(tmp_path: Path) -> None:
    """`fedhpa rules check` prints the query that the store would get."""
    (tmp_path / "rules.yaml").write_text(BLOCKS[0], encoding="utf-8")

    said = fedhpa("rules", "check", str(tmp_path / "rules.yaml"))

    assert said.returncode == 0, said.stderr
    assert 'rabbitmq_queue_messages{queue="mail",' in said.stdout


def test_the_metric_of_the_page_is_admitted_without_a_warning() -> None:
    """It reads the metric that the rule serves."""
    rule = yaml.safe_load(BLOCKS[0])["external"][0]
    metrics: list[dict[str, Any]] = yaml.safe_load(BLOCKS[1])["metrics"]
    found = {**FHPA, "spec": {key: FHPA["spec"][key] for key in ("scaleTargetRef", "maxReplicas")}}
    found["spec"]["metrics"] = metrics

    body = json.dumps(review_of(found)).encode()
    response = json.loads(judge(VALIDATE_FEDERATEDHPA, body, "application/json").encoded())["response"]

    assert response["allowed"], response
    assert response.get("warnings", []) == []
    assert metrics[0]["external"]["metric"]["name"] == rule["metric"]
    assert metrics[0]["external"]["aggregation"] == rule["aggregation"]
