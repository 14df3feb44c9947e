"""What the embedded API server demands of the objects by which it is itself ruled."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fedhpa.api.fielderror import FieldError
from testbed.embedded.auth.authorization import bootstrap
from testbed.embedded.objects.registrations import (
    wrong_api_service,
    wrong_binding,
    wrong_role,
    wrong_webhooks,
)
from testbed.stage.registrations import HUB_RIGHTS, MEMBER_RIGHTS, aggregated_api, documents
from webhook.registration import Endpoint, configurations

Object = dict[str, Any]
Check = Callable[[Object], Iterator[FieldError]]

NOTHING: Object = {"metadata": {"name": "x"}}
HOOK: Object = {
    "name": "a.b.c",
    "sideEffects": "None",
    "clientConfig": {"url": "https://localhost"},
    "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
}
SERVICE: Object = {"group": "g.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
SIDE_EFFECTS = 'supported values: "None", "NoneOnDryRun"'


def hook(**fields: Any) -> Object:
    return {**NOTHING, "webhooks": [{**HOOK, **fields}]}


def api_service(**fields: Any) -> Object:
    return {"metadata": {"name": "v1.g.io"}, "spec": {**SERVICE, **fields}}


def binding(**fields: Any) -> Object:
    return {**NOTHING, "roleRef": {"kind": "ClusterRole", "name": "r"}, **fields}


@pytest.mark.parametrize(
    ("check", "obj", "problems"),
    [
        (wrong_role, NOTHING, []),
        (
            wrong_role,
            {**NOTHING, "rules": [{}]},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (wrong_role, {**NOTHING, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, []),
        (wrong_binding, binding(), []),
        (
            wrong_binding,
            NOTHING,
            [
                'roleRef.kind: Unsupported value: "": supported values: "ClusterRole"',
                "roleRef.name: Required value",
            ],
        ),
        (
            wrong_binding,
            binding(roleRef={"kind": "Role", "name": "r"}),
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
        ),
        (
            wrong_binding,
            {"metadata": {"name": "x", "namespace": "y"}, "roleRef": {"kind": "Role", "name": "r"}},
            [],
        ),
        (
            wrong_binding,
            binding(subjects=[{"kind": "Robot"}, {"kind": "ServiceAccount", "name": "a"}]),
            [
                "subjects[0].name: Required value",
                (
                    'subjects[0].kind: Unsupported value: "Robot": supported values: "Group",'
                    ' "ServiceAccount", "User"'
                ),
                "subjects[1].namespace: Required value",
            ],
        ),
        (wrong_api_service, api_service(), []),
        (
            wrong_api_service,
            {**api_service(), "metadata": {"name": "v1.other"}},
            ['metadata.name: Invalid value: "v1.other": must be `spec.version+"."+spec.group`: "v1.g.io"'],
        ),
        (
            wrong_api_service,
            api_service(groupPriorityMinimum=0, versionPriority=1001, service={}),
            [
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
            ],
        ),
        (wrong_webhooks, NOTHING, []),
        (wrong_webhooks, hook(), []),
        (
            wrong_webhooks,
            hook(name="bare"),
            [
                (
                    'webhooks[0].name: Invalid value: "bare": should be a domain with at least three segments'
                    " separated by dots"
                )
            ],
        ),
        (
            wrong_webhooks,
            hook(rules=[{"operations": ["*"], "apiGroups": [""]}]),
            [
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources: Required value",
            ],
        ),
        (
            wrong_webhooks,
            hook(objectSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            ['"Near" is not a valid label selector operator'],
        ),
        (
            wrong_webhooks,
            hook(sideEffects=None),
            ["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
        ),
        (
            wrong_webhooks,
            hook(sideEffects="Some"),
            [f'webhooks[0].sideEffects: Unsupported value: "Some": {SIDE_EFFECTS}'],
        ),
        (
            wrong_webhooks,
            hook(timeoutSeconds=31),
            [
                (
                    "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between"
                    " 1 and 30 seconds"
                )
            ],
        ),
        (
            wrong_webhooks,
            hook(clientConfig={}),
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
        ),
        (
            wrong_webhooks,
            hook(clientConfig={"service": {"name": "a"}}),
            ["webhooks[0].clientConfig.service.namespace: Required value"],
        ),
        (
            wrong_webhooks,
            hook(clientConfig={"url": "http://localhost"}),
            ["'https' is the only allowed URL scheme; desired format: https://host[/path]"],
        ),
    ],
)
def test_what_is_wrong_is_said_in_kubernetes_words(check: Check, obj: Object, problems: list[str]) -> None:
    """Each problem by itself, and nothing about what is right."""
    found = [str(problem) for problem in check(obj)]

    assert len(found) == len(problems)
    assert [text for text, wanted in zip(found, problems, strict=True) if not text.endswith(wanted)] == []


def test_our_own_registrations_are_right() -> None:
    """Those of the charts' processes, of the planes, and the rights that every cluster begins with."""
    service, api = aggregated_api(
        group="metrics.k8s.io", version="v1beta1", service="a", namespace="b", port=1, ca_bundle=b""
    )
    rights = [*bootstrap(), *documents(HUB_RIGHTS), *documents(MEMBER_RIGHTS)]
    roles = [obj for obj in rights if obj["kind"] in ("Role", "ClusterRole")]
    bindings = [obj for obj in rights if obj["kind"].endswith("Binding")]
    problems = [
        *wrong_api_service(api),
        *(each for obj in roles for each in wrong_role(obj)),
        *(each for obj in bindings for each in wrong_binding(obj)),
        *(each for obj in configurations(Endpoint(url="https://x"), b"") for each in wrong_webhooks(obj)),
    ]

    assert service["kind"] == "Service"
    assert min(len(roles), len(bindings)) > 3
    assert problems == []
