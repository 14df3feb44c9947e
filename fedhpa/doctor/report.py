"""The report of the doctor: its findings, the checks that were not made, and the commands that fix.

findings.toml declares the findings, for `TABLE` and for docs/reference/doctor.md.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Final

import msgspec

from fedhpa.api.free_json import Json
from fedhpa.api.texts import counted, listed, one_line

MAX_NAMES: Final = 5
MAX_WHAT: Final = 600
DAY_SECONDS: Final = 86_400.0
# The declaration of each finding, by its id in the order of the report.
TABLE: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("findings.toml").read_text(encoding="utf-8")
)
_ORDER: Final = {kind: position for position, kind in enumerate(TABLE)}
# A fix that begins with a program is a command; any other is advice.
_PROGRAMS: Final = ("kubectl ", "fedhpa ", "helm ")
# How API servers say which right the caller lacks.
_LACKING: Final = re.compile(r'cannot (\w+) (?:resource|path) "([\w./-]+)"')


class Finding(msgspec.Struct, frozen=True):
    """A failed check: what it is about, the symptom, and the command or the advice that fixes it."""

    id: str
    subject: str
    what: str
    command: str
    advice: str


class Report:
    """Collects findings and checks that were not made. `counts` are the numbers of observed objects."""

    def __init__(self, context: str = "", server: str = "") -> None:
        self.context, self.server = context, server
        self.versions: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        # Members that other objects than Clusters register: that object, their version and properties.
        self.members: dict[str, dict[str, Any]] = {}
        # True if the checks were limited to one namespace.
        self.is_limited = False
        self._findings: list[Finding] = []
        self._skipped: dict[tuple[str, str], None] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings in the order of the topics."""
        return tuple(sorted(self._findings, key=lambda finding: _ORDER[finding.id]))

    @property
    def not_checked(self) -> tuple[tuple[str, str], ...]:
        """The checks that were not made, each once with the reason."""
        return tuple(self._skipped)

    @property
    def exit_code(self) -> int:
        """1 with a finding, 3 if a check was not made, else 0."""
        return 1 if self._findings else 3 if self._skipped else 0

    def add(self, kind: str, subject: str, fix: str = "", /, **facts: object) -> None:
        """Adds a finding. Its texts become lines of bounded length.

        `facts` are the fields of its declaration, and `fix` is a command, or the advice in place of the
        declared one.
        """
        subject, declared = one_line(subject), TABLE[kind]
        what, do = (declared.get(part, "").format(subject=subject, **facts) for part in ("what", "do"))
        fix = "".join(filter(str.isprintable, fix or do))
        texts = (fix, "") if fix.startswith(_PROGRAMS) else ("", fix)
        self._findings.append(Finding(kind, subject, one_line(what, MAX_WHAT), *texts))

    def skip(self, check: str, why: object) -> None:
        """Adds a check that was not made."""
        self._skipped[one_line(check), one_line(str(why))] = None

    def forget(self, subject: str) -> None:
        """Drops the findings about a subject, which counts under another name."""
        self._findings = [each for each in self._findings if each.subject != subject]

    def has(self, kind: str, subject: str = "") -> bool:
        """True if there is such a finding, about any subject or about this one."""
        return any(each.id == kind and subject in ("", each.subject) for each in self._findings)

    def to_json(self) -> dict[str, Any]:
        """Returns the report in the form of `fedhpa doctor -o json`."""
        return {
            "context": self.context,
            "server": self.server,
            "healthy": not self.exit_code,
            "findings": [
                msgspec.structs.asdict(one) | {"why": TABLE[one.id]["why"]} for one in self.findings
            ],
            "notChecked": [{"check": check, "why": why} for check, why in self.not_checked],
            "checked": self.counts,
            "members": dict(sorted(self.members.items())),
        }

    def to_text(self) -> str:
        """Returns the report as text: the context and the server, the verdict, then what it is about."""
        lines = [f"context {self.context or '(none)'}, server {self.server or 'unknown'}", self._verdict()]
        for name, one in sorted(self.members.items()):
            properties = (f"{key}={value}" for key, value in one["properties"].items())
            parts = ", ".join(filter(None, (one["source"], one["version"], *properties)))
            lines.append(f"member {name}: {one_line(parts, MAX_WHAT)}")
        for each in self.findings:
            texts = {"what": each.what, "why": TABLE[each.id]["why"], "fix": each.command, "do": each.advice}
            lines.append(f"{each.id}  {each.subject}")
            lines += [f"  {word:<4}  {text}" for word, text in texts.items() if text]
        # One line has all checks that lack a right.
        lacking: dict[str, list[str]] = {}
        for check, why in self._skipped:
            if found := _LACKING.search(why):
                lacking.setdefault(" ".join(found.groups()), []).append(check)
            else:
                lines.append(f"not checked: {check}: {why}")
        if lacking:
            rights = ", ".join(f"{names(checks)} ({right})" for right, checks in lacking.items())
            lines.append(f"not checked, because you lack the right in brackets: {rights}")
            if not self.is_limited:
                lines.append("with rights in one namespace, check that alone: fedhpa doctor -n NAMESPACE")
        return "\n".join(lines) + "\n"

    def _verdict(self) -> str:
        number, counts = (
            len(self._skipped),
            ", ".join(f"{kind}: {count}" for kind, count in self.counts.items()),
        )
        if self._findings:
            order = ": mend them in this order, because an earlier one may cause a later one"
            return counted(len(self._findings), "finding") + (order if len(self._findings) > 1 else "")
        were = f"{counted(number, 'check')} {'was' if number == 1 else 'were'} not made"
        found = f"nothing was found, but {were}" if number else "healthy"
        return found + (f" ({counts})" if counts else "")


class Commands:
    """Writes commands for the caller, with the kubeconfig and the context that he gave.

    `contexts` has the server and the file of each context that he has. In the words of a command each {}
    stands for a value, which is quoted.
    """

    def __init__(
        self,
        kubeconfig: str = "",
        context: str = "",
        contexts: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._file = f" --kubeconfig={quote(kubeconfig)}" if kubeconfig else ""
        self._context = f" --context={quote(context)}" if context else ""
        self._members = {server: (name, file) for name, (server, file) in (contexts or {}).items()}

    def kubectl(self, words: str, *values: str, member: str = "") -> str:
        """Returns a command of kubectl for the hub, or for the context `member`."""
        context = f" --context={quote(member)}" if member else self._context
        return f"kubectl{self._file}{context} {_filled(words, values)}"

    def fedhpa(self, words: str, *values: str) -> str:
        """Returns a command of ours that talks to the hub."""
        return f"fedhpa {_filled(words, values)}{self._file}{self._context}"

    def helm(self, words: str) -> str:
        """Returns a command of helm."""
        return f"helm {words}{self._file}{self._context.replace('--context', '--kube-context', 1)}"

    def applied(self, printed: str, member: str = "", words: str = "apply -f -") -> str:
        """Returns a command that applies what a command of ours prints."""
        return f"fedhpa {printed} | {self.kubectl(words, member=member)}"

    def patched(self, words: str, *values: str, patch: Json | list[Json]) -> str:
        """Returns a command that changes an object by a patch: a mapping to merge, or JSON Patch."""
        kind = "json" if isinstance(patch, list) else "merge"
        return self.kubectl(f"{words} --type={kind} -p {{}}", *values, json.dumps(patch))

    def context_of(self, server: str) -> str:
        """Returns the context of the kubeconfig that leads to a server; "" for none."""
        return self._members.get(server.rstrip("/"), ("", ""))[0]

    def join(self, name: str, server: str) -> str:
        """Returns the command that registers a member again, or the advice where its context is unknown."""
        context, file = self._members.get(server.rstrip("/"), ("", ""))
        if context:
            return self.fedhpa("join {} --cluster-kubeconfig={} --cluster-context={}", name, file, context)
        words = f"join {quote(name)} --cluster-kubeconfig"
        return f"Run `fedhpa {words} FILE` with the kubeconfig of an administrator of {name}."


def _filled(words: str, values: Sequence[str]) -> str:
    return words.format(*map(quote, values)) if values else words


def removals(path: str, key: str, found: Sequence[tuple[int, str]]) -> list[Json]:
    """Returns the JSON Patch that removes entries of a list, by their places and the values of a key.

    The last one goes first, because each removal moves those behind it.
    """
    return [
        step
        for place, value in reversed(found)
        for step in (
            {"op": "test", "path": f"{path}/{place}/{key}", "value": value},
            {"op": "remove", "path": f"{path}/{place}"},
        )
    ]


def names(found: Iterable[object]) -> str:
    """Returns the first names, and the number of the others."""
    return listed([str(each) for each in found], MAX_NAMES)


def expiry(seconds: float) -> str:
    """Returns when something expires or expired, in days, in hours below two days, or in minutes."""
    left = abs(seconds)
    unit, size = next(
        (one for one in (("days", DAY_SECONDS), ("hours", 3_600.0)) if left >= 2 * one[1]), ("minutes", 60.0)
    )
    text = f"{left / size:.0f} {unit}"
    return f"expires in {text}" if seconds > 0 else f"expired {text} ago"
