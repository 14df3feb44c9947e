"""The Dockerfile agrees with the lock files, the entry points and the chart."""

from __future__ import annotations

import base64
import re
import shlex
import tomllib
from fnmatch import fnmatch
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import yaml

from testbed.reference import chart as reference
from tests.support.dockerfile import ROOT, Instruction, instructions

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def of(name: str) -> list[Instruction]:
    return [one for one in instructions() if one.name == name]


def pins(path: str) -> dict[str, str]:
    """The pinned versions of a lock file; fails if one has no hash."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = {}
    for block in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]:
        name, version = re.match(r"([\w.-]+)==(\S+)", block).groups()  # type: ignore[union-attr]
        assert "--hash=sha256:" in block, name
        found[name] = version
    return found


def test_both_stages_use_the_same_small_python() -> None:
    """The interpreter of the build is that of the image: slim, pinned by digest, allowed by the project."""
    bases = [one.text.split(" ")[0] for one in of("FROM")]
    major, minor = re.match(r"python:(\d+)\.(\d+)-slim", bases[0]).groups()  # type: ignore[union-attr]
    lowest = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["project"]["requires-python"])

    assert len(set(bases)) == 1
    assert re.fullmatch(r"[^@]+@sha256:[0-9a-f]{64}", bases[0])
    assert lowest
    assert (int(major), int(minor)) >= (int(lowest[1]), int(lowest[2]))


def test_everything_is_installed_from_the_lock_files() -> None:
    """Each pip either demands hashes or installs only the built wheel."""
    installs = [one.text for one in of("RUN") if " install " in one.text]

    assert len(installs) == 3
    for line in installs:
        locked = "--require-hashes" in line and "--only-binary=:all:" in line
        local = "--no-index" in line and "--no-deps" in line
        assert locked != local, line
    assert {name for line in installs for name in re.findall(r"-r (\S+)", line)} == {
        "lock/runtime.txt",
        "lock/build.txt",
    }


def test_lock_files_agree() -> None:
    """The image has the versions that the tests ran with, and the build backend of the project."""
    dev = pins("lock/dev.txt")
    backend = re.match(r"[\w-]+", PROJECT["build-system"]["requires"][0])

    for path in ("lock/runtime.txt", "lock/build.txt"):
        assert pins(path).items() <= dev.items(), path
    assert backend
    assert backend[0] in pins("lock/build.txt")
    direct = {re.match(r"[\w-]+", one)[0] for one in PROJECT["project"]["dependencies"]}  # type: ignore[index]
    assert direct <= pins("lock/runtime.txt").keys()


def test_the_lock_file_of_the_build_is_complete() -> None:
    """It pins the build backend and all that it requires, because pip demands a hash of each."""
    open_ones, needed = ["hatchling"], set[str]()
    while open_ones:
        name = open_ones.pop()
        if name not in needed:
            needed.add(name)
            requirements = [one for one in requires(name) or () if "extra ==" not in one]
            open_ones += [one for one in map(package_name, requirements) if one != "tomli"]

    assert pins("lock/build.txt").keys() == needed


def package_name(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]


def test_the_build_sees_the_wheels_packages_and_no_more() -> None:
    """COPY names the packages of the wheel and the files of the build. .dockerignore admits exactly them."""
    copied = {
        source for one in of("COPY") if not one.text.startswith("--from") for source in one.text.split()[:-1]
    }
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]

    assert copied == packages | {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "lock/runtime.txt",
        "lock/build.txt",
        "charts/fedhpa/files/crds",
        "charts/fedhpa/files/rights.yaml",
    }
    assert all((ROOT / source).exists() for source in copied)
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule[0] == "!"} == copied


def test_the_image_runs_without_root() -> None:
    """USER is a number other than root's, which Kubernetes can check for the chart's runAsNonRoot."""
    (user,) = (one.text for one in of("USER"))

    assert all(int(number) > 0 for number in user.split(":"))
    assert of("USER")[0].stage == of("FROM")[-1].stage


def test_the_commands_of_the_chart_are_in_the_path() -> None:
    """PATH of the image begins with the folder of the entry points, which the chart runs by name."""
    (environment,) = (shlex.split(one.text) for one in of("ENV"))
    path = dict(one.split("=", 1) for one in environment)["PATH"].split(":")
    (copied,) = (one.text.split()[-1] for one in of("COPY") if one.text.startswith("--from"))
    entry_points = PROJECT["project"]["scripts"]

    assert path[0] == f"{copied}/bin"
    assert {"fedhpa", "fedhpa-controller", "fedhpa-metrics-adapter", "fedhpa-webhook"} <= entry_points.keys()
    assert not of("ENTRYPOINT")


def test_the_chart_has_the_projects_version() -> None:
    """Chart, appVersion (the image's tag) and project are released together. No image is published yet."""
    chart = yaml.safe_load((ROOT / "charts" / "fedhpa" / "Chart.yaml").read_text(encoding="utf-8"))

    assert chart["version"] == chart["appVersion"] == PROJECT["project"]["version"]
    assert "artifacthub.io/images" not in chart["annotations"]


def test_the_chart_presents_itself_truly() -> None:
    """The icon is the file beside it, all CRDs are listed, and no address is made up: the release adds it."""
    folder = ROOT / "charts" / "fedhpa"
    chart = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    icon = base64.b64decode(chart["icon"].removeprefix("data:image/svg+xml;base64,"))
    installed = {
        one["metadata"]["name"]
        for file in (folder / "files" / "crds").glob("*.yaml")
        for one in yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    }
    listed = {one["name"] for one in yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])}

    assert icon.decode() == (folder / "icon.svg").read_text(encoding="utf-8").strip()
    assert listed == installed
    assert chart["maintainers"]
    assert not {"home", "sources"} & chart.keys()


def test_the_readme_of_the_chart_names_values_that_exist() -> None:
    """Each value in its table is in the schema."""
    text = (ROOT / "charts" / "fedhpa" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \| ", text, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}

    assert len(named) > len(rows) > 5
    assert named <= {value.path for value in reference.values()}


def test_make_image_builds_for_both_architectures() -> None:
    """`make image` names amd64 and arm64."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert re.search(r"^PLATFORMS \?= linux/amd64,linux/arm64$", makefile, flags=re.MULTILINE)


def test_locked_wheels_exist_for_both_architectures() -> None:
    """uv locks for all platforms, so no dependency is left out on arm64 alone."""
    text = (ROOT / "lock" / "runtime.txt").read_text(encoding="utf-8")
    markers = re.findall(r"platform_machine == '(\w+)'", text)

    assert "platform_machine" not in text or {"x86_64", "aarch64"} <= set(markers)
    assert not fnmatch(text, "*platform_machine != *")


def workflows() -> dict[str, dict[str, Any]]:
    folder = ROOT / ".github" / "workflows"
    return {
        path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.yaml")
    }


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def test_ci_runs_what_the_repository_runs() -> None:
    """The workflow of pull requests runs .ci/run and nothing that it would not."""
    ran = [step["run"] for step in steps(workflows()["ci.yaml"]) if "run" in step]

    assert ran == [".ci/run"]


def test_a_release_is_built_listed_and_signed() -> None:
    """The release builds the image for both architectures with an SBOM, pushes the chart, and signs all."""
    release = workflows()["release.yaml"]
    ran = "\n".join(step.get("run", "") for step in steps(release))

    assert "make image" in ran
    assert "PUSH=1" in ran
    assert ran.count("cosign sign ") == 2
    assert ran.count("cosign sign-blob ") == 1
    assert "helm push" in ran
    assert "cosign attest" in ran
    assert release["permissions"] == {"contents": "read"}


def test_workflows_have_only_the_rights_that_they_name() -> None:
    assert all("permissions" in workflow for workflow in workflows().values())


def test_actions_of_workflows_are_pinned_by_commit() -> None:
    """A moved tag of somebody else's action must not run with the rights of a release."""
    uses = [
        found
        for path in sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
        for found in re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    ]

    assert len(uses) > 10
    for found in uses:
        local = found.startswith("./.github/workflows/")
        assert local or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", found), found


def test_a_release_is_tested_first() -> None:
    """The job that publishes waits for the workflow of every pull request."""
    jobs = workflows()["release.yaml"]["jobs"]

    assert jobs["release"]["needs"] == "test"
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yaml"
