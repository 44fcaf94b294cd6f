"""A release: the version in every file that names it, and the files that are published.

python -m workshop.site.release begin 0.2.0       write the version; notebooks then install this version
python -m workshop.site.release after             let notebooks install the main branch again
python -m workshop.site.release check v0.2.0      fail unless the tag is the version that every file names
python -m workshop.site.release collect           pack what is published into _build/release; publishes nothing
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from workshop.site.address import configured
from workshop.site.make_epub import NAME as EPUB
from workshop.site.make_pdf import NAME as PDF
from workshop.site.versions import pack

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
VERSION = r"\d+\.\d+\.\d+"
# Where the version stands: file, what is before it, what is after it.
PLACES = (
    ("pyproject.toml", r'^version = "', r'"$'),
    ("CITATION.cff", r"^version: ", r"$"),
)
DATE = re.compile(r"^(date-released: )[\d-]+$", re.MULTILINE)
BRANCH = re.compile(r"^(  branch: )\S+$", re.MULTILINE)
UNRELEASED = "## [Unreleased]\n"
BUILD_PACKAGE = """import sys
from setuptools import build_meta
out = sys.argv[1]  # setuptools writes arguments of its own over these
build_meta.build_sdist(out)
build_meta.build_wheel(out)"""


def written(root: Path = ROOT) -> dict[str, str]:
    """File → the version that it names."""
    found = {}
    for name, before, after in PLACES:
        match = re.search(f"{before}({VERSION}){after}", (root / name).read_text("utf-8"), re.MULTILINE)
        found[name] = match[1] if match else "none"
    return found


def set_branch(branch: str, root: Path = ROOT) -> None:
    """Where links and notebooks lead: a branch, or the tag of a version."""
    config = root / "_config.yml"
    config.write_text(BRANCH.sub(rf"\g<1>{branch}", config.read_text("utf-8")), "utf-8")


def begin(version: str, day: str, root: Path = ROOT) -> None:
    """Write a version and its day into every file that names one."""
    if not re.fullmatch(VERSION, version):
        raise ValueError(f"version {version!r} must be three numbers, such as 0.2.0")
    log = (root / "CHANGELOG.md").read_text("utf-8")
    if UNRELEASED not in log:
        raise ValueError("CHANGELOG.md has no section [Unreleased]: there is nothing to release")
    for name, before, after in PLACES:
        text = (root / name).read_text("utf-8")
        pattern = re.compile(f"({before}){VERSION}({after})", re.MULTILINE)
        (root / name).write_text(DATE.sub(rf"\g<1>{day}", pattern.sub(rf"\g<1>{version}\g<2>", text)), "utf-8")
    (root / "CHANGELOG.md").write_text(log.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1), "utf-8")
    set_branch(f"v{version}", root)


def notes(version: str, root: Path = ROOT) -> str:
    """What the changelog says of a version."""
    log = (root / "CHANGELOG.md").read_text("utf-8")
    match = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", log, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def disagreements(tag: str, root: Path = ROOT) -> list[str]:
    """What in the repository is not of the version that the tag names."""
    version = tag.removeprefix("v")
    wrong = [f"{name} names {found}" for name, found in written(root).items() if found != version]
    if (branch := configured(root).branch) != tag:
        wrong.append(f"_config.yml: notebooks would install {branch}")
    if not notes(version, root):
        wrong.append(f"CHANGELOG.md has nothing under [{version}]")
    return wrong


def build_package(root: Path, out: Path) -> None:
    """Build wheel and sources from a copy, in which setuptools may leave files behind."""
    with tempfile.TemporaryDirectory() as copy:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / name, copy)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / "transformer_lib", Path(copy, "transformer_lib"), ignore=ignored)
        command = [sys.executable, "-c", BUILD_PACKAGE, str(out.resolve())]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ValueError(f"the package cannot be built:\n{done.stderr[-2000:]}")


def collect(site: Path, out: Path) -> list[Path]:
    """Put everything that a release publishes into a new folder, with its notes and a list of sha256 sums."""
    if not (site / "index.html").exists():
        raise ValueError(f"{site} holds no site: run `make book pdf epub` first")
    for name, command in ((PDF, "make pdf"), (EPUB, "make epub")):
        if not (site / name).exists():
            raise ValueError(f"{site} holds no {name}: run `{command}` first")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = written()["pyproject.toml"]
    build_package(ROOT, out)
    pack(site, out / f"site-v{version}.zip")
    pack(ROOT / "notebooks", out / f"notebooks-v{version}.zip")
    for name in (PDF, EPUB):
        shutil.copyfile(site / name, out / name)
    files = sorted(out.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(sums), "utf-8", newline="\n")
    (out / "notes.md").write_text(f"{notes(version)}\n", "utf-8")
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("begin").add_argument("version")
    commands.add_parser("after")
    commands.add_parser("check").add_argument("tag")
    packing = commands.add_parser("collect")
    packing.add_argument("--site", type=Path, default=BUILD / "html", help="the built site")
    packing.add_argument("--out", type=Path, default=BUILD / "release", help="this folder is written anew")
    arguments = parser.parse_args()
    try:
        if arguments.command == "begin":
            begin(arguments.version, datetime.now(UTC).date().isoformat())
        elif arguments.command == "after":
            set_branch("main")
        elif arguments.command == "check":
            if wrong := disagreements(arguments.tag):
                raise ValueError(f"{arguments.tag} is not what the files say: {'; '.join(wrong)}")
        else:
            for path in collect(arguments.site, arguments.out):
                print(f"{path.stat().st_size / 1e6:7.1f} MB  {path}")
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
