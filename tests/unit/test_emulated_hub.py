"""The emulated hub of the closed loop knows the fields of the product's kinds, and refuses all others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchmarks.closed_loop.ways import CRDS, PRODUCT, spec_of
from benchmarks.closed_loop.worlds import ALL, PRIORITIES
from benchmarks.world.api import Api
from benchmarks.world.http import Answer, Request
from benchmarks.world.hub import FEDERATED, FEDERATED_HPAS, Hub
from benchmarks.world.network import MemoryNetwork
from benchmarks.world.store import Refused

SPEC = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 10}
PATH = f"/apis/{FEDERATED}/namespaces/default"
CRON = "cronfederatedhpas"


@pytest.fixture
def hub() -> Hub:
    return Hub(MemoryNetwork(), lambda: 0.0, CRDS)


def sent(hub: Hub, method: str, path: str, body: dict[str, Any]) -> Answer:
    return Api(hub.store).handle(Request(method, path, {}, msgspec.json.encode(body), "fedhpa"))


def message(answer: Answer) -> str:
    return str(msgspec.json.decode(answer.body)["message"])


@pytest.mark.parametrize("way", PRODUCT)
@pytest.mark.parametrize("world", ALL)
def test_each_world_has_fields_of_the_api_only(hub: Hub, world: str, way: str) -> None:
    """A world with a misspelled field would measure something else."""
    hub.apply(spec_of(ALL[world], way))

    assert hub.object is not None


def test_a_world_with_another_name_of_the_priority_does_not_begin(hub: Hub) -> None:
    """The message has the path, also inside a list."""
    right = msgspec.json.encode(dict(PRIORITIES))
    wrong = msgspec.json.decode(right.replace(b'"priority"', b'"autoscalePriority"'))

    with pytest.raises(Refused, match=r"clusterAutoscalingPreference\[0\]\.autoscalePriority"):
        hub.apply({**SPEC, **wrong})


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_unknown_field_is_refused_in_each_write(hub: Hub, method: str) -> None:
    """A create is answered with 400, and so is a change of a valid object."""
    meta = {"name": "web", "namespace": "default"}
    wrong = {"metadata": meta, "spec": {**SPEC, "maxReplica": 3}}

    created = sent(hub, "POST", f"{PATH}/{FEDERATED_HPAS}", wrong)
    valid = sent(hub, "POST", f"{PATH}/{FEDERATED_HPAS}", {"metadata": meta, "spec": SPEC})
    changed = sent(hub, method, f"{PATH}/{FEDERATED_HPAS}/web", wrong)

    assert (created.status, valid.status, changed.status) == (400, 201, 400)
    assert message(created) == message(changed) == 'strict decoding error: unknown field "spec.maxReplica"'


def test_rules_of_cronfederatedhpas_are_checked(hub: Hub) -> None:
    """The second kind of the CRDs has a schema, too; each unknown field is named."""
    rules = [{"name": "up", "schedule": "0 9 * * *", "replicas": 3}, {"name": "down", "shedule": "0 9 * * *"}]
    spec = {"scaleTargetRef": SPEC["scaleTargetRef"], "rules": rules, "suspend": True}

    answer = sent(hub, "POST", f"{PATH}/{CRON}", {"metadata": {"name": "web"}, "spec": spec})

    assert answer.status == 400
    assert '"spec.rules[0].replicas", unknown field "spec.rules[1].shedule"' in message(answer)
    assert '"spec.suspend"' in message(answer)


def test_labels_and_free_forms_have_any_field(hub: Hub) -> None:
    """Maps have keys of people, and a field that the schema leaves open is not checked."""
    affinity = {"labelSelector": {"matchLabels": {"any.example/key": "x"}}}
    hub.apply({**SPEC, "clusterAffinity": affinity, "clusterHPAPreference": {"clusterName": "m1", "x": 1}})

    assert hub.object is not None
