"""The rules of a metrics store: which errors they cause, and how the file is reloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.serving.flags.parsing import parse_flags
from metrics_adapter.prometheus.access import StoreAccess
from metrics_adapter.prometheus.rules.file import RulesFile, read_rules
from metrics_adapter.prometheus.store_series import StoreTelemetry
from metrics_adapter.settings import FLAGS
from metrics_adapter.store_flags import URL

QUERY = "query: 'a{<<.LabelMatchers>>}'"
RULES = f"external: [{{metric: depth, {QUERY}}}]"


def one(more: str) -> str:
    """Returns a file of one external rule with these additional fields."""
    return f"external: [{{metric: a, {QUERY}, {more}}}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "expected a mapping with external, custom or resources"),
        ("a: b: c", "it is not valid YAML"),
        ("rules: []", "rules: no such field"),
        ("external: [{metric: a}]", "external[0].query: required, but missing"),
        (f"external: [{{metric: a/b, {QUERY}}}]", "external[0].metric: expected the name of a metric"),
        ("external: [{metric: a, query: up}]", "external[0].query: expected <<.LabelMatchers>>"),
        (
            "external: [{metric: a, query: '<<.Series>>{<<.LabelMatchers>>}'}]",
            ("external[0].query: <<.Series>> is not a placeholder:"
            " expected <<.LabelMatchers>> or <<.GroupBy>>"),
        ),
        (one("window: 5"), 'external[0].window: expected a duration such as "2m"'),
        (one("window: 1.5s"), "external[0].window: expected whole seconds"),
        (one("clusters: [A_B]"), "external[0].clusters[0]: 'A_B' is not the name of a"),
        (one("aggregation: Mean"), "external[0].aggregation: Input should be 'Sum'"),
        (f"external: [{{metric: a, {QUERY}}}, {{metric: a, {QUERY}}}]", "external: 'a' has two rules"),
        (one("namespaced: 'yes'"), "external[0].namespaced: Input should be a valid"),
        (one("namespaceLabel: cluster"), "external[0]: 'cluster' is clusterLabel and namespaceLabel"),
        (
            f"clusterLabel: pod\ncustom: [{{metric: a, resource: pods, {QUERY}}}]",
            "custom[0]: 'pod' is clusterLabel and objectLabel: expected a label for each",
        ),
        (
            "resources: {nodes: {clusterLabel: node, cpu: &q 'a{<<.LabelMatchers>>}', memory: *q}}",
            "resources.nodes: 'node' is clusterLabel and objectLabel",
        ),
        ("clusterLabel: a-b", "clusterLabel: 'a-b' is not a label name"),
        ("clusterLabel: __address__", "clusterLabel: '__address__' is not a label name"),
        (one("selectorLabels: {x: 'y z'}"), "external[0].selectorLabels.x: 'y z' is not a label name"),
        (f"custom: [{{metric: a, resource: widgets, {QUERY}}}]", "expected kind, apiVersion and objectLabel"),
        ("resources: {pods: {cpu: 'a{<<.LabelMatchers>>}'}}", "resources.pods.memory: required"),
        ("external: " + "[\n" * 2000, "it is not valid YAML"),
        (one("window: 2020-13-45"), 'external[0].window: expected a duration such as "2m"'),
        (one("window: " + "9" * 5000), "it is not valid YAML: Exceeds the limit"),
        (f"{RULES}\nexternal: []", "line 2: 'external' is a duplicate key: keep one"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_by_field(text: str, said: str) -> None:
    """Each message names the field and the expected value."""
    with pytest.raises(InvalidObject) as refused:
        read_rules(text)

    assert said in str(refused.value)


def test_an_empty_file_of_rules_has_none() -> None:
    """Without rules, all metrics come from the members."""
    rules = read_rules("clusterLabel: k8s_cluster")

    assert (
        rules.external_rule("a"),
        rules.custom_rule("pods", "a"),
        rules.resources.pods,
    ) == (None, None, None)


def test_a_rule_is_found_by_resource_and_metric() -> None:
    """One metric may have a rule for pods and another for services. Defaults describe the objects."""
    text = "".join(
        f"- {{metric: hits, resource: {resource}, {QUERY}}}\n"
        for resource in ("pods", "nodes", "deployments.apps")
    )
    rules = read_rules(f"namespaceLabel: ns\ncustom:\n{text}")
    pods, nodes, deployments = (
        rules.custom_rule(name, "hits") for name in ("pods", "nodes", "deployments.apps")
    )

    assert pods is not None
    assert nodes is not None
    assert deployments is not None
    assert (pods.described, pods.is_namespaced, rules.namespace_of(pods)) == (
        ("Pod", "v1", "pod"),
        True,
        "ns",
    )
    assert (nodes.described, nodes.is_namespaced) == (("Node", "v1", "node"), False)
    assert deployments.described == ("Deployment", "apps/v1", "deployment")
    assert rules.custom_rule("deployments", "hits") is None


def test_the_documented_rules_can_be_used() -> None:
    """The complete example in docs/how-to/metrics-store.md is valid."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "metrics-store.md").read_text(encoding="utf-8")
    rules = read_rules(page.split("```yaml\n")[1].split("```")[0])

    assert [rule.metric for rule in rules.external] == ["queue_depth", "orders_per_second"]
    assert [rule.described[2] for rule in rules.custom] == ["pod", "service", "topic"]
    assert rules.resources.nodes is not None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES, encoding="utf-8")
    return path


def current(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("fedhpa_adapter_rules_current")


def test_a_file_is_followed(file: Path) -> None:
    """New rules are used at once, even if the file keeps its length."""
    rules = RulesFile(file, StoreTelemetry())
    file.write_text(RULES.replace("depth", "width"), encoding="utf-8")
    loaded = rules.reload()

    assert loaded
    assert rules.current.external_rule("depth") is None
    assert rules.current.external_rule("width") is not None


@pytest.mark.parametrize(
    "bad", ["external: 5", "external: 2026-13-01", "\xff", None], ids=["wrong", "no date", "no text", "gone"]
)
def test_a_bad_file_leaves_the_old_rules(file: Path, bad: str | None) -> None:
    """The error is logged once and counted, and it ends when the file is valid again."""
    registry = CollectorRegistry()
    rules = RulesFile(file, StoreTelemetry(registry))
    old = rules.current
    if bad is None:
        file.unlink()
    else:
        file.write_bytes(bad.encode("latin-1"))
    with capture_logs() as logs:
        assert [rules.reload() for _ in range(3)] == [False, False, False]
        held, said = rules.current, current(registry)
        file.write_text(RULES, encoding="utf-8")
        fixed = rules.reload()

    assert (old, 0.0) == (held, said)
    assert (fixed, current(registry)) == (True, 1.0)
    assert [entry["log_level"] for entry in logs] == ["error", "info"]
    assert str(file) == logs[0]["file"]


def test_a_process_does_not_start_with_a_bad_file(file: Path) -> None:
    """The message names the file, the field and the remedy."""
    file.write_text("external: [{}]", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        RulesFile(file, StoreTelemetry())

    assert str(refused.value).startswith(f"{file}: external[0].metric: required, but missing")


@pytest.mark.parametrize("more", ["#" * 1024 * 1024, "#" + "é" * 512 * 1024, "# " + "é" * 512 * 1024])
def test_a_large_file_is_refused(file: Path, more: str) -> None:
    """The limit counts bytes. A truncated file would silently drop the rules at its end."""
    file.write_text(f"{RULES}\n{more}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="it is too large: expected at most 1048576 bytes"):
        RulesFile(file, StoreTelemetry())


@pytest.mark.parametrize(
    ("access", "said"),
    [
        ({"url": "prometheus:9090"}, "expected http(s)://HOST[:PORT][/PATH]"),
        ({"url": "ftp://x"}, "expected http(s)://HOST[:PORT][/PATH]"),
        ({"url": "http://x/?q=1"}, "expected http(s)://HOST[:PORT][/PATH]"),
        ({"url": "http://x:99999"}, "expected http(s)://HOST[:PORT][/PATH]"),
        ({"url": "http://[::1"}, "expected http(s)://HOST[:PORT][/PATH]"),
        ({"url": "https://jane:hush@x"}, "holds credentials"),
        ({"url": "http://x", "token_file": "t"}, "expected https, or credentials are sent in the clear"),
        ({"url": "https://x", "username": "jane"}, "--metrics-store-password-file"),
        ({"url": "https://x", "token_file": "t", "username": "j", "password_file": "p"}, "not both"),
        (
            {"url": "https://x", "tenant": "a\r\nX-Evil: b"},
            "tenant: expected printable ASCII",
        ),
    ],
)
def test_how_the_store_is_reached_is_checked(access: dict[str, str], said: str) -> None:
    """Unusable settings, and secrets without TLS, are refused. No message shows a secret."""
    with pytest.raises(ConfigError) as refused:
        StoreAccess(**access)

    assert said in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("field", ["token_file", "ca_file"])
def test_files_that_are_not_there_are_named_at_the_start(field: str) -> None:
    """The process fails at the start, not at each query."""
    access = StoreAccess("https://x", **{field: "/nowhere/file"})
    flag = f"--metrics-store-{field.replace('_', '-')}"
    with pytest.raises(ConfigError, match=f"/nowhere/file of {flag}: No such file or directory"):
        access.check()


def test_credentials_in_the_url_are_shown_nowhere() -> None:
    """Flags are logged at the start, before they are checked."""
    values = parse_flags(FLAGS, ["--metrics-store-url=https://jane:hush@store/a?b"], {})

    assert "hush" not in values[URL]
    with pytest.raises(ConfigError, match="holds credentials"):
        StoreAccess(values[URL])


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(LAUGHS, "more than 100000 values", id="aliases of aliases"),
        pytest.param("external: &a [*a]", "an alias contains itself", id="a cycle"),
        pytest.param("external: &a\n  b: *a", "an alias contains itself", id="a cycle of mappings"),
    ],
)
def test_aliases_are_bounded(text: str, message: str) -> None:
    """A file of 1 kB could stand for 10 to the 11th values, and validation would not end."""
    with pytest.raises(InvalidObject, match=message):
        read_rules(text)
