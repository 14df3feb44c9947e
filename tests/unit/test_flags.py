"""Flags have four sources in a fixed order. A message names flag, value and what is expected."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.serving.flags import common
from fedhpa.serving.flags.parsing import parse_flags, parse_or_exit
from fedhpa.serving.flags.types import Flag, address, choice, duration, number, split_address, strings

MODE = choice("mode", "members", "The source.", choices=("members", "hub"))
RATE = number("rate", 1.5, "A rate.", minimum=0)
NAMES = strings("names", ("a", "b"), "Names.")
SIDE = address("side", ":9", "A listener.")
PERIOD = duration("period", 15.0, "A period.", minimum=1)
SECTIONS = {
    "Own": (MODE, RATE, NAMES, SIDE, PERIOD),
    "Serving": common.SERVING,
    "Logging": common.LOGGING,
    "Leader": common.LEADER_ELECTION,
    "Unbuilt": common.UNBUILT,
}


def test_the_command_line_comes_before_environment_file_and_default(tmp_path: Path) -> None:
    """Each source overrides the next."""
    file = tmp_path / "config.yaml"
    file.write_text("secure-port: 3\nrate: 3\nbind-address: 127.0.0.3\n")
    environ = {"FEDHPA_SECURE_PORT": "2", "FEDHPA_RATE": "2"}

    values = parse_flags(SECTIONS, ["--secure-port=1", f"--config={file}"], environ)

    assert values[common.SECURE_PORT] == 1
    assert values[RATE] == 2.0
    assert values[common.BIND_ADDRESS] == "127.0.0.3"
    assert values[PERIOD] == 15.0
    assert values.given(RATE)
    assert not values.given(PERIOD)


def test_values_come_in_every_form() -> None:
    """Values with and without equals sign, bare booleans, repeated lists and -v are accepted."""
    argv = [
        "--period",
        "1m30s",
        "--leader-elect=false",
        "--names=x,y",
        "--names",
        "z",
        "-v=4",
        "--enable-pprof=f",
    ]

    values = parse_flags(SECTIONS, argv, {})

    assert values[PERIOD] == 90.0
    assert values[common.LEADER_ELECT] is False
    assert values[NAMES] == ("x", "y", "z")
    assert values[common.VERBOSITY] == 4
    assert parse_flags(SECTIONS, ["--leader-elect"], {})[common.LEADER_ELECT] is True


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.2", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS12", ssl.TLSVersion.TLSv1_2),
        ("1.3", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_tls_versions_have_two_spellings(text: str, version: ssl.TLSVersion) -> None:
    """Karmada's webhook and Kubernetes' servers spell them differently."""
    values = parse_flags(SECTIONS, [f"--tls-min-version={text}"], {})

    assert values[common.TLS_MIN_VERSION] == version


def test_foreign_variables_are_ignored() -> None:
    """Kubernetes sets FEDHPA_..._SERVICE_HOST for a Service of that name."""
    values = parse_flags(SECTIONS, [], {"FEDHPA_WEBHOOK_SERVICE_HOST": "10.0.0.1", "SECURE_PORT": "x"})

    assert values[common.SECURE_PORT] == 8443


def test_an_empty_variable_is_a_value() -> None:
    """An empty list in the environment overrides the default list, and an empty number is refused."""
    assert parse_flags(SECTIONS, [], {"FEDHPA_NAMES": ""})[NAMES] == ()
    with pytest.raises(ConfigError, match=r'--rate="" \(from FEDHPA_RATE\): invalid value'):
        parse_flags(SECTIONS, [], {"FEDHPA_RATE": ""})


def test_a_boolean_takes_no_separate_value(capsys: pytest.CaptureFixture[str]) -> None:
    """As with pflag: `--leader-elect false` would mean true, so the second word is refused."""
    line = exits_with(["--leader-elect", "false"], capsys)

    assert line == 'unexpected argument "false": expected flags only'


PORT = "a valid port between 0 and 65535 inclusive"
PERIODS = 'a duration such as "15s" or "5m", at least 1s'
LISTEN = 'an address such as ":8080" or "127.0.0.1:8080", or 0'
VERSIONS = "one of 1.0, 1.1, 1.2, 1.3, VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"


def exits_with(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line a process prints before it exits 2."""
    with pytest.raises(SystemExit) as stopped:
        parse_or_exit("fedhpa-test", "", SECTIONS, argv, {})

    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err.removesuffix("\n").removeprefix("fedhpa-test: ")


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--secure-port", "abc", PORT),
        ("--secure-port", "70000", PORT),
        ("--secure-port", "-1", PORT),
        ("--secure-port", "8_443", PORT),
        ("--secure-port", " 8443", PORT),
        ("--secure-port", "", PORT),
        ("--bind-address", "host", "an IP address such as 0.0.0.0 or ::"),
        ("--rate", "-1", "a number, at least 0"),
        ("--rate", "nan", "a number, at least 0"),
        ("--rate", "١", "a number, at least 0"),
        ("--leader-elect", "maybe", "true or false"),
        ("--period", "soon", PERIODS),
        ("--period", "10ms", PERIODS),
        ("--period", "20", PERIODS),
        ("--mode", "other", "one of members, hub"),
        ("--side", "8080", LISTEN),
        ("--side", "::1:80", LISTEN),
        ("--v", "11", "a whole number from 0 to 10"),
        ("--tls-min-version", "1.4", VERSIONS),
    ],
)
def test_a_bad_value_is_one_line(
    flag: str, value: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names flag, value and what is expected, and the process exits 2."""
    line = exits_with([f"{flag}={value}"], capsys)

    assert line == f'{flag}="{value}": invalid value: expected {expected}'


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--enable-pprof", "true", "false"),
        ("--feature-gates", "A=true", '""'),
    ],
)
def test_a_value_that_is_not_built_says_so(
    flag: str, value: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value for a later version is refused, not ignored."""
    line = exits_with([f"{flag}={value}"], capsys)

    assert line == f'{flag}="{value}": invalid value: not built in this version: expected {expected}'


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("--secure-port", f"--secure-port needs a value: expected {PORT}"),
        ("--secureport=1", '--secureport="1": unknown flag: did you mean --secure-port?'),
        ("-secure-port=1", '-secure-port="1": unknown flag: did you mean --secure-port?'),
        ("--qqqq", "--qqqq: unknown flag: expected one that --help lists"),
        ("--qqqq=1", '--qqqq="1": unknown flag: expected one that --help lists'),
        ("serve", 'unexpected argument "serve": expected flags only'),
        ("--secure-port=1\n2", f'--secure-port="1\\n2": invalid value: expected {PORT}'),
    ],
)
def test_a_wrong_command_line_is_one_line(
    argument: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown flags, missing values, positional arguments and line feeds end in one line."""
    assert exits_with([argument], capsys) == line


def test_a_bad_variable_is_named() -> None:
    """The message names the variable."""
    with pytest.raises(ConfigError) as refused:
        parse_flags(SECTIONS, [], {"FEDHPA_RATE": "much"})

    assert (
        str(refused.value) == '--rate="much" (from FEDHPA_RATE): invalid value: expected a number, at least 0'
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("secureport: 1", 'key "secureport": unknown flag: did you mean --secure-port?'),
        ("config: x", 'key "config": unknown flag: expected one that --help lists'),
        ("[1]", "expected a mapping from flag names to values"),
        ("a: [", "is not YAML"),
        ("rate: [1, 2]", '--rate="[1, 2]" (from'),
        ("leader-elect: 7", '--leader-elect="7" (from'),
    ],
)
def test_a_bad_file_is_one_line(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the file and the key."""
    file = tmp_path / "config.yaml"
    file.write_text(content)

    with pytest.raises(SystemExit) as stopped:
        parse_or_exit("fedhpa-test", "", SECTIONS, ["--config", str(file)], {})

    printed = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message in printed
    assert str(file) in printed
    assert printed.count("\n") == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A --config from the environment is named like one from the command line."""
    with pytest.raises(ConfigError, match=r"--config=.*nowhere.yaml: cannot be read: No such file"):
        parse_flags(SECTIONS, [], {"FEDHPA_CONFIG": str(tmp_path / "nowhere.yaml")})


def test_an_empty_file_is_no_flags(tmp_path: Path) -> None:
    """A file without content sets nothing and is not an error."""
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")

    assert parse_flags(SECTIONS, [f"--config={tmp_path}/empty.yaml"], {})[RATE] == 1.5


def test_lists_and_booleans_of_a_file(tmp_path: Path) -> None:
    """Lists and booleans of YAML are accepted."""
    (tmp_path / "c.yaml").write_text("names: [x, y]\nleader-elect: no\nperiod: 20s\n")

    values = parse_flags(SECTIONS, [f"--config={tmp_path}/c.yaml"], {})

    assert values[NAMES] == ("x", "y")
    assert values[common.LEADER_ELECT] is False
    assert values[PERIOD] == 20.0


@pytest.mark.parametrize("argument", ["--help", "-h", "--help=true", "-h=True", "--help=1"])
def test_help_lists_every_flag(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help shows each flag with its default, even if another flag has a bad value."""
    with pytest.raises(SystemExit) as stopped:
        parse_or_exit("fedhpa-test", "Tests flags.", SECTIONS, [argument], {"FEDHPA_RATE": "bad"})

    text = capsys.readouterr().out
    flags: list[Flag[Any]] = [flag for section in SECTIONS.values() for flag in section]
    assert stopped.value.code == 0
    assert [flag.name for flag in flags if f"--{flag.name}" not in text] == []
    assert "(default 1m0s)" in text
    assert "-h, --help" in text
    assert "-v, --v int" in text


@pytest.mark.parametrize("argument", ["--version", "--version=true"])
def test_version_is_printed(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints program and version, and exits 0."""
    with pytest.raises(SystemExit) as stopped:
        parse_or_exit("fedhpa-test", "", SECTIONS, [argument], {})

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("fedhpa-test 0.")


@pytest.mark.parametrize("argument", ["--help=false", "-h=f", "--version=false"])
def test_help_and_version_take_false(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With false nothing is printed, and the other flags are parsed."""
    values = parse_flags(SECTIONS, [argument, "--rate=2"], {})

    assert values[RATE] == 2.0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--help=maybe", '--help="maybe": invalid value: expected true or false'),
        ("-h=", '--help="": invalid value: expected true or false'),
        ("--version=2", '--version="2": invalid value: expected true or false'),
    ],
)
def test_help_and_version_are_booleans(argument: str, message: str) -> None:
    """A value that is no boolean is refused as for any boolean flag."""
    with pytest.raises(ConfigError) as refused:
        parse_flags(SECTIONS, [argument], {})

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", None), (":8080", ("", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80))],
)
def test_listen_addresses(text: str, expected: tuple[str, int] | None) -> None:
    """`0` is off, an empty host means all addresses, and IPv6 addresses have brackets."""
    assert split_address(text) == expected
