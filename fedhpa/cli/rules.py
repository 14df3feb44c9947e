"""`fedhpa rules check` checks a rules file of the metrics adapter and prints its queries."""

from __future__ import annotations

from pathlib import Path

import typer

from fedhpa.cli.options import with_flags

# Placeholders for the values of a request.
NAMESPACE, NAME = "NAMESPACE", "NAME"


@with_flags()
def check(
    file: Path,
) -> None:
    """Check a rules file and print the query of each metric; exits 2 if the file is invalid.

    Options:
    file: Rules file, as for --metrics-rules.
    """
    from fedhpa.api.errors import ConfigError, InvalidObject
    from fedhpa.api.selectors import Selector
    from metrics_adapter.apis import NODES, PODS
    from metrics_adapter.members import ALL, CustomMetricQuery, MetricSelectors
    from metrics_adapter.prometheus import custom_query, external_query, read, read_rules, usage_query

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
    """Adds the commands."""
    group = typer.Typer(help="Check rules files of the metrics adapter.", no_args_is_help=True)
    group.command("check")(check)
    app.add_typer(group, name="rules")
