"""A package imports from another only what the other offers (docs/explanation/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.sources import parsed

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FOLDERS = ("fedhpa", "webhook", "metrics_adapter", "controller", "certs", "testbed", "demo", "benchmarks")
# A longer list would offer nearly everything.
MOST_MAIN_MODULES = 9


class Use(NamedTuple):
    """A name of another package: the file and line of the import or attribute, and the name's module."""

    where: str
    package: str
    module: str
    name: str


def offers() -> dict[str, list[str] | None]:
    """The main modules of each package by the table of the page; None for all."""
    chapter = (
        PAGE.read_text(encoding="utf-8").partition("## Main modules of each package")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| ([a-z_.]+) \|(.*)\|$", chapter, re.MULTILINE)
    return {
        package: None if modules.strip().startswith("all") else re.findall(r"`([a-z_.]+)`", modules)
        for package, modules in rows
        if package != "package"
    }


OFFERS = offers()


def package_of(module: str) -> str:
    """The package of the table that holds `module`, else its first part."""
    parts = module.split(".")
    return next((package for package in (".".join(parts[:2]), parts[0]) if package in OFFERS), parts[0])


def is_module(name: str) -> bool:
    """True if a file or folder of the tree is the module `name`."""
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def uses(tree: ast.Module, module: str, where: str) -> Iterator[Use]:
    """The names of other packages that `module`, of which `tree` is the code, imports or reads privately."""
    foreign: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(alias.name, "", alias.asname or alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "imports are absolute"
            found = [(node.module, alias.name, alias.asname or alias.name) for alias in node.names]
        else:
            continue
        for target, name, bound in found:
            if target.split(".")[0] not in FOLDERS or package_of(target) == package_of(module):
                continue
            if is_module(f"{target}.{name}"):
                yield Use(f"{where}:{node.lineno}", package_of(target), f"{target}.{name}", "")
                foreign[bound] = f"{target}.{name}"
            else:
                yield Use(f"{where}:{node.lineno}", package_of(target), target, name)
                foreign[bound] = target
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in foreign:
            target = foreign[node.value.id]
            if node.attr.startswith("_") and not node.attr.startswith("__"):
                yield Use(f"{where}:{node.lineno}", package_of(target), target, node.attr)


@cache
def all_uses() -> list[Use]:
    """The uses of all product, testbed, demo and benchmark code."""
    found: list[Use] = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        relative = path.relative_to(ROOT)
        module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        found += uses(parsed(path), module, str(relative))
    return found


def refusal(use: Use) -> str:
    """Why the package does not offer what the use names; empty if it does."""
    named = f"{use.where}: {use.module} {use.name}".rstrip()
    if any(part.startswith("_") for part in (*use.module.split("."), use.name)):
        return f"{named}: a private name"
    modules = OFFERS.get(use.package)
    if use.package not in OFFERS or modules is None or use.module == use.package:
        return ""
    inner = use.module.removeprefix(f"{use.package}.")
    # `from fedhpa.decision import decide` names the function; a module of the same name holds it.
    if inner in modules or (not use.name and offered_by_package(use.package, inner)):
        return ""
    return f"{named}: not a main module of {use.package}"


def offered_by_package(package: str, name: str) -> bool:
    """True if the package's `__init__` imports `name`."""
    tree = parsed(ROOT.joinpath(*package.split("."), "__init__.py"))
    return name in {
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


@pytest.mark.parametrize("package", sorted(OFFERS))
def test_other_packages_use_only_what_a_package_offers(package: str) -> None:
    """Other packages import from the package itself or its main modules, and no private name."""
    assert [text for use in all_uses() if use.package == package and (text := refusal(use))] == []


@pytest.mark.parametrize("package", sorted(package for package, modules in OFFERS.items() if modules))
def test_the_lists_of_main_modules_are_short_and_used(package: str) -> None:
    """Each main module is used by another package, and no package offers most of itself."""
    modules = OFFERS[package] or []
    used = {use.module.removeprefix(f"{package}.") for use in all_uses() if use.package == package}

    assert len(modules) <= MOST_MAIN_MODULES
    assert [module for module in modules if module not in used] == []


def test_every_package_is_in_the_table() -> None:
    """Each package from which others import has its row."""
    shared = {"fedhpa"}  # fedhpa.cache, a module of its own

    assert {use.package for use in all_uses()} - shared <= set(OFFERS)


@cache
def offered_names() -> list[tuple[str, str]]:
    """Each name that the `__init__` of a package imports from within it."""
    found: list[tuple[str, str]] = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("__init__.py")):
        package = ".".join(path.relative_to(ROOT).parent.parts)
        tree = parsed(path)
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        found += [
            (package, alias.asname or alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{package}.")
            for alias in node.names
            if (alias.asname or alias.name) not in read
        ]
    return found


def test_each_name_that_a_package_offers_is_imported() -> None:
    """An `__init__` imports a name only to offer it, so somebody else imports the name from there."""
    paths = [path for folder in (*FOLDERS, "tests") for path in (ROOT / folder).rglob("*.py")]
    imported = {
        (str(node.module), alias.name)
        for path in paths
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert [one for one in offered_names() if one not in imported] == []


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("from fedhpa.kube.client import ApiClient", "not a main module of fedhpa.kube"),
        ("from fedhpa.kube import client", "not a main module of fedhpa.kube"),
        ("import fedhpa.kube.client", "not a main module of fedhpa.kube"),
        ("from fedhpa.cron import _parse", "a private name"),
        ("from fedhpa.members import metrics\nmetrics._values()", "a private name"),
        ("from fedhpa.kube import ApiClient", ""),
        ("from fedhpa.members import metrics\nmetrics.values()", ""),
        ("from fedhpa.decision import decide", ""),
    ],
)
def test_what_is_refused(text: str, refused: str) -> None:
    """The check finds each way to import, and attributes of imported modules."""
    reasons = [refusal(use) for use in uses(ast.parse(text), "controller.example", "example.py")]

    assert (refused in reasons[-1]) if refused else (reasons[-1] == "")


@pytest.mark.parametrize("module", ["fedhpa.cron", "fedhpa.decision", "fedhpa.cli.main"])
def test_light_packages_load_no_client(module: str) -> None:
    """Packages that need no API, and the start of `fedhpa`, load neither aiohttp nor kubernetes."""
    program = f"import sys, {module}; print([m for m in ('aiohttp', 'kubernetes') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert result.stdout.strip() == "[]"


def test_no_module_is_longer_than_400_lines() -> None:
    """A longer module is split (docs/contributing/style.md)."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

    assert [str(path) for path in paths if path.read_text(encoding="utf-8").count("\n") > 400] == []
