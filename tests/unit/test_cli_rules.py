"""`fedhpa rules check`: its output and exit codes."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import fedhpa

RULES = """
external: [{metric: depth, query: 'sum by (<<.GroupBy>>) (queue{<<.LabelMatchers>>})'}]
custom: [{metric: hits, resource: pods, query: 'hits{<<.LabelMatchers>>}'}]
resources: {nodes: {cpu: 'c{<<.LabelMatchers>>}', memory: 'm{<<.LabelMatchers>>}'}}
"""


def test_each_metric_is_printed_with_its_query(tmp_path: Path) -> None:
    """Placeholders for the values of a request are in capitals."""
    file = tmp_path / "rules.yaml"
    file.write_text(RULES, encoding="utf-8")
    done = fedhpa("rules", "check", str(file))

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "external depth",
        '    sum by (cluster,namespace) (queue{namespace="NAMESPACE"})',
        "custom pods/hits",
        '    hits{namespace="NAMESPACE"}',
        "usage nodes cpu",
        '    c{cluster=~".*"}',
        "usage nodes memory",
        '    m{cluster=~".*"}',
    ]


def test_a_file_that_cannot_be_used_is_wrong_usage(tmp_path: Path) -> None:
    """The exit code is 2, and one line names file and field."""
    file = tmp_path / "rules.yaml"
    file.write_text("external: [{metric: depth}]", encoding="utf-8")
    binary = tmp_path / "rules.bin"
    binary.write_bytes(b"\xff\xfe")
    wrong, gone, odd = (fedhpa("rules", "check", str(name)) for name in (file, "/nowhere", binary))

    assert (wrong.returncode, gone.returncode, odd.returncode) == (2, 2, 2)
    assert f"{file}: external[0].query: required, but missing" in wrong.stderr
    assert "/nowhere: cannot be read: No such file or directory" in gone.stderr
    assert f"{binary}: cannot be read: it is not UTF-8 text" in odd.stderr
