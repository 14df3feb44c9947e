"""The address and credentials of an API server, from a kubeconfig or from the pod's service account.

The `kubernetes` package reads kubeconfigs (merging files, contexts, identity providers). It is
imported only in the functions that need it, because the import costs 0.5 s and 22 MB.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import ipaddress
import os
import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from fedhpa.api.errors import ConfigError
from fedhpa.kube.clock import Clock
from fedhpa.kube.credentials import (
    Credentials,
    FileToken,
    NoCredentials,
    PluginCredentials,
    StaticCredentials,
)
from fedhpa.kube.exec_plugin import ExecPlugin, run_plugin

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PROXY_SCHEMES = ("http", "https")
# A DNS name, also with the underscores that some networks use. Each label has at most 63 characters.
HOST_NAME = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(?:\.(?!$)|\.?$))+")
MAX_HOST = 253
UNSAFE_IN_URLS = frozenset('\\ "<>^`{|}')
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)

# Makes the connections of a client; tests use an in-memory network instead of TCP.
ConnectorFactory = Callable[["ApiConfig"], aiohttp.BaseConnector]


@dataclass(frozen=True)
class ApiConfig:
    """One API server with one identity. Immutable: a rotation makes a new one (`ApiClient.use`).

    - `server`: the base URL without a trailing slash.
    - `ssl`: None for plain http.
    - `qps`: 0 means no client-side limit.
    - `compression`: requests gzip.
    - `ca_file`: the file of the CAs that verify the server; None for those of the system.
    - `files`: the files it was read from; `fingerprint` is their digest (`file_fingerprint`).
    - `connector`: makes the connections; None means TCP.
    - `avoids_local`: a host name that resolves to an address of `is_local_address` is refused.
    """

    server: str
    ssl: ssl.SSLContext | None = None
    ca_file: Path | None = None
    credentials: Credentials = field(default_factory=NoCredentials)
    proxy: str | None = None
    proxy_headers: tuple[tuple[str, str], ...] = ()
    server_hostname: str | None = None
    namespace: str = "default"
    name: str = "hub"
    compression: bool = False
    qps: float = 0.0
    burst: int = 0
    files: tuple[Path, ...] = ()
    fingerprint: bytes = b""
    connector: ConnectorFactory | None = None
    avoids_local: bool = False


async def load_config(
    kubeconfig: str | None, context: str | None = None, *, clock: Clock, flag: str = "--kubeconfig"
) -> ApiConfig:
    """Returns the configuration from the first of: `kubeconfig`, $KUBECONFIG, the pod, ~/.kube/config.

    $KUBECONFIG may name several files, which are merged as kubectl does: the first file that sets a cluster,
    user, context or the current context wins, and missing files are skipped. `context` overrides the current
    context. Raises ConfigError, which names the file and the remedy; `flag` is where `kubeconfig` came from.
    `clock` tells when credentials expire.
    """
    if kubeconfig:
        return await _from_kubeconfig([kubeconfig], context, clock, flag)
    if listed := os.environ.get("KUBECONFIG"):
        return await _from_kubeconfig([part for part in listed.split(os.pathsep) if part], context, clock)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_config(clock)
    home = Path.home() / ".kube" / "config"
    if home.is_file():
        return await _from_kubeconfig([str(home)], context, clock)
    raise ConfigError(
        f"no Kubernetes API configured: give --kubeconfig, set KUBECONFIG, create {home}, or run in a pod"
    )


def tls_context(
    *,
    ca_file: str | None = None,
    ca_data: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    pair: str = "",
    verify: bool = True,
) -> ssl.SSLContext:
    """Returns a TLS context for a client; by convention nobody changes it afterwards.

    With a CA only that CA is trusted, otherwise the system's CAs are, as in client-go. `pair` is a client
    certificate with its key, in PEM. Raises OSError or ValueError if a certificate or key is unusable.
    """
    if verify:
        context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
    else:
        # The system's CAs take long to load, and nothing would be compared with them.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if cert_file:
        context.load_cert_chain(cert_file, keyfile=key_file)
    if pair:
        with _in_memory(pair) as file:
            context.load_cert_chain(file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Yields the name of a file with the text. OpenSSL reads keys from files only, and none stays on disk."""
    number = os.memfd_create("pair")
    try:
        os.write(number, text.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def is_local_address(host: str) -> bool:
    """True for an IP address that means this machine or its link, or no machine; False for a name.

    Cloud providers serve the credentials of a node at a link-local address.
    """
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast


def certificates(bundle: str) -> str:
    """Returns the PEM certificates in a text, without what stands between them. Raises ValueError for none.

    As in Go, comments of any kind are skipped. Python's own reader refuses characters beyond ASCII.
    """
    found = CERTIFICATE.findall(bundle)
    if not found:
        raise ValueError("it has no PEM certificate")
    return "\n".join(found)


def check_proxy(url: str) -> str:
    """Returns the URL if it names an http or https proxy. Raises ValueError otherwise."""
    try:
        return check_url(url)
    except ValueError as error:
        form = "a proxy URL has the form http://HOST:PORT or https://HOST:PORT"
        raise ValueError(f"{form}: {error}") from error


def check_url(url: str) -> str:
    """Returns the URL if a client can send requests to it. Raises ValueError with the reason otherwise.

    Each check stands for an exception that a library raises when it connects, long after the URL was read.
    """
    if not url.isascii() or not url.isprintable() or UNSAFE_IN_URLS & set(url):
        raise ValueError("it has characters that no URL has")
    parts = urlsplit(url)
    if parts.scheme not in PROXY_SCHEMES:
        raise ValueError("it does not begin with http:// or https://")
    if parts.port == 0:
        raise ValueError("port 0 cannot be connected to")
    host = parts.hostname or ""
    if ":" in host:
        ipaddress.IPv6Address(host.partition("%")[0])
    elif len(host) > MAX_HOST or not HOST_NAME.fullmatch(host):
        raise ValueError(f"{host[:100]!r} is neither an IP address nor a DNS name")
    return str(URL(url, encoded=True))


def file_fingerprint(files: Iterable[Path]) -> bytes:
    """Returns a digest of the files' contents. A file that cannot be read counts as empty."""
    digest = hashlib.sha256()
    for path in files:
        try:
            content = path.read_bytes()
        except OSError:  # the file is being replaced
            content = b""
        digest.update(hashlib.sha256(content).digest())
    return digest.digest()


async def _from_kubeconfig(
    sources: Sequence[str], context: str | None, clock: Clock, flag: str = "--kubeconfig"
) -> ApiConfig:
    source = os.pathsep.join(sources)
    files = _present(sources, flag)
    library = importlib.import_module("kubernetes.aio.config.kube_config")
    settings = importlib.import_module("kubernetes.aio.client.configuration").Configuration()
    try:
        loader = library.KubeConfigLoader(
            config_dict=_merged(files, library.ConfigNode), config_base_path=None, active_context=context
        )
        # The library's own way to run a plugin has no deadline, and leaves processes behind.
        loader.load_from_exec_plugin = functools.partial(_load_from_plugin, library, loader)
        await loader.load_and_set(settings)
        return _convert(loader, settings, tuple(files), clock)
    except ConfigError:
        raise
    # For a wrong file the library raises YAML, base64, key, type and file errors alike.
    except Exception as error:
        where = f", context {context!r}" if context else ""
        if context and f"name {context} in" in str(error):
            raise ConfigError(
                f"kubeconfig {source} has no context {context!r}: see `kubectl config get-contexts`"
            ) from error
        raise ConfigError(
            f"kubeconfig {source}{where}: {_first_line(error)}: check it with `kubectl config view`"
        ) from error


def known_contexts(kubeconfig: str | None) -> tuple[str, dict[str, tuple[str, str]]]:
    """Returns the current context, and of each context its server and the file that defines it.

    The files are those of `load_config`. Where they cannot be read, nothing is known.
    """
    import yaml

    listed = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    current, found, servers = "", dict[str, tuple[str, str]](), dict[str, str]()
    for file in [kubeconfig] if kubeconfig else listed.split(os.pathsep):
        try:
            content = yaml.safe_load(Path(file).expanduser().read_text(encoding="utf-8")) or {}
            current = current or str(content.get("current-context") or "")
            for entry in content.get("clusters") or ():
                servers.setdefault(entry["name"], str(entry["cluster"].get("server", "")).rstrip("/"))
            for entry in content.get("contexts") or ():
                found.setdefault(entry["name"], (str(entry["context"].get("cluster", "")), file))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError):
            continue
    return current, {name: (servers.get(cluster, ""), file) for name, (cluster, file) in found.items()}


def _present(sources: Sequence[str], flag: str) -> list[Path]:
    paths = [Path(one).expanduser() for one in sources]
    files = [path for path in paths if path.is_file()]
    if not files:
        problem = "it is a folder" if any(path.is_dir() for path in paths) else "no such file"
        raise ConfigError(f"kubeconfig {os.pathsep.join(sources)}: {problem}: correct {flag} or KUBECONFIG")
    return files


def _merged(files: Sequence[Path], node: Callable[[str, Any, str], Any]) -> Any:
    """Returns the files as one kubeconfig, by the rules of kubectl.

    The library lets the last current context win. `node` is its type of a value that knows its file, by
    which the library finds relative paths.
    """
    import yaml

    merged: dict[str, Any] = {}
    lists: dict[str, dict[str, Any]] = {"clusters": {}, "contexts": {}, "users": {}}
    for file in files:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        if content is None and len(files) > 1:  # kubectl skips an empty file
            continue
        if not isinstance(content, dict):
            raise ConfigError(f"kubeconfig {file}: expected a mapping: check it with `kubectl config view`")
        if content.get("current-context"):
            merged.setdefault("current-context", content["current-context"])
        for key, named in lists.items():
            for entry in content.get(key) or []:
                named.setdefault(entry["name"], node(f"{file}/{entry['name']}", entry, str(file)))
    first = str(files[0])
    return node(first, merged | {key: list(named.values()) for key, named in lists.items()}, first)


def _convert(loader: Any, settings: Any, files: tuple[Path, ...], clock: Clock) -> ApiConfig:
    server = str(settings.host).rstrip("/")
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"cluster.server {server!r} is no http(s) URL")
    context = None
    if parts.scheme == "https":
        context = tls_context(
            ca_file=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            verify=settings.verify_ssl,
        )
    tls_files = (settings.ssl_ca_cert, settings.cert_file, settings.key_file)
    files += tuple(Path(name) for name in tls_files if name)
    return ApiConfig(
        server=server,
        ssl=context,
        ca_file=Path(settings.ssl_ca_cert) if settings.ssl_ca_cert else None,
        credentials=_credentials(loader, settings, clock),
        proxy=check_proxy(settings.proxy) if settings.proxy else None,
        server_hostname=settings.tls_server_name or None,
        namespace=loader.current_context.get("context", {}).get("namespace") or "default",
        files=files,
        fingerprint=file_fingerprint(files),
    )


def _credentials(loader: Any, settings: Any, clock: Clock) -> Credentials:
    user = loader._user
    token_file = user.safe_get("tokenFile") if user is not None else None
    if token_file:
        # The library reads the file once, with its newline. client-go rereads it and prefers it to `token`.
        return FileToken(Path(loader._get_base_path(user.path), token_file), clock=clock.monotonic)
    if user is not None and ("exec" in user or loader.provider):
        return PluginCredentials(lambda: _run_plugin(loader), _plugin_answer(loader), wall=clock.wall)
    header = settings.api_key.get("BearerToken")
    return StaticCredentials(header) if header else NoCredentials()


async def _run_plugin(loader: Any) -> tuple[str | None, float | None]:
    await loader._load_authentication()
    return _plugin_answer(loader)


async def _load_from_plugin(library: Any, loader: Any) -> bool:
    """Takes the place of the library's method: sets token, certificate and expiry. Returns True."""
    user, cluster = loader._user, loader._cluster
    plugin = ExecPlugin.read(user["exec"].value, loader._get_base_path(user.path))
    given = dict(cluster.value)
    if given.get("certificate-authority"):
        given["certificate-authority"] = str(
            Path(loader._get_base_path(cluster.path), given["certificate-authority"])
        )
    found = await run_plugin(plugin, given)
    loader.token = f"Bearer {found.token}" if found.token else None
    loader.exec_plugin_expiry = found.expiry
    pair = {"cert_file": found.client_certificate_data, "key_file": found.client_key_data}
    for name, data in pair.items():
        if data:
            kept = library.FileOrData({"pem-data": data}, "pem", base64_file_content=False)
            setattr(loader, name, kept.as_file())
    return True


def _plugin_answer(loader: Any) -> tuple[str | None, float | None]:
    return getattr(loader, "token", None), getattr(loader, "exec_plugin_expiry", None)


def in_cluster_config(clock: Clock, folder: Path = SERVICE_ACCOUNT) -> ApiConfig:
    """Returns the configuration of a pod's service account. Raises ConfigError."""
    library = importlib.import_module("kubernetes.aio.config.incluster_config")
    settings = importlib.import_module("kubernetes.aio.client.configuration").Configuration()
    token, authority, namespace = folder / "token", folder / "ca.crt", folder / "namespace"
    try:
        library.InClusterConfigLoader(
            token_filename=str(token), cert_filename=str(authority), try_refresh_token=False
        ).load_and_set(settings)
        context = tls_context(ca_file=str(authority))
        own = namespace.read_text().strip() if namespace.is_file() else "default"
    except Exception as error:
        raise ConfigError(
            f"service account in {folder}: {_first_line(error)}: set automountServiceAccountToken: true"
            " on the pod, or give --kubeconfig"
        ) from error
    return ApiConfig(
        server=settings.host,
        ssl=context,
        ca_file=authority,
        credentials=FileToken(token, clock=clock.monotonic),
        namespace=own,
        files=(authority,),
        fingerprint=file_fingerprint((authority,)),
    )


def _first_line(error: BaseException) -> str:
    """Returns an error as one short line, because parsers quote whole files, which may contain keys."""
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__
