"""Text from members and clients becomes one printable line of bounded length."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from fedhpa.api.errors import ApiError, MemberUnavailable, MetricsUnavailable
from fedhpa.api.texts import ascii_line, cut_line, for_terminal, one_line, redacted
from fedhpa.serving.logs import configure_logs
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
        raise ValueError("a bug")
    except ValueError:
        log.exception("failed")

    first, *rest = stream.getvalue().splitlines()
    assert "/a\\n2026-03-11 [info] forged" in first
    assert "other=?[2J" in first
    assert any(line.startswith("ValueError: a bug") for line in rest)
