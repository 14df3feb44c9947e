"""Commands for a plane that runs: set the load of a workload, lose a member, bring it back.

`up` listens on a socket in the run's folder, which only its owner can open. A request is a line with a JSON
list of words, an answer a line with a JSON list: an exit code and a text.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp

from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.quantity import parse_milli
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.runs import ProcessId, runs_folder
from testbed.stage.waiting import NotInTime, gather

SOCKET, ENVIRONMENT = "control", "environment"
READ_SECONDS = 5.0
# A real API server that comes back may need two minutes on a busy machine.
ANSWER_SECONDS = 150.0
PODS_SECONDS = 5.0
COMMANDS: Final = ("env", "load", "lose", "bring-back")


class Refused(Exception):
    """A command that cannot be carried out. The message says why, and what to do."""


class Member(Protocol):
    """A member, as the commands need it."""

    def api(self) -> PlaneApi:
        """Returns a client with administrator rights."""


class Plane(Protocol):
    """A plane, as the commands need it."""

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by name."""

    def set_demand(self, namespace: str, name: str, millis: int, cluster: str = "") -> None:
        """Sets the CPU demand on a workload, in milli-units: on all members, or in addition on one."""

    async def lose(self, name: str) -> None:
        """Stops a member's API server; its pods keep running."""

    async def bring_back(self, name: str) -> None:
        """Starts a member's API server again."""


class Control:
    """Carries out the commands on one plane."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._lost: set[str] = set()

    async def carry_out(self, words: list[str]) -> str:
        """Returns the text to print. Raises Refused, NotInTime, and InvalidObject for a wrong quantity."""
        match words:
            case ["load", workload, cpu, cluster]:
                return await self._load(workload, cpu, cluster)
            case ["lose", cluster]:
                self._check(cluster)
                self._lost.add(cluster)
                await self._plane.lose(cluster)
                return f"{cluster}: the API server is stopped; the pods keep running"
            case ["bring-back", cluster]:
                self._check(cluster)
                if cluster not in self._lost:
                    raise Refused(f"{cluster} is not lost")
                await self._plane.bring_back(cluster)
                self._lost.discard(cluster)
                return f"{cluster}: the API server runs again"
        raise Refused(f"unknown command {words}: this plane was started from another version")

    def _check(self, cluster: str) -> None:
        if cluster not in self._plane.members:
            raise Refused(f"no member {cluster!r}: the members are {', '.join(self._plane.members)}")

    async def _load(self, workload: str, cpu: str, cluster: str) -> str:
        namespace, _, name = workload.partition("/")
        if not namespace or not name or "/" in name:
            raise Refused(f"{workload!r} is not NAMESPACE/NAME, for example shop/web")
        if cluster:
            self._check(cluster)
        millis = parse_milli(cpu)
        if millis < 0:
            raise Refused(f"the load is {cpu}: it cannot be negative")
        self._plane.set_demand(namespace, name, millis, cluster)
        amount = f"{millis}m CPU in addition" if cluster else f"{millis}m CPU"
        members = [cluster] if cluster else [*self._plane.members]
        counts = await gather(*(self._count(each, namespace, name) for each in members))
        pods = ", ".join(
            f"{member} {'?' if count is None else count}"
            for member, count in zip(members, counts, strict=True)
        )
        if not any(count is None or count for count in counts):
            return f"{workload}: {amount}, once pods of {name} are ready; none is ready now ({pods})"
        return f"{workload}: {amount}, shared by the ready pods ({pods})"

    async def _count(self, cluster: str, namespace: str, name: str) -> int | None:
        """Returns the number of ready pods of a workload, or None if the member does not answer."""
        try:
            async with asyncio.timeout(PODS_SECONDS), self._plane.members[cluster].api() as api:
                return len(await ready_pods(api, namespace, name))
        except (ApiError, aiohttp.ClientError, OSError):
            return None


async def ready_pods(api: PlaneApi, namespace: str, name: str) -> list[str]:
    """Returns the names of the ready pods of a workload, or of the pod of that name."""
    found = await api.get(f"/api/v1/namespaces/{namespace}/pods")
    return [
        pod["metadata"]["name"]
        for pod in found["items"]
        if has_condition(pod, kind="Ready") and workload_of(pod) == name
    ]


def workload_of(pod: Mapping[str, Any]) -> str:
    """Returns the name of the workload that owns a pod, or the pod's own name."""
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            revision = (metadata.get("labels") or {}).get("pod-template-hash", "")
            name: str = owner["name"]
            return name.removesuffix(f"-{revision}") if owner["kind"] == "ReplicaSet" else name
    own: str = metadata["name"]
    return own


@contextlib.asynccontextmanager
async def listening(plane: Plane, folder: Path) -> AsyncIterator[None]:
    """Answers the commands of `send` in this folder."""
    control = Control(plane)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                words = json.loads(await reader.readline())
            writer.write(json.dumps(await _outcome(control.carry_out(words))).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # a client that left, or that is not ours
        finally:
            writer.close()

    with _short_path(folder) as path:
        server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()


async def _outcome(command: Awaitable[str]) -> tuple[int, str]:
    try:
        return 0, await command
    except (Refused, InvalidObject, NotInTime) as error:
        return 1, str(error)


@contextlib.contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """Yields a path of the socket that is short, because the address of a socket has at most 107 bytes."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


# -- the commands, in another process


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the commands for a plane that runs."""
    commands.add_parser("env", help="print the shell lines of the plane that runs, for eval")
    load = commands.add_parser("load", help="set the CPU that the pods of a workload use together")
    load.add_argument("workload", metavar="NAMESPACE/NAME", help="for example shop/web")
    load.add_argument("cpu", metavar="CPU", help="a quantity, for example 240m; 0 ends the load")
    load.add_argument(
        "--cluster", default="", metavar="NAME", help="an additional load that only this member's pods share"
    )
    lose = commands.add_parser("lose", help="stop the API server of a member; its pods keep running")
    back = commands.add_parser("bring-back", help="start the API server of a lost member again")
    for each in (lose, back):
        each.add_argument("cluster", metavar="CLUSTER", help="for example member2")


def carry_out(options: argparse.Namespace) -> tuple[int, str]:
    """Returns the exit code and the text of a command of COMMANDS."""
    try:
        folder = running_plane()
        if options.command == "env":
            return 0, (folder / ENVIRONMENT).read_text(encoding="utf-8").rstrip("\n")
        words = [options.command, options.cluster]
        if options.command == "load":
            words[1:1] = [options.workload, options.cpu]
        return send(folder, words)
    except (Refused, OSError, ValueError) as error:
        return 1, str(error)


def running_plane() -> Path:
    """Returns the folder of the plane of KUBECONFIG, or of the only one that runs. Raises Refused."""
    folders = [each.parent for each in runs_folder().glob(f"run-*/{SOCKET}") if _has_owner(each.parent)]
    named = [Path(path).parent for path in os.environ.get("KUBECONFIG", "").split(":")]
    found = [each for each in folders if each in named] or folders
    if not found:
        raise Refused("no plane runs: start one with `python -m testbed.embedded up` in another terminal")
    if len(found) > 1:
        raise Refused(
            "several planes run: export the KUBECONFIG that the one you mean printed: "
            + ", ".join(sorted(str(each / "kubeconfig") for each in found))
        )
    return found[0]


def _has_owner(folder: Path) -> bool:
    owner = ProcessId.parse(" ".join(folder.name.split("-")[1:3]))
    return owner is not None and owner.alive


def send(folder: Path, words: list[str]) -> tuple[int, str]:
    """Sends a command to the plane of a folder; returns the exit code and the text."""
    with socket.socket(socket.AF_UNIX) as connection, _short_path(folder) as path:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(path)
        connection.sendall(json.dumps(words).encode() + b"\n")
        with connection.makefile("rb") as answer:
            code, text = json.loads(answer.readline())
    return int(code), str(text)
