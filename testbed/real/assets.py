"""Finds or builds all programs of a plane, and links them in one folder.

FEDHPA_KUBERNETES=1.34 selects an older Kubernetes; the other programs are the same.

A program comes from the first of: the folder in KUBEBUILDER_ASSETS (which may be incomplete), the cache, PATH
(the pinned version only), a build from Go modules into the cache. The cache is outside the checkout:

    ${XDG_CACHE_HOME:-~/.cache}/fedhpa/realplane/
        built/<module>-<digest of its files>/<program>
        <version>-<digest over all modules>/<program> -> links to the programs in use
        timings.json    seconds of each program's last build
        lock            held while programs are built or linked
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.real.golang import Go, GoUnusable, find_go
from testbed.real.tools import Tool, all_key, module_key, tools_of

# Seconds. A build that prints nothing for minutes looks hung, and some CI systems end silent jobs.
STILL_BUILDING_EVERY = 30.0


class PlaneUnavailable(Exception):
    """Programs of a real plane are missing and cannot be built. The message names them, the cause and the
    remedy.
    """


def cache_root() -> Path:
    """Returns the cache folder of all versions, which may not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "fedhpa" / "realplane"


def say(text: str) -> None:
    """Prints one line of progress on standard error; standard output carries the result."""
    print(f"real-plane: {text}", file=sys.stderr, flush=True)


def ensure_assets(kubernetes: str | None = None) -> Path:
    """Returns the absolute folder with all programs, after building the missing ones.

    `kubernetes` is a version as in `tools_of`. A concurrent call waits for the first one and uses its
    results. Raises PlaneUnavailable.
    """
    if sys.platform != "linux":
        raise PlaneUnavailable("real planes need Linux: /proc, pidfd and prctl keep their processes in order")
    tools = _tools(kubernetes)
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "lock"):
        found = _find_all(root, tools)
        missing = [tool for tool in tools if tool.name not in found]
        if missing:
            found |= _build_all(root, missing)
        return _link_all(root, tools, found)


def find_assets(kubernetes: str | None = None) -> Path | None:
    """Returns the folder with all programs, or None if one would have to be built.

    `kubernetes` is a version as in `tools_of`. Raises PlaneUnavailable if that version is unknown.
    """
    tools = _tools(kubernetes)
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "lock"):
        found = _find_all(root, tools)
        return _link_all(root, tools, found) if len(found) == len(tools) else None


def find_program(name: str) -> Path | None:
    """Returns one program, or None if it is missing. Ignores the others and does not wait for builds."""
    tool = next(tool for tool in _tools(None) if tool.name == name)
    return _find(cache_root(), tool)


def ensure_program(tool: Tool) -> Path:
    """Returns one program that no plane has, after building it if it is missing. Raises PlaneUnavailable."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "lock"):
        return _find(root, tool) or _build_all(root, [tool])[tool.name]


def module_sources(tool: Tool) -> Path:
    """Returns the folder with the files of the module that pins a program. Raises PlaneUnavailable."""
    try:
        go = find_go()
        done = subprocess.run(
            [go.command, "mod", "download", "-json", tool.pinned_by],
            cwd=tool.folder,
            env=go.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    except (GoUnusable, subprocess.SubprocessError) as error:
        raise PlaneUnavailable(f"no files of {tool.pinned_by}: {error}") from error
    return Path(json.loads(done.stdout)["Dir"])


def _tools(kubernetes: str | None) -> tuple[Tool, ...]:
    try:
        return tools_of(kubernetes)
    except LookupError as error:
        raise PlaneUnavailable(str(error)) from error


def _find_all(root: Path, tools: tuple[Tool, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for tool in tools:
        path = _find(root, tool)
        if path is not None:
            found[tool.name] = path
    return found


def _find(root: Path, tool: Tool) -> Path | None:
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        candidate = Path(named).absolute() / tool.name
        if _executable(candidate):
            pinned = _has_pinned_version(candidate, tool)
            if pinned or not tool.exact:
                note = "" if pinned else f" (not known to be the pinned {tool.version})"
                say(f"{tool.name}: {candidate}, from KUBEBUILDER_ASSETS{note}")
                # The folder may hold links of an earlier run, which must not come to point at themselves.
                return candidate.resolve()
    built = _built_path(root, tool)
    if _executable(built):
        return built
    on_path = shutil.which(tool.name)
    if on_path is not None and _has_pinned_version(Path(on_path), tool):
        say(f"{tool.name}: {on_path}, from PATH, {tool.version}")
        return Path(on_path).absolute()
    return None


def _built_path(root: Path, tool: Tool) -> Path:
    return root / "built" / module_key(tool.module) / tool.name


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _has_pinned_version(path: Path, tool: Tool) -> bool:
    """True if the program runs and reports the pinned version."""
    try:
        answer = subprocess.run(
            [path, *tool.version_args],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return False
    words = f"{answer.stdout} {answer.stderr}".replace("+", " ").split()
    return any(word.lstrip("v").rstrip(",") == tool.version.lstrip("v") for word in words)


def _build_all(root: Path, missing: list[Tool]) -> dict[str, Path]:
    names = ", ".join(tool.name for tool in missing)
    try:
        go = find_go()
    except GoUnusable as error:
        raise PlaneUnavailable(f"not here: {names}; cannot be built: {error}") from error
    timings = _read_timings(root)
    say(f"building {names} with {go.version}, into {root / 'built'}")
    built: dict[str, Path] = {}
    for number, tool in enumerate(missing, start=1):
        if tool.name in timings:
            known = f"last time {timings[tool.name]:.0f} s"
        else:
            known = f"with empty caches about {tool.first_build_seconds} s on two cores"
        say(f"[{number}/{len(missing)}] building {tool.name} {tool.version} ({known})")
        started = time.monotonic()
        built[tool.name] = _build(root, tool, go)
        timings[tool.name] = round(time.monotonic() - started, 1)
        _write_atomically(root / "timings.json", json.dumps(timings, indent=1, sort_keys=True) + "\n")
        say(f"[{number}/{len(missing)}] {tool.name} took {timings[tool.name]:.0f} s")
    return built


def _build(root: Path, tool: Tool, go: Go) -> Path:
    """Builds one program under a temporary name and renames it, so that an interrupted build leaves no
    program.
    """
    target = _built_path(root, tool)
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob(f".{tool.name}.*"):  # the lock excludes other builds
        leftover.unlink()
    temporary = target.with_name(f".{tool.name}.{os.getpid()}")
    log = root / "log" / f"{tool.name}.log"
    log.parent.mkdir(exist_ok=True)
    command = [go.command, "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    command += [
        "-tags",
        ",".join(tool.tags),
        "-ldflags",
        tool.linker_flags,
        "-o",
        str(temporary),
        tool.package,
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=tool.folder,
            env=go.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = _wait_aloud(process, tool.name)
        except BaseException:
            process.terminate()
            process.wait()
            temporary.unlink(missing_ok=True)
            raise
    if code != 0:
        temporary.unlink(missing_ok=True)
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise PlaneUnavailable(
            f"go build of {tool.name} {tool.version} ended with {code} (whole log: {log}):\n{tail}"
        )
    temporary.rename(target)
    return target


def _wait_aloud(process: subprocess.Popen[bytes], name: str) -> int:
    started = time.monotonic()
    while True:
        try:
            return process.wait(timeout=STILL_BUILDING_EVERY)
        except subprocess.TimeoutExpired:
            say(f"still building {name}, {time.monotonic() - started:.0f} s so far")


def _read_timings(root: Path) -> dict[str, float]:
    try:
        known = json.loads((root / "timings.json").read_text(encoding="utf-8"))
        return {str(name): float(seconds) for name, seconds in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # the file only informs; a broken one is ignored


def _link_all(root: Path, tools: tuple[Tool, ...], found: dict[str, Path]) -> Path:
    """Returns a folder of links to the programs.

    Programs from outside the cache get a separate folder, so that a run without that KUBEBUILDER_ASSETS does
    not use them.
    """
    elsewhere = sorted(str(path) for path in found.values() if root not in path.parents)
    name = all_key(tools)
    if elsewhere:
        name += "-with-" + hashlib.sha256("\n".join(elsewhere).encode()).hexdigest()[:12]
    folder = root / name
    folder.mkdir(exist_ok=True)
    for program, path in found.items():
        link = folder / program
        if link.is_symlink() and link.readlink() == path:
            continue
        temporary = folder / f".{program}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(path)
        temporary.rename(link)
    return folder


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an advisory lock on `path`, which the kernel releases if the process dies."""
    with path.open("a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is building; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
