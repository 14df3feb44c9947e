"""The product uses only public names of the libraries whose private ones it once depended on."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("fedhpa", "webhook", "metrics_adapter", "controller", "certs")
LIBRARIES = ("aiohttp", "uvloop", "pydantic", "typer")
# Private names on other objects, with the reason. None of them belongs to one of LIBRARIES.
ALLOWED = {
    "_replace": "a public method of named tuples, whose name alone is private",
    # The kubernetes package has no public way to read a kubeconfig without a global configuration.
    **dict.fromkeys(
        ("_user", "_cluster", "_load_authentication", "_get_base_path"), "the kubernetes package's loader"
    ),
    "_new_conn": "urllib3's documented way to connect elsewhere",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def imported(tree: ast.Module) -> dict[str, str]:
    """Returns the local names of what a module imports from the libraries, with their full names."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if is_library(name.name):
                    found[name.asname or name.name.partition(".")[0]] = (
                        name.name if name.asname else name.name.partition(".")[0]
                    )
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and is_library(node.module):
            found |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return found


def resolved(full: str) -> object:
    """Returns the object with a full name; None if there is none."""
    parts = full.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found
    return None


def library_bases(node: ast.ClassDef, names: dict[str, str]) -> Iterator[type]:
    """Yields the base classes of a class that belong to the libraries."""
    for base in node.bases:
        text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = text.partition(".")
        if first in names:
            found = resolved(names[first] + ("." + rest if rest else ""))
            if inspect.isclass(found):
                yield found


def own_names(base: type) -> set[str]:
    """Returns the private names that a library's class has, by itself or in its instances."""
    found = {name for parent in base.__mro__ for name in vars(parent) if parent is not object}
    for parent in base.__mro__:
        slots = vars(parent).get("__slots__", ())
        found |= {slots} if isinstance(slots, str) else set(slots)
        try:
            source = ast.parse(inspect.cleandoc(inspect.getsource(parent)))
        except (TypeError, OSError, SyntaxError):
            continue
        found |= {
            part.attr
            for part in ast.walk(source)
            if isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.value.id == "self"
        }
    return {name for name in found if is_private(name)}


def uses(source: str) -> list[str]:
    """Returns what a module uses of the private names of libraries, as "line: expression"."""
    tree = ast.parse(source)
    names = imported(tree)
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += [(node.lineno, ast.unparse(node))] * is_private_import(node)
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own and node.attr not in ALLOWED:
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.ClassDef):
            found += inherited(node, names)
    return [f"{line}: {text}" for line, text in dict.fromkeys(found)]


def is_private_import(node: ast.Import | ast.ImportFrom) -> bool:
    module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    full = [f"{module}.{name.name}".lstrip(".") for name in node.names]
    return any(is_library(name) and any(map(is_private, name.split("."))) for name in full)


def inherited(node: ast.ClassDef, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yields what a class overrides or uses of the private names of its base classes."""
    theirs = {name for base in library_bases(node, names) for name in own_names(base)}
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name in theirs:
            yield part.lineno, f"def {part.name}"
        elif isinstance(part, ast.Attribute) and part.attr in theirs:
            yield part.lineno, ast.unparse(part)


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_no_private_name_of_a_library_is_used() -> None:
    """A new release of the library could rename it, and nothing would tell."""
    found = [f"{path.relative_to(ROOT)}:{use}" for path in modules() for use in uses(path.read_text())]

    assert found == []


def test_every_exception_is_still_used() -> None:
    """A reason that nothing needs any more would let the next use pass."""
    text = "".join(path.read_text() for path in modules())

    assert [name for name in ALLOWED if f".{name}" not in text] == []


@pytest.mark.parametrize(
    "source",
    [
        "from aiohttp import _websocket",
        "from aiohttp._http_parser import x",
        "import pydantic._internal",
        "def f(request): return request._task",
        "from aiohttp import web\nclass A(web.Response):\n    async def _prepare_headers(self): ...",
        "from aiohttp import web\nclass A(web.RequestHandler):\n    def f(self): return self._messages",
        "from aiohttp.web import BaseSite as B\nclass A(B):\n    def f(self): self._server = None",
        "from pydantic import BaseModel\nclass A(BaseModel):\n    def f(self): self._copy_and_set_values()",
    ],
)
def test_private_names_are_found(source: str) -> None:
    """Imports, attributes of other objects, and what a subclass overrides or reads."""
    assert uses(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self): return self._messages",
        "from aiohttp import web\nclass A(web.RequestHandler):\n    def _is_small(self): return self._size",
        "from pydantic.alias_generators import to_camel",
    ],
)
def test_own_private_names_are_free(source: str) -> None:
    """Those of our own classes are nobody else's."""
    assert uses(source) == []
