"""How a person meets the `fedhpa` command: help, version, completion, and one line for each wrong usage."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedhpa.cli import completion
from fedhpa.cli.hub_client import expanded
from fedhpa.cli.main import command as all_commands
from fedhpa.cli.main import run
from fedhpa.cli.options import with_flags
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support.commands import fedhpa
from tests.support.installation import installation

COMMANDS = [
    ("apiservice",),
    ("backtest",),
    ("certs", "issue"),
    ("certs", "rotate-ca"),
    ("completion",),
    ("cordon",),
    ("crds",),
    ("cron", "next"),
    ("drain",),
    ("explain",),
    ("preview",),
    ("record",),
    ("replay",),
    ("rules", "check"),
    ("suggest",),
    ("uncordon",),
    ("version",),
    ("webhook-config",),
]


def asked_with(**params: str) -> Any:
    """Returns a line to complete, of which the suggestions read the options so far."""
    return SimpleNamespace(params=params)


GROUPS: list[tuple[str, ...]] = [(), ("certs",), ("cron",), ("rules",)]


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPS])
def test_h_is_help(command: tuple[str, ...]) -> None:
    """-h and --help print the same usage on stdout."""
    short, long = fedhpa(*command, "-h"), fedhpa(*command, "--help")

    assert (short.returncode, short.stderr) == (0, "")
    assert short.stdout == long.stdout
    assert short.stdout.startswith(" ".join(["Usage: fedhpa", *command]))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_no_types_of_python(command: tuple[str, ...]) -> None:
    """A value is TEXT, FILE or NUMBER, or one of its words."""
    help_text = fedhpa(*command, "-h").stdout

    assert not re.search(r"<\w|--\S+ (str|int|float|path|bool)\b", help_text)


@pytest.mark.parametrize("command", GROUPS)
def test_no_command_is_answered_with_help(command: tuple[str, ...]) -> None:
    """The help keeps its lines. It is on stderr, because a command is missing."""
    ran = fedhpa(*command)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == fedhpa(*command, "--help").stdout


@pytest.mark.parametrize("command", GROUPS)
def test_summaries_are_whole(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of 80 columns no summary is cut, and no line is longer."""
    monkeypatch.setenv("COLUMNS", "80")
    text = fedhpa(*command, "-h").stdout

    assert "..." not in text.replace("[ARGS]...", "")
    assert max(map(len, text.splitlines())) <= 80


def test_the_version_is_printed() -> None:
    """The command and the option print the same line."""
    command, option = fedhpa("version"), fedhpa("--version")

    assert (command.returncode, command.stdout) == (0, "0.1.0\n")
    assert option.stdout == command.stdout


def test_a_kubectl_plugin_names_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Started as kubectl-fedhpa, usage and errors name what the person typed."""
    codes = [run(arguments, "kubectl-fedhpa") for arguments in (["explain", "-h"], ["explain"])]

    out, err = capsys.readouterr()
    assert codes == [0, 2]
    assert out.startswith("Usage: kubectl fedhpa explain ")
    assert err == "kubectl fedhpa: Missing argument 'fhpa|cronfhpa'.\n"


@pytest.mark.parametrize("group", [(), ("certs",)])
def test_an_unknown_command_names_where_commands_are_listed(group: tuple[str, ...]) -> None:
    ran = fedhpa(*group, "nonsense")

    listed = " ".join(["fedhpa", *group, "--help"])
    assert ran.stderr == f"fedhpa: No such command 'nonsense'. See the commands with: {listed}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed(shell: str) -> None:
    """The script asks the command itself for completions."""
    ran = fedhpa("completion", shell)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"_FEDHPA_COMPLETE=complete_{shell}" in ran.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fedhpa expl", ["explain"]),
        ("fedhpa record --metrics-v", ["--metrics-via"]),
        ("fedhpa cron n", ["next"]),
    ],
)
def test_bash_completes_commands_and_options(words: str, expected: list[str]) -> None:
    """The command answers the question of bash's script."""
    asked = {"_FEDHPA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    ran = subprocess.run(
        [sys.executable, "-m", "fedhpa.cli.main"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ran.stdout.split() == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["expl"], ["explain", ":4"]),
        (["cron", ""], ["next", "preview", "suggest", ":4"]),
        (["record", "--metrics-v"], ["--metrics-via", ":4"]),
        (["replay", ""], [":0"]),
    ],
)
def test_kubectl_completes_the_plugin(words: list[str], expected: list[str]) -> None:
    """kubectl gets completions one a line and cobra's directive: file names only where nothing else fits."""
    program = "from fedhpa.cli.completion import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=True
    )

    assert sorted(ran.stdout.split()) == sorted(expected)


@pytest.mark.parametrize(
    "words", ["*/5 * * * *", "CHANGELOG.md docs tests 4 CHANGELOG.md docs tests", "0 4 * * MON-FRI"]
)
def test_an_unquoted_schedule_gets_a_hint_about_quotes(words: str) -> None:
    """The shell splits a schedule, and replaces * by the names of files."""
    ran = fedhpa("cron", "next", *words.split())

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"fedhpa: expected one SCHEDULE, got {len(words.split())} arguments: put the schedule in quotes, "
        "or the shell splits it and replaces * by file names, for example: "
        'fedhpa cron next "*/5 * * * *"\n'
    )


def test_messages_are_free_of_a_librarys_prefix() -> None:
    """The parser of options begins its messages with the name of an exception."""
    ran = fedhpa("webhook-config", "--url=https://a:1", "--bad=1")
    api = fedhpa("apiservice", "--api", "nodes")

    assert "No such option" in ran.stderr
    assert api.stderr == (
        "fedhpa: Invalid value for '--api': 'nodes' is not one of 'metrics', 'custom', 'external'.\n"
    )


WRONG_FILES = [
    ("replay", "{}"),
    ("preview", "-f", "{}"),
    ("rules", "check", "{}"),
    ("webhook-config", "--url=https://a:1", "--ca-file", "{}"),
    ("apiservice", "--ca-file", "{}"),
    ("certs", "publish", "--ca-file", "{}"),
    ("explain", "fhpa/web", "--kubeconfig", "{}"),
    ("record", "fhpa/web", "--kubeconfig", "{}"),
]


@pytest.mark.parametrize("command", WRONG_FILES, ids=lambda command: str(command[0]))
@pytest.mark.parametrize("kind", ["absent", "folder", "binary", "deep"])
def test_a_wrong_file_is_one_line(tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    """A file that is absent, a folder, binary or nested too deep is named on stderr, with exit 2."""
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_bytes(b"\x7fELF\xd0\x00\xff" * 50 if kind == "binary" else b"[\n" * 20_000)

    ran = fedhpa(*(part.format(path) for part in command))

    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert len((ran.stderr or ran.stdout).splitlines()) == 1
    assert ran.stderr.startswith("fedhpa: ") or command[0] == "replay"
    assert str(path) in ran.stderr or command[0] == "replay"
    assert len(ran.stderr) < 600


def test_a_closed_pipe_is_no_failure() -> None:
    """`fedhpa crds | head -1` prints no traceback."""
    ran = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", f"{sys.executable} -m fedhpa.cli.main crds | head -c 10"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.stderr == ""
    assert ran.stdout == "---\napiVer"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fhpa", "web"], "FederatedHPA shop/web: no"),
        (["fhpa/web"], "FederatedHPA shop/web: no"),
        (["cronfhpa", "web"], "CronFederatedHPA shop/web: no"),
    ],
)
def test_a_kind_and_a_name_may_be_two_words(words: list[str], expected: str, tmp_path: Path) -> None:
    """As for kubectl. No hub answers, so the error names the object that was meant."""
    hub = write_kubeconfig(tmp_path / "hub", "http://127.0.0.1:9", b"", {"token": "t"}, namespace="shop")
    ran = fedhpa("explain", *words, "--kubeconfig", str(hub))

    assert ran.returncode == 2
    assert expected.partition(":")[0] in ran.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["fhpa"], "fhpa: expected a NAME after it"),
        (["hpa", "web"], "'hpa/web': expected fhpa/NAME or cronfhpa/NAME"),
        (["cronfhpa/"], "'cronfhpa/': expected fhpa/NAME or cronfhpa/NAME"),
    ],
)
def test_a_wrong_object_names_the_right_forms(words: list[str], error: str) -> None:
    """No kubeconfig is read for it."""
    ran = fedhpa("explain", *words, "--kubeconfig=/absent")

    assert (ran.returncode, ran.stderr) == (2, f"fedhpa: {error}\n")


def test_one_kind_may_stand_before_several_names() -> None:
    assert expanded(["fhpa", "web", "api"]) == ["fhpa/web", "fhpa/api"]
    assert expanded(["fhpa/web", "cronfhpa/night"]) == ["fhpa/web", "cronfhpa/night"]
    assert expanded([]) == []


def test_contexts_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the kubeconfig that is given, or of KUBECONFIG."""
    paths = {
        name: write_kubeconfig(tmp_path / name, "http://127.0.0.1:9", b"", {"token": "t"}, plane=name)
        for name in ("hub", "house", "member1")
    }
    monkeypatch.setenv("KUBECONFIG", f"{paths['hub']}:{paths['house']}:{paths['member1']}:/absent")
    asked = {
        "_FEDHPA_COMPLETE": "complete_bash",
        "COMP_WORDS": "fedhpa explain --context h",
        "COMP_CWORD": "3",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "fedhpa.cli.main"], env=os.environ | asked, capture_output=True, text=True
    )

    assert ran.stdout.split() == ["house", "hub"]


async def test_objects_of_the_hub_are_completed(tmp_path: Path) -> None:
    """Namespaces, Clusters, and our objects in the namespace; nothing where no hub answers."""
    async with installation(tmp_path) as made:
        context = asked_with(kubeconfig=str(made.hub.kubeconfig), namespace="shop", target="cronfhpa")

        def ask() -> dict[str, list[str]]:
            return {
                "namespaces": completion.namespaces(context, "s"),
                "clusters": completion.clusters(context, ""),
                "objects": completion.objects(context, ""),
                "names": completion.names(context, ""),
            }

        found = await asyncio.to_thread(ask)
    silent = await asyncio.to_thread(completion.clusters, asked_with(kubeconfig=str(tmp_path / "absent")), "")

    assert found == {
        "namespaces": ["shop"],
        "clusters": ["m1"],
        "objects": ["cronfhpa/night", "fhpa/web"],
        "names": ["night"],
    }
    assert silent == []


def parameters_of(group: Any, path: str = "fedhpa") -> Iterator[tuple[str, Any]]:
    """Every command with each of its parameters."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from parameters_of(command, f"{path} {name}")
        else:
            yield from ((f"{path} {name}", parameter) for parameter in command.params)


def test_each_output_is_text_unless_it_is_chosen() -> None:
    """Programs read the output of `replay` in a pipe, and a recorded scenario has no text."""
    found = {path: one.default for path, one in parameters_of(all_commands()) if "--output" in one.opts}
    differing = {path: default for path, default in found.items() if default != "text"}

    assert len(found) > 8
    assert differing == {"fedhpa replay": None, "fedhpa record": "json"}


def test_options_that_choose_the_hub_are_alike() -> None:
    """They have the same names, defaults and words."""
    helps: dict[str, set[tuple[Any, ...]]] = {}
    for path, one in parameters_of(all_commands()):
        if one.name in ("kubeconfig", "context") and path != "fedhpa migrate hpa":
            helps.setdefault(one.name, set()).add((tuple(one.opts), one.default, one.help))

    assert {name: len(found) for name, found in helps.items()} == {"kubeconfig": 1, "context": 1}


@pytest.mark.parametrize("options", ["", "--size: Its size.\n    --colour: Its colour.\n    --age: Its age."])
def test_a_docstring_describes_each_option_of_its_command(options: str) -> None:
    """An option without help, and help without an option, are mistakes of whoever writes the command."""

    def command(size: int = 1, colour: str = "red") -> None:
        pass

    command.__doc__ = f"""Paint.\n\n    Options:\n    {options}\n    """ if options else "Paint."
    with pytest.raises(ValueError, match="zip"):
        with_flags()(command)
    command.__doc__ = (
        "Paint.\n\n    Options:\n    --size, -s NUMBER: Its\n      size.\n    colour COLOUR: Its colour.\n"
    )
    made = with_flags()(command)
    found = {
        name: (one.help, one.metavar)
        for name, parameter in inspect.signature(made).parameters.items()
        for one in parameter.annotation.__metadata__
    }

    assert found == {"size": ("Its size.", "NUMBER"), "colour": ("Its colour.", "COLOUR")}
    assert made.__doc__ == "Paint."
