"""Text from members and clients becomes one printable line of bounded length."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from fedhpa.api.errors import ApiError, MemberUnavailable, MetricsUnavailable
from fedhpa.api.texts import ascii_line, cut_line, for_terminal, one_line, redacted
from fedhpa.serving.logs import MAX_LINES, MAX_LINES_ABOUT, configure_logs
from metrics_adapter.members.source import Gathered, _reason
from metrics_adapter.server.negotiation import warning_values


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\r\nSet-Cookie: b", "a Set-Cookie: b"),
        ("a\0\x1b[31mb\x7f", "a??[31mb?"),
        ("\u2028\u202eab", "?ab"),
        ("é", "é"),
        ("x" * 512, "x" * 512),
        ("x" * 513, "x" * 509 + "..."),
        ("x" * 100_000, "x" * 509 + "..."),
        (" " * 100_000 + "y", "..."),
        ("\ud800", "?"),
    ],
)
def test_a_text_is_one_printable_line(text: str, line: str) -> None:
    """Line ends become blanks; escapes and characters that change the direction of text become ?."""
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [("x" * 100_000, "x" * 200), ("a\n\0b", "a ?b"), (" " * 100_000 + "y", ""), ("\u202e" * 201, "?" * 200)],
)
def test_a_text_may_be_cut_without_a_word(text: str, line: str) -> None:
    """A truncated line is printable and within the limit."""
    assert cut_line(text, 200) == line


def test_lines_for_a_terminal_keep_their_ends() -> None:
    """Other controls, of seven and of eight bits, become ?."""
    assert for_terminal("a\n  b\tc\r\n\x1b[31m\x9b\u202e\n") == "a\n  b?c?\n?[31m??\n"


def test_a_header_is_ascii() -> None:
    """Headers are ASCII, because Go's clients refuse other characters."""
    assert ascii_line("é\x01\u2603") == "???"


def test_a_warning_can_be_read_whatever_it_says() -> None:
    """A Warning header escapes quotes and is at most as long as clients accept."""
    long, nasty = warning_values(["x" * 100_000, 'a "b" \\ \r\nX: y\0'])

    assert len(long) < 600
    assert nasty == '299 - "a \\"b\\" \\\\ X: y?"'


@pytest.mark.parametrize(
    ("text", "authorization", "shown"),
    [
        (
            "quoted: 'Bearer abcdefghijklmn.o-p_q~+/==' end",
            "Bearer abcdefghijklmn.o-p_q~+/==",
            "quoted: 'Bearer (redacted)' end",
        ),
        ("abcdefghijkl, and abcdefghijklm", "Bearer abcdefghijklmnop", "(redacted), and (redacted)"),
        ("abcdefghijk", "Bearer abcdefghijklmnop", "abcdefghijk"),
        ("a.*b.*c.*d.*e", "Basic a.*b.*c.*d.*e", "(redacted)"),
        ("axxbxxcxxdxxe", "Basic a.*b.*c.*d.*e", "axxbxxcxxdxxe"),
        ("short, short", "Bearer short", "short, short"),
        ("Bearer", "", "Bearer"),
    ],
)
def test_a_quoted_credential_is_not_passed_on(text: str, authorization: str, shown: str) -> None:
    """Truncated credentials are removed, too, from text and bytes; a few characters count as none."""
    assert redacted(text, authorization) == shown
    assert redacted(text.encode(), authorization) == shown.encode()


def caused(error: MetricsUnavailable, cause: Exception) -> MetricsUnavailable:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemberUnavailable("m", "x\n" * 10_000),
        MetricsUnavailable("x\n" * 10_000),
        caused(MetricsUnavailable(""), ApiError("x\n" * 10_000, status=500)),
        caused(MetricsUnavailable(""), ValueError("x\n" * 10_000)),
    ],
)
def test_the_reason_of_a_member_is_short(error: MetricsUnavailable) -> None:
    """For the log, warnings and answers alike."""
    reason = _reason(error, "metrics.k8s.io/v1beta1")

    assert len(reason) <= 512
    assert "\n" not in reason


def test_a_thousand_silent_members_are_told_of_in_one_message() -> None:
    """The message names some of the members and counts the others."""
    message = Gathered((), {f"m{number}": "x" * 512 for number in range(1000)}).missing_text()

    assert message.startswith("m0: x")
    assert len(message) < 10_000
    assert message.endswith("and 984 more")


@pytest.fixture
def restored() -> Iterator[None]:
    """The logs of the suite are as before."""
    root = logging.getLogger()
    before = structlog.get_config(), root.handlers, root.level
    yield
    structlog.configure(**before[0])
    root.handlers, root.level = before[1], before[2]


def test_nobody_writes_a_log_line_of_his_own(restored: None) -> None:
    """A logged request stays on its line, in the text form, too. A trace keeps its lines."""
    stream = io.StringIO()
    configure_logs("text", 0, stream)
    log = structlog.get_logger("test")
    log.info("request", path="/a\n2026-03-11 [info] forged", other="\x1b[2J")
    try:
        raise ValueError("a bug\n2026-03-11 [info] forged\r\x1b[2J\u202e")
    except ValueError:
        log.exception("failed")
    logging.getLogger("library").warning("broken\n%s", "2026-03-11 [info] forged\x1b[2J")

    first, *rest = stream.getvalue().splitlines()
    assert "/a 2026-03-11 [info] forged" in first
    assert "other=?[2J" in first
    assert any(line.strip() == "ValueError: a bug" for line in rest)
    assert not any(line.startswith("2026-03-11") for line in rest)
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()
    assert "\u202e" not in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_line_is_bounded(restored: None, form: str) -> None:
    """Texts of others may have megabytes, and each refusal of a request is a line."""
    stream = io.StringIO()
    configure_logs(form, 0, stream)
    structlog.get_logger("test").info("request", path="/" + "a" * 1_000_000, names=["b" * 1_000_000])

    assert len(stream.getvalue()) < 10_000


def test_nobody_fills_the_log(restored: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member has sixty lines of one event in a minute. The next minute counts the others."""
    stream, now = io.StringIO(), 1_800_000_000.0
    monkeypatch.setattr("logging.time.time", lambda: now)
    configure_logs("json", 0, stream)
    log = structlog.get_logger("test")
    for number in range(1_000):
        log.warning("object cannot be read", api="hostile", name=f"pod-{number}")
        logging.getLogger("library").warning("broken %s", number)
        log.info("audit", user="ada")
    log.warning("object cannot be read", api="good", name="pod")
    written = stream.getvalue()

    assert written.count("hostile") == written.count("broken") == MAX_LINES_ABOUT
    assert written.count("audit") == 1_000
    assert written.count("good") == 1
    now += 60.0
    log.warning("object cannot be read", api="hostile", name="pod")
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert (last["api"], last["lines_left_out"]) == ("hostile", 2 * (1_000 - MAX_LINES_ABOUT))


def test_names_without_end_do_not_fill_the_log(restored: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that makes up namespaces reaches the bound of the event."""
    stream = io.StringIO()
    monkeypatch.setattr("logging.time.time", lambda: 1_800_000_000.0)
    configure_logs("json", 0, stream)
    for number in range(MAX_LINES + 100):
        structlog.get_logger("test").warning("object cannot be read", namespace=f"n-{number}")

    assert len(stream.getvalue().splitlines()) == MAX_LINES
