"""Options that several commands share."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli import completion
from fedhpa.cli.hub_client import hub_client

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

T = TypeVar("T")

Namespace = Annotated[
    str,
    typer.Option(
        "-n",
        "--namespace",
        help="Namespace; if not set, that of the kubeconfig's context.",
        autocompletion=completion.namespaces,
    ),
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Kubeconfig of the hub; if not set, as kubectl finds it.")
]
Context = Annotated[
    str,
    typer.Option(
        "--context",
        help="Context of the kubeconfig; if not set, its current context.",
        autocompletion=completion.contexts,
    ),
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name, after a kind.", autocompletion=completion.names),
]
Propagation = Annotated[
    str,
    typer.Option(
        "--propagation",
        help="The controller's --propagation (karmada or direct); if not set, that of the last decision.",
    ),
]
MetricsVia = Annotated[
    str,
    typer.Option(
        "--metrics-via", help="The controller's --metrics-via (members or hub); if not set, members."
    ),
]
# Bytes of a file of certificates. An API server stores objects of at most 1.5 MiB.
MAX_CERTIFICATES: Final = 1_000_000

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
Command = Callable[..., None]
_ARGUMENT: Final = type(typer.Argument())
_OPTIONS: Final = "\n\nOptions:\n"
_CERTIFICATE: Final = re.compile(_BEGIN + rb"[^-]*-----END CERTIFICATE-----")


@dataclass(frozen=True)
class Hub:
    """The flags that choose the hub."""

    kubeconfig: Kubeconfig = ""
    context: Context = ""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[ApiClient, str]]:
        """Yields the hub's client, and the namespace that the person or the kubeconfig names."""
        async with hub_client(self.kubeconfig, self.context) as (api, default):
            yield api, getattr(self, "namespace", "") or default

    def run(self, call: Callable[[ApiClient, str], Awaitable[T]]) -> T:
        """Returns what a call with the client and the namespace returns."""

        async def run() -> T:
            async with self.client() as found:
                return await call(*found)

        return asyncio.run(run())

    def command(self, *words: str) -> str:
        """Returns a command line of ours for the same hub and namespace."""
        flags = (("namespace", "-n "), ("kubeconfig", "--kubeconfig="), ("context", "--context="))
        given = [f"{flag}{quote(value)}" for name, flag in flags if (value := getattr(self, name, ""))]
        return " ".join(["fedhpa", *words, *given])


@dataclass(frozen=True)
class HubFlags(Hub):
    """The flags that choose the hub, and a namespace on it."""

    namespace: Namespace = ""


class JsonOrText(StrEnum):
    """The output formats of most commands."""

    JSON = "json"
    TEXT = "text"


Output = Annotated[JsonOrText, typer.Option("-o", "--output", help="Output format.")]


class MetricsApi(StrEnum):
    """The metrics APIs that the adapter serves, as the chart's `apis` has them."""

    METRICS = "metrics"
    CUSTOM = "custom"
    EXTERNAL = "external"


def seconds_of(
    option: str, text: str, example: str, *, zero: bool = False, most: float = float("inf")
) -> float:
    """Returns the seconds of an option, above 0 or with `zero` from 0 on. Raises ConfigError."""
    from fedhpa.api.times import parse_duration

    try:
        seconds = parse_duration(text)
    except InvalidObject as error:
        raise ConfigError(f"{option}: {error}") from error
    if not 0 <= seconds <= most or (not seconds and not zero):
        bounds = "above 0" if most == float("inf") else f"of at most {most:g}s"
        raise ConfigError(f"{option}={text[:50]}: expected a duration {bounds}, such as {example}")
    return seconds


def cluster_name(name: str, metavar: str = "CLUSTER") -> str:
    """Returns the name of a Cluster. Raises ConfigError that names the argument."""
    from fedhpa.api.membership import name_problem

    if problem := name_problem(name):
        raise ConfigError(f"{metavar}={name[:300]!r}: {problem}")
    return name


def secrets_by_namespace(texts: Iterable[str], default: str) -> dict[str, list[str]]:
    """Returns the names in `--secret` options by namespace. `default` is the namespace of a plain name.

    Raises ConfigError for a text that is neither NAME nor NAMESPACE/NAME.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        namespace, slash, name = text.rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ConfigError(f'--secret="{text}": expected NAME or NAMESPACE/NAME')
        found.setdefault(namespace or default, []).append(name)
    return found


def read_certificates(option: str, path: Path) -> bytes:
    """Returns the certificates of the PEM file that an option names, without its keys and comments.

    Raises ConfigError that names option and file.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        with path.open("rb") as file:
            content = file.read(MAX_CERTIFICATES + 1)
    except OSError as error:
        raise ConfigError(f"{option}={path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_CERTIFICATES:
        raise ConfigError(f"{option}={path}: has more than {MAX_CERTIFICATES} bytes")
    blocks = _CERTIFICATE.findall(content)
    if not blocks or len(blocks) != content.count(_BEGIN):
        raise ConfigError(f"{option}={path}: expected PEM certificates")
    try:
        certificates = [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError as error:
        raise ConfigError(f"{option}={path}: certificate is damaged") from error
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def with_flags(**defaults: Any) -> Callable[[Command], Command]:
    """Makes a command of a function whose docstring describes its flags. A dataclass stands for those in it.

    The paragraph `Options:` of a docstring has an entry for each parameter that is not `Annotated`, in
    their order: `-n, --name METAVAR: HELP` for an option, `name METAVAR: HELP` for an argument. `defaults`
    replace those of the dataclasses. A flag whose default is None is no flag of the command.
    """

    def of_command(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        groups = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}
        alone = [one.replace(kind=one.KEYWORD_ONLY) for name, one in own.items() if name not in groups]
        # The flags of a command's own come before those that many commands have.
        found = _described(command.__doc__, alone)
        found += [one for kind in groups.values() for one in _parameters(kind, defaults)]
        # The arguments come first, as people write them.
        found.sort(
            key=lambda one: not any(isinstance(each, _ARGUMENT) for each in one.annotation.__metadata__)
        )

        def called(**given: Any) -> None:
            command(**{name: _value(kind, given) for name, kind in groups.items()}, **given)

        called.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
        called.__name__ = command.__name__
        called.__doc__ = inspect.cleandoc(command.__doc__ or "").partition(_OPTIONS)[0]
        called.__annotations__ = {}
        return called

    return of_command


def _described(doc: str | None, parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Returns the parameters with what the docstring of their function or class says of them.

    Raises ValueError if it describes more or fewer than those that are not `Annotated`.
    """
    block = inspect.cleandoc(doc or "").partition(_OPTIONS)[2]
    plain = [one for one in parameters if not hasattr(one.annotation, "__metadata__")]
    described = {}
    for one, entry in zip(plain, re.split(r"\n(?=\S)", block) if block else (), strict=True):
        head, _, text = " ".join(entry.split()).partition(": ")
        names, _, metavar = head.replace(", ", ",").partition(" ")
        completed = completion.objects if one.name == "target" else None
        words: dict[str, Any] = {"help": text, "metavar": metavar or None, "autocompletion": completed}
        is_option = names.startswith("-")
        kind = typer.Option(*names.split(","), **words) if is_option else typer.Argument(**words)
        described[one.name] = one.replace(annotation=Annotated[one.annotation, kind])
    return [described.get(one.name, one) for one in parameters]


def _parameters(kind: Any, defaults: dict[str, Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    alone = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(field.name, field.default),
            annotation=hints[field.name],
        )
        for field in fields(kind)
        if not is_dataclass(hints[field.name])
    ]
    for hint in hints.values():
        if is_dataclass(hint):
            yield from _parameters(hint, defaults)
    yield from (one for one in _described(kind.__doc__, alone) if one.default is not None)


def _value(kind: Any, given: dict[str, Any]) -> Any:
    """Returns a value of a class, and takes its flags away from those given."""
    hints = get_type_hints(kind)
    values = {name: _value(hint, given) for name, hint in hints.items() if is_dataclass(hint)}
    return kind(**values, **{name: given.pop(name) for name in hints if name in given})
