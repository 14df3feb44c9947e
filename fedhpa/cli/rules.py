"""`fedhpa rules check`: whether the metrics adapter can use a rules file, and what it would ask."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# What stands for what a caller would say.
NAMESPACE, NAME = "NAMESPACE", "NAME"


def check(
    file: Annotated[Path, typer.Argument(help="A file as for --metrics-rules.", show_default=False)],
) -> None:
    """Print what each metric would ask of the store, or what is wrong with the file (exit 2)."""
    from fedhpa.api.errors import ConfigError, InvalidObject
    from fedhpa.api.selectors import Selector
    from metrics_adapter.apis import NODES, PODS
    from metrics_adapter.members.queries import ALL, CustomMetricQuery, MetricSelectors
    from metrics_adapter.prometheus.queries import custom_query, external_query, usage_query
    from metrics_adapter.prometheus.rules.file import read, read_rules

    try:
        rules = read_rules(read(file))
    except InvalidObject as error:
        raise ConfigError(f"{file}: {error}") from error
    everything = Selector()
    lines = [
        (
            f"external {external.metric}",
            external_query(rules, external, NAMESPACE, everything, _all).query.text,
        )
        for external in rules.external
    ]
    for custom in rules.custom:
        name = ALL if custom.resource == PODS.plural else NAME
        wanted = CustomMetricQuery(NAMESPACE, custom.resource, name, custom.metric)
        selectors = MetricSelectors(everything, everything)
        question = custom_query(rules, custom, wanted, selectors, _all)
        lines.append((f"custom {custom.resource}/{custom.metric}", question.query.text))
    for kind, usage in ((PODS, rules.resources.pods), (NODES, rules.resources.nodes)):
        if usage is None:
            continue
        for resource, query in (("cpu", usage.cpu), ("memory", usage.memory)):
            place = (NAMESPACE if kind.namespaced else "", "")
            question = usage_query(rules, usage, query, kind, place, everything, _all)
            lines.append((f"usage {kind.plural} {resource}", question.query.text))
    for metric, query in lines:
        typer.echo(f"{metric}\n    {' '.join(query.split())}")


def _all(_: str) -> bool:
    return True


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    group = typer.Typer(help="The rules of the metrics adapter's --metrics-source=prometheus.")
    group.command("check")(check)
    app.add_typer(group, name="rules")
