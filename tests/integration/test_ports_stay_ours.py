"""The ports that a plane's programs are given before they start."""

import asyncio
import socket

import pytest

from testbed.stage.ports import free_port


def test_nobody_else_gets_a_port_before_its_server_starts() -> None:
    """A second search for a free port finds this one taken, and a connection to it is refused."""
    port = free_port()

    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_a_server_listens_on_its_port_again_and_again() -> None:
    """Also after it had connections and was stopped."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    port = free_port()
    for _ in range(2):
        server = await asyncio.start_server(hang_up, "127.0.0.1", port)
        async with server:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ended = await reader.read()
            writer.close()

        assert ended == b""
