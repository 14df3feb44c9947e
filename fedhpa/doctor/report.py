"""The report of the doctor: its findings, the checks that were not made, and the commands that fix.

findings.toml declares the findings, for `TABLE` and for docs/reference/doctor.md.
"""

from __future__ import annotations

import json
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

# A command and "", or "" and advice.
Fix = tuple[str, str]
# The declaration of each finding, by its id in the order of the report.
TABLE: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("findings.toml").read_text(encoding="utf-8")
)
_ORDER: Final = {kind: position for position, kind in enumerate(TABLE)}


class Finding(msgspec.Struct, frozen=True):
    """A failed check: what it is about, the symptom, and the command that fixes it.

    `advice` says what to do where no single command can fix it.
    """

    id: str
    subject: str
    what: str
    command: str = ""
    advice: str = ""

    @property
    def why(self) -> str:
        """The reason why it matters."""
        return TABLE[self.id]["why"]


class NotChecked(msgspec.Struct, frozen=True):
    """A check that the caller cannot make, with the reason."""

    check: str
    why: str


class ForeignMember(msgspec.Struct, frozen=True):
    """A member that is no Cluster: the object that registers it, and what that says of the cluster."""

    source: str
    version: str = ""
    properties: Mapping[str, str] = {}

    def __str__(self) -> str:
        said = [f"{name}={value}" for name, value in self.properties.items()]
        return one_line(", ".join(filter(None, (self.source, self.version, *said))), MAX_WHAT)


class Report:
    """Collects findings and checks that were not made. `counts` are the numbers of observed objects."""

    def __init__(self, context: str = "", server: str = "") -> None:
        self.context, self.server = context, server
        self.versions: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        # Members that other objects than Clusters register.
        self.members: dict[str, ForeignMember] = {}
        # True if the checks were limited to one namespace.
        self.is_limited = False
        self._findings: list[Finding] = []
        self._skipped: dict[NotChecked, None] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings in the order of the topics."""
        return tuple(sorted(self._findings, key=lambda finding: _ORDER[finding.id]))

    @property
    def not_checked(self) -> tuple[NotChecked, ...]:
        """The checks that were not made, each once."""
        return tuple(self._skipped)

    @property
    def exit_code(self) -> int:
        """1 with a finding, 3 if a check was not made, else 0."""
        return 1 if self._findings else 3 if self._skipped else 0

    def add(self, kind: str, subject: str, what: str, command: str = "", advice: str = "") -> None:
        """Adds a finding. Its texts become lines of bounded length.

        Where neither command nor advice is given, the declaration has the advice.
        """
        advice = advice or ("" if command else TABLE[kind].get("do", ""))
        texts = one_line(subject), one_line(what, MAX_WHAT), "".join(filter(str.isprintable, command)), advice
        self._findings.append(Finding(kind, *texts))

    def skip(self, check: str, why: object) -> None:
        """Adds a check that was not made."""
        self._skipped[NotChecked(one_line(check), one_line(str(why)))] = None

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
            "findings": [msgspec.structs.asdict(each) | {"why": each.why} for each in self.findings],
            "notChecked": [msgspec.structs.asdict(each) for each in self.not_checked],
            "checked": self.counts,
            "members": {name: msgspec.structs.asdict(one) for name, one in sorted(self.members.items())},
        }

    def to_text(self) -> str:
        """Returns the report as text, which begins with the context and the server."""
        lines = [f"context {self.context or '(none)'}, server {self.server or 'unknown'}"]
        lines += [f"member {name}: {one}" for name, one in sorted(self.members.items())]
        for each in self.findings:
            lines += [f"{each.id}  {each.subject}", f"  what  {each.what}", f"  why   {each.why}"]
            lines += [f"  fix   {each.command}"] if each.command else []
            lines += [f"  do    {each.advice}"] if each.advice else []
        lines += [f"not checked: {each.check}: {each.why}" for each in self.not_checked]
        if not self.is_limited and any("forbidden" in each.why for each in self.not_checked):
            lines.append("with rights in one namespace, check that alone: fedhpa doctor -n NAMESPACE")
        if not self._findings:
            number = len(self._skipped)
            were = f"{counted(number, 'check')} {'was' if number == 1 else 'were'} not made"
            counts = ", ".join(f"{kind}: {count}" for kind, count in self.counts.items())
            verdict = f"nothing was found, but {were}" if number else "healthy"
            lines.append(verdict + (f" ({counts})" if counts else ""))
        return "\n".join(lines) + "\n"


class Commands:
    """Writes commands for the caller, with the kubeconfig and the context that he gave.

    `contexts` has the server and the file of each context that he has.
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

    def kubectl(self, words: str, member: str = "") -> str:
        """Returns a command of kubectl for the hub, or for the context `member`."""
        return f"kubectl{self._file}{f' --context={quote(member)}' if member else self._context} {words}"

    def fedhpa(self, words: str) -> str:
        """Returns a command of ours that talks to the hub."""
        return f"fedhpa {words}{self._file}{self._context}"

    def helm(self, words: str) -> str:
        """Returns a command of helm."""
        return f"helm {words}{self._file}{self._context.replace('--context', '--kube-context', 1)}"

    def applied(self, printed: str, member: str = "", words: str = "apply -f -") -> str:
        """Returns a command that applies what a command of ours prints."""
        return f"fedhpa {printed} | {self.kubectl(words, member)}"

    def patched(self, words: str, patch: Json | list[Json]) -> str:
        """Returns a command that changes an object by a patch: a mapping to merge, or JSON Patch."""
        kind = "json" if isinstance(patch, list) else "merge"
        return self.kubectl(f"{words} --type={kind} -p {quote(json.dumps(patch))}")

    def context_of(self, server: str) -> str:
        """Returns the context of the kubeconfig that leads to a server; "" for none."""
        return self._members.get(server.rstrip("/"), ("", ""))[0]

    def join(self, name: str, server: str) -> Fix:
        """Returns the command that registers a member again, or the advice where its context is unknown."""
        words = f"join {quote(name)} --cluster-kubeconfig"
        context, file = self._members.get(server.rstrip("/"), ("", ""))
        if not context:
            return "", f"Run `fedhpa {words} FILE` with the kubeconfig of an administrator of {name}."
        return self.fedhpa(f"{words}={quote(file)} --cluster-context={quote(context)}"), ""


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


def days(seconds: float) -> str:
    """Returns a duration in days, in hours below two days, or in minutes below two hours."""
    if seconds >= 2 * DAY_SECONDS:
        return f"{seconds / DAY_SECONDS:.0f} days"
    return f"{seconds / 3_600:.0f} hours" if seconds >= 2 * 3_600 else f"{seconds / 60:.0f} minutes"
