"""The commands of `fedhpa` in the documentation exist, with their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import fedhpa
from tests.support.page_commands import DOCS, commands, pages

PLACEHOLDERS = ("COMMAND", "[options]", "[SCHEDULE]")


def problem(words: list[str]) -> str:
    """Returns the complaint about wrong usage, or nothing. No command runs, because each prints its help."""
    *first, last = words
    said = fedhpa(*first, "--help", last) if last.startswith("-") else fedhpa(*words, "--help")
    # A sentence may name an option without its value.
    return "" if "requires an argument" in said.stderr else said.stderr


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_commands_of_the_pages_exist(page: Path) -> None:
    """No command of the page has an unknown name or option."""
    found = [words for words in commands(page.read_text(encoding="utf-8")) if words[0] == "fedhpa"]
    known = [words for words in found if not set(words) & set(PLACEHOLDERS)]

    assert {" ".join(words): problem(words[1:]) for words in known if problem(words[1:])} == {}


def test_a_wrong_option_and_a_wrong_name_are_noticed() -> None:
    """The check itself complains."""
    assert "--member" in problem(["join", "member1", "--member-kubeconfig=x"])
    assert "joint" in problem(["joint", "member1"])
    assert problem(["join", "member1"]) == ""


def test_commands_are_found_in_blocks_and_sentences() -> None:
    """Prompts, continued lines, pipes and substitutions are understood. Yaml and outputs have no commands."""
    page = """Run `fedhpa doctor -o json`, not `kubectl apply -f`.
```yaml
kind: Deployment
```
```
$ helm install fedhpa charts/fedhpa \\
  -n fedhpa-system
TOKEN=$(kubectl create token fedhpa-hub) && fedhpa crds | kubectl apply -f - > out   # comment
helmet
```
"""

    assert list(commands(page)) == [
        ["helm", "install", "fedhpa", "charts/fedhpa", "-n", "fedhpa-system"],
        ["kubectl", "create", "token", "fedhpa-hub"],
        ["fedhpa", "crds"],
        ["kubectl", "apply", "-f", "-"],
        ["fedhpa", "doctor", "-o", "json"],
    ]
