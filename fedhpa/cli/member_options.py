"""Options that say where members come from, as the processes' flags of the same names do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from fedhpa.api.member_sources import MemberSources

DEFAULT: Final = "clusters"
DEFAULT_NAMESPACE: Final = "fedhpa-system"
DEFAULT_ARGOCD: Final = "argocd"


def _option(name: str, help: str = "") -> Any:
    variable = f"FEDHPA_{name.upper().replace('-', '_')}"
    return typer.Option(f"--{name}", envvar=variable, help=help or f"The controller's --{name}.")


MembersFrom = Annotated[
    str,
    _option("members-from", "The controller's --members-from, of clusters, clusterprofiles and argocd."),
]
MembersNamespace = Annotated[
    str, _option("members-namespace", "Namespace of the ConfigMaps about members that are no Clusters.")
]
ProfileNamespaces = Annotated[str, _option("clusterprofile-namespaces")]
ProviderFile = Annotated[
    str,
    _option(
        "clusterprofile-provider-file",
        "The controller's --clusterprofile-provider-file. Its plugins run on this machine.",
    ),
]
PluginEnvironment = Annotated[str, _option("exec-plugin-env")]
ArgocdNamespace = Annotated[str, _option("argocd-namespace")]
ArgocdSecrets = Annotated[str, _option("argocd-secrets")]
ArgocdServers = Annotated[str, _option("argocd-servers")]

# The options of a command that reaches members, with their defaults, by the names of its parameters.
_OPTIONS: Final[dict[str, tuple[Any, str]]] = {
    "members_from": (MembersFrom, DEFAULT),
    "members_namespace": (MembersNamespace, DEFAULT_NAMESPACE),
    "clusterprofile_namespaces": (ProfileNamespaces, ""),
    "clusterprofile_provider_file": (ProviderFile, ""),
    "exec_plugin_env": (PluginEnvironment, ""),
    "argocd_namespace": (ArgocdNamespace, DEFAULT_ARGOCD),
    "argocd_secrets": (ArgocdSecrets, ""),
    "argocd_servers": (ArgocdServers, ""),
}


def reaches_members(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of the sources of members in the place of its parameter `sources`."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for name, one in signature.parameters.items() if name != "sources"]
    added = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
        for name, (kind, default) in _OPTIONS.items()
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        options = {name: given.pop(name) for name in _OPTIONS}
        command(**given, sources=member_sources(**options))

    run.__dict__["__signature__"] = signature.replace(parameters=[*own, *added])
    return run


def member_sources(**options: str) -> MemberSources:
    """Returns the sources that the options name. Raises ConfigError as the processes do."""
    from fedhpa.serving.flags import members, parse_flags

    arguments = [f"--{name.replace('_', '-')}={text}" for name, text in options.items() if text]
    return members.member_sources(parse_flags({"Members": members.SOURCES_OF_MEMBERS}, arguments, {}))
