"""The everyday commands of kubectl, and their output."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Object, Printed, Talk, lines_of
from tests.conformance.plane.things import (
    GROUP,
    configmap,
    deployment,
    deployments,
    install_widgets,
    widget,
    widgets,
)

ONE_DOCUMENT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
Kubectl = Callable[..., Awaitable[Printed]]


async def prepared(talk: Talk) -> Kubectl:
    """Returns kubectl in the check's namespace, once discovery and OpenAPI have Widgets."""
    await install_widgets(talk)
    await talk.begin()

    async def known() -> bool:
        document = (await talk.quietly("GET", "/apis", accept=ONE_DOCUMENT)).json
        # The embedded plane has no aggregated discovery: it answers with a plain list of groups.
        versions = {
            (group["metadata"]["name"], version["version"]): version
            for group in document.get("items", ())
            for version in group["versions"]
        }
        resources = versions.get((GROUP, "v1"), {}).get("resources", ())
        # The embedded plane has no OpenAPI either.
        described = (await talk.quietly("GET", "/openapi/v3")).json.get("paths", f"apis/{GROUP}/v1")
        # kubectl reports every API whose discovery is stale, up to a minute after it failed.
        stale = any(version.get("freshness") == "Stale" for version in versions.values())
        served = "items" not in document or any(each["resource"] == "widgets" for each in resources)
        return served and not stale and f"apis/{GROUP}/v1" in described

    await talk.eventually(known)

    async def kubectl(*arguments: str, **how: Any) -> Printed:
        stdin = how.pop("apply", None)
        text = json.dumps(stdin) if stdin is not None else None
        return await talk.kubectl("-n", talk.namespace, *arguments, stdin=text, **how)

    return kubectl


@check(needs=("kubectl",))
async def apply(talk: Talk) -> None:
    """apply prints created, unchanged, configured; fields removed from the file are removed."""
    kubectl = await prepared(talk)
    body = widget("one", name="a", labels={"x": "1", "y": "2"})
    first = await kubectl("apply", "-f", "-", apply=body)
    second = await kubectl("apply", "-f", "-", apply=body)
    third = await kubectl("apply", "-f", "-", apply=widget("one", name="b", labels={"x": "1"}))
    read = (await talk.quietly("GET", widgets(talk.namespace, "one"))).json
    talk.note({"stored": read["spec"], "annotations": sorted(read["metadata"]["annotations"])})

    assert [printed.out.split()[-1] for printed in (first, second, third)] == [
        "created",
        "unchanged",
        "configured",
    ]
    assert read["spec"] == {"name": "b", "size": 3, "labels": {"x": "1"}}


@check(needs=("kubectl",))
async def apply_a_deployment(talk: Talk) -> None:
    """apply merges the lists of a Deployment by key, and keeps replicas that the file does not set."""
    kubectl = await prepared(talk)
    body = deployment("web")
    del body["spec"]["replicas"]
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    first = await kubectl("apply", "-f", "-", apply=body)
    again = await kubectl("apply", "-f", "-", apply=body)
    await talk.quietly(
        "PATCH",
        f"{deployments(talk.namespace, 'web')}/scale",
        {"spec": {"replicas": 5}},
        content_type="application/merge-patch+json",
    )
    container["env"] = [{"name": "B", "value": "3"}]
    container["image"] = "registry.invalid/web:2"
    changed = await kubectl("apply", "-f", "-", apply=body)
    read = (await talk.quietly("GET", deployments(talk.namespace, "web"))).json["spec"]
    stored = read["template"]["spec"]["containers"][0]
    talk.note({"replicas": read["replicas"], "env": stored["env"], "image": stored["image"]})

    assert [printed.out.split()[-1] for printed in (first, again, changed)] == [
        "created",
        "unchanged",
        "configured",
    ]
    assert (read["replicas"], stored["env"]) == (5, [{"name": "B", "value": "3"}])


@check(needs=("kubectl",))
async def apply_what_is_refused(talk: Talk) -> None:
    """Unknown fields, invalid values and unknown kinds are refused."""
    kubectl = await prepared(talk)
    for body in (
        widget("one", name="a", unknown=1),
        widget("one", name="a", size=0),
        {**widget("one", name="a"), "kind": "Nothing"},
        {**widget("one", name="a"), "apiVersion": "conformance.test/v9"},
    ):
        printed = await kubectl("apply", "-f", "-", apply=body)

        assert printed.code == 1


@check(needs=("kubectl",))
async def apply_many(talk: Talk) -> None:
    """A List with one refused object, and a dry run on the server."""
    kubectl = await prepared(talk)
    many: Object = {"apiVersion": "v1", "kind": "List"}
    many["items"] = [configmap("one", a="1"), widget("bad", name="A"), widget("two", name="a")]
    applied = await kubectl("apply", "-f", "-", apply=many)
    dry = await kubectl("apply", "--dry-run=server", "-f", "-", apply=configmap("three", a="1"))
    absent = await kubectl("get", "configmap", "three")

    assert (applied.code, dry.code, absent.code) == (1, 0, 1)


@check(needs=("kubectl",))
async def get(talk: Talk) -> None:
    """Tables, wide tables, names, JSONPath, several kinds, categories, short names and errors."""
    kubectl = await prepared(talk)
    space = talk.namespace
    await kubectl("get", "widgets")
    await talk.make(widgets(space), widget("a", name="a", colour="red"), keep=True)
    await talk.make(widgets(space), widget("b", name="b", size=7), keep=True)
    await talk.make(deployments(space), deployment("web"), keep=True)
    for arguments in (
        ("get", "widgets"),
        ("get", "wi", "-o", "wide"),
        ("get", "widget/a", "widget/b", "-o", "name"),
        ("get", "wi", "-o", "jsonpath={.items[*].spec.size}"),
        ("get", "wi", "-o", "custom-columns=N:.metadata.name,S:.spec.size"),
        ("get", "wi", "--sort-by=.spec.size", "--no-headers"),
        ("get", "wi,deploy"),
        ("get", "conformances"),
        ("get", "deploy"),
        ("get", "cm", "-l", "none=such"),
        ("get", "wi", "--field-selector=metadata.name=b"),
        ("get", "namespaces", talk.namespace),
        ("get", "widget", "none"),
        ("get", "nothings"),
        ("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"),
    ):
        printed = await _aged(talk, kubectl, *arguments)

        assert printed.code == (1 if {"none", "nothings"} & set(arguments) else 0), printed.err


# kubectl's format for the first ten minutes.
AGE = re.compile(r"\b(?:\d+m)?\d+s\b|\b[2-9]m\b")


async def _aged(talk: Talk, kubectl: Kubectl, *arguments: str) -> Printed:
    """Run kubectl and record its output without ages and without column widths."""
    printed = await kubectl(*arguments, show=False)
    out = [AGE.sub("<age>", " ".join(line.split())) for line in printed.out.splitlines()]
    err = lines_of(printed.err)
    talk.note({"kubectl": " ".join(arguments), "code": printed.code, "out": out, "err": err})
    return printed


@check(needs=("kubectl",))
async def create_and_delete(talk: Talk) -> None:
    """A second creation and a second deletion fail, unless the flags ignore it."""
    kubectl = await prepared(talk)
    codes = []
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{talk.namespace}-x"}}
    for arguments, body in (
        (("create", "-f", "-"), widget("one", name="a")),
        (("create", "-f", "-"), widget("one", name="a")),
        (("delete", "widget", "one"), None),
        (("delete", "widget", "one"), None),
        (("delete", "widget", "one", "--ignore-not-found"), None),
        (("create", "-f", "-"), configmap("some")),
        (("delete", "-f", "-"), configmap("some")),
        (("create", "-f", "-"), namespace),
        (("delete", "namespace", f"{talk.namespace}-x", "--wait=false"), None),
    ):
        codes.append((await kubectl(*arguments, apply=body)).code)

    assert codes == [0, 1, 0, 1, 0, 0, 0, 0, 0]


@check(needs=("kubectl",))
async def scale(talk: Talk) -> None:
    """`kubectl scale` of a Deployment and of a custom resource, with a failing precondition."""
    kubectl = await prepared(talk)
    space = talk.namespace
    await talk.make(deployments(space), deployment("web"), keep=True)
    await talk.make(widgets(space), widget("one", name="a", replicas=1), keep=True)
    codes = []
    for arguments in (
        ("scale", "deployment", "web", "--replicas=4"),
        ("scale", "deployment", "web", "--replicas=5", "--current-replicas=9"),
        ("scale", "deployment", "none", "--replicas=4"),
        ("scale", "widget", "one", "--replicas=4"),
        ("scale", "configmap", "one", "--replicas=4"),
    ):
        codes.append((await kubectl(*arguments)).code)
    read = (await talk.quietly("GET", deployments(space, "web"))).json["spec"]["replicas"]

    assert (codes, read) == ([0, 1, 1, 0, 1], 4)


@check(needs=("kubectl",))
async def change(talk: Talk) -> None:
    """label, annotate, patch, set image and wait."""
    kubectl = await prepared(talk)
    space = talk.namespace
    await talk.make(deployments(space), deployment("web"), keep=True)
    await talk.make(widgets(space), widget("one", name="a"), keep=True)
    codes = []
    for arguments in (
        ("label", "widget", "one", "a=b"),
        ("label", "widget", "one", "a=c"),
        ("label", "widget", "one", "a=c", "--overwrite"),
        ("annotate", "widget", "one", "note=text"),
        ("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"size":5}}'),
        ("patch", "widget", "one", "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":6}]'),
        ("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"size":6}}'),
        (
            "patch",
            "widget",
            "one",
            "--subresource=status",
            "--type=merge",
            "-p",
            '{"status":{"phase":"New"}}',
        ),
        ("patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}'),
        ("set", "image", "deploy/web", "web=registry.invalid/web:3"),
        ("wait", "widget/one", "--for=jsonpath={.status.phase}=New", "--timeout=60s"),
    ):
        codes.append((await kubectl(*arguments)).code)
    # A busy machine may need the whole second before the first request.
    waited = await talk.at_last(
        partial(kubectl, "wait", "widget/one", "--for=delete", "--timeout=1s"),
        lambda printed: "timed out waiting" in printed.err,
    )
    codes.append(waited.code)

    assert codes == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]


@check(needs=("kubectl",))
async def watch(talk: Talk) -> None:
    """`get --watch` prints a line for each change."""
    kubectl = await prepared(talk)
    await talk.make(widgets(talk.namespace), widget("a", name="a"), keep=True)
    for seconds in (1, 5, 30):  # the timeout ends the watch; a busy machine needs a longer one
        flags = ("--watch", "--no-headers", f"--request-timeout={seconds}s")
        printed = await kubectl("get", "wi", *flags, show=False)
        if printed.out:
            break
    talk.note({"kubectl": "get wi --watch", "first words": printed.out.split()[:2]})

    assert printed.out.split()[:2] == ["a", "3"]


NUMBERS = r"\d+m +\d+Mi|\d+m +\d+%"


@check(needs=("kubectl", "member_kubeconfig"))
async def top(talk: Talk) -> None:
    """`top pods` and `top nodes` of a member print columns and numbers."""
    text = json.dumps(deployment("conformance-top", replicas=1))
    applied = await talk.kubectl("apply", "-f", "-", stdin=text, member=True, show=False)
    assert applied.code == 0, applied.err
    try:
        for arguments in (("top", "pods", "-A"), ("top", "nodes")):
            lines = await talk.eventually(partial(_rows, talk, *arguments))
            talk.note({"kubectl": " ".join(arguments), "columns": lines[0].split()})

            assert re.search(NUMBERS, lines[1])
    finally:
        await talk.kubectl("delete", "deployment", "conformance-top", member=True, show=False)


async def _rows(talk: Talk, *arguments: str) -> list[str] | None:
    """Returns the lines of kubectl once the member has metrics."""
    printed = await talk.kubectl(*arguments, member=True, show=False)
    lines = printed.out.splitlines()
    return lines if len(lines) > 1 and re.search(NUMBERS, lines[1]) else None
