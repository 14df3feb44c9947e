"""What is demanded of the objects by which the API server itself is ruled: rights, webhooks, aggregated APIs.

A wrong one would not only be of no use, it would be in the way of everybody's requests. The words are those
of k8s.io/kubernetes 1.36, apis/{rbac,admissionregistration}/validation, and of k8s.io/kube-aggregator.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import FieldError, invalid, required, unsupported
from fedhpa.api.selectors import selector_of
from testbed.embedded.api.types import Object

SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
LONGEST_SECONDS: Final = 30
HIGHEST_GROUP_PRIORITY, HIGHEST_VERSION_PRIORITY = 20_000, 1_000


def wrong_role(role: Object) -> Iterator[FieldError]:
    """A Role or ClusterRole: each rule says what may be done, and with what."""
    for index, rule in enumerate(role.get("rules") or ()):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{at}.verbs", "verbs must contain at least one value")
        if not rule.get("nonResourceURLs"):
            if not rule.get("apiGroups"):
                yield required(f"{at}.apiGroups", "resource rules must supply at least one api group")
            if not rule.get("resources"):
                yield required(f"{at}.resources", "resource rules must supply at least one resource")


def wrong_binding(binding: Object) -> Iterator[FieldError]:
    """A RoleBinding or ClusterRoleBinding: a role, and those who have it."""
    reference = binding.get("roleRef") or {}
    namespaced = "namespace" in binding["metadata"]
    yield from _one_of(
        reference, "roleRef", "kind", ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    )
    yield from _required(reference, "roleRef", ("name",))
    for index, subject in enumerate(binding.get("subjects") or ()):
        at = f"subjects[{index}]"
        yield from _required(subject, at, ("name",))
        yield from _one_of(subject, at, "kind", ("ServiceAccount", "User", "Group"))
        if subject.get("kind") == "ServiceAccount":
            yield from _required(subject, at, ("namespace",))


def wrong_api_service(service: Object) -> Iterator[FieldError]:
    """An APIService: named after what it serves, and who serves it."""
    spec = service.get("spec") or {}
    name, wanted = service["metadata"].get("name"), f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name != wanted:
        yield invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')
    for field, most in (
        ("groupPriorityMinimum", HIGHEST_GROUP_PRIORITY),
        ("versionPriority", HIGHEST_VERSION_PRIORITY),
    ):
        if not 0 < spec.get(field, 0) <= most:
            yield invalid(f"spec.{field}", spec.get(field, 0), f"must be positive and less than {most}")
    if spec.get("service") is not None:
        yield from _required(spec["service"], "spec.service", ("namespace", "name"))


def wrong_webhooks(configuration: Object) -> Iterator[FieldError]:
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        at = f"webhooks[{index}]"
        if str(hook.get("name", "")).count(".") < 2:
            detail = "should be a domain with at least three segments separated by dots"
            yield invalid(f"{at}.name", hook.get("name", ""), detail)
        for number, rule in enumerate(hook.get("rules") or ()):
            names = ("operations", "apiGroups", "apiVersions", "resources")
            yield from _required(rule, f"{at}.rules[{number}]", names)
        for field in ("namespaceSelector", "objectSelector"):
            try:
                selector_of(hook.get(field) or {})
            except InvalidObject as error:
                yield invalid(f"{at}.{field}", hook[field], str(error))
        if hook.get("sideEffects") is None:
            yield required(f"{at}.sideEffects", f"must specify one of {', '.join(SIDE_EFFECTS)}")
        else:
            yield from _one_of(hook, at, "sideEffects", SIDE_EFFECTS)
        if not 1 <= hook.get("timeoutSeconds", 1) <= LONGEST_SECONDS:
            detail = "the timeout value must be between 1 and 30 seconds"
            yield invalid(f"{at}.timeoutSeconds", hook["timeoutSeconds"], detail)
        yield from _wrong_client(hook.get("clientConfig") or {}, f"{at}.clientConfig")


def _wrong_client(config: Object, at: str) -> Iterator[FieldError]:
    service, url = config.get("service"), config.get("url") or ""
    if bool(url) is bool(service):
        yield required(at, "exactly one of url or service is required")
    elif service:
        yield from _required(service, f"{at}.service", ("name", "namespace"))
    elif not url.startswith("https://"):
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid(f"{at}.url", url.partition(":")[0], detail)


def _required(value: Object, at: str, names: Sequence[str]) -> Iterator[FieldError]:
    yield from (required(f"{at}.{name}") for name in names if not value.get(name))


def _one_of(value: Object, at: str, name: str, known: Sequence[str]) -> Iterator[FieldError]:
    given: Any = value.get(name, "")
    if given not in known:
        yield unsupported(f"{at}.{name}", given, known)
