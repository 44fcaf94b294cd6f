"""The published site with its versions: the newest text at the root, each release in a folder of its own.

    python -m workshop.site.versions --main _build/html --releases FOLDER --out FOLDER

`site-v0.2.1.zip` becomes /v0.2/, and the newest of all also /latest/. Each folder gets a versions.json, which its pages
read to offer the others. This file needs Python alone: the job that publishes has no environment.
"""

import argparse
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple

FILE = "versions.json"
LATEST = "latest"
ARCHIVE = re.compile(r"site-v(\d+)\.(\d+)\.(\d+)\.zip")
# These speak for a whole host, so they belong at its root alone.
ROOT_ALONE = ("404.html", "robots.txt", "sitemap.xml")


class Release(NamedTuple):
    """The numbers of a version, in an order in which 0.10 is newer than 0.9, and its packed site."""

    number: tuple[int, int, int]
    archive: Path

    @property
    def folder(self) -> str:
        return f"v{self.number[0]}.{self.number[1]}"


def pack(folder: Path, archive: Path) -> None:
    """Pack a folder; what may be run stays so, and the same files give the same bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())  # without a time
            entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def releases_in(folder: Path) -> list[Release]:
    """The newest release of each folder on the site, newest first."""
    newest: dict[str, Release] = {}
    for path in sorted(folder.glob("*.zip")):
        if not (match := ARCHIVE.fullmatch(path.name)):
            raise ValueError(f"{path.name} is no packed site of a release; name it site-v1.2.3.zip or take it away")
        release = Release((int(match[1]), int(match[2]), int(match[3])), path)
        newest[release.folder] = max(release, newest.get(release.folder, release))
    return sorted(newest.values(), reverse=True)


def listing(here: str, up: str, folders: list[str]) -> str:
    """What versions.json says in one folder: its own name, and the way from it to each version."""
    versions = [{"name": "main", "path": up or "./"}, *({"name": name, "path": f"{up}{name}/"} for name in folders)]
    return json.dumps({"here": here, "versions": versions}, indent=1) + "\n"


def assemble(main: Path, releases: list[Release], out: Path) -> list[str]:
    """Write the whole site into a new folder; returns the folders of the releases."""
    if out.exists():
        raise ValueError(f"{out} exists; name a folder that does not")
    shutil.copytree(main, out)
    names = [release.folder for release in releases]
    (out / FILE).write_text(listing("main", "", names), "utf-8")
    for release in releases:
        folder = out / release.folder
        with zipfile.ZipFile(release.archive) as archive:
            archive.extractall(folder)
        for name in ROOT_ALONE:
            (folder / name).unlink(missing_ok=True)
        (folder / FILE).write_text(listing(release.folder, "../", names), "utf-8")
    if names:
        shutil.copytree(out / names[0], out / LATEST)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--main", type=Path, required=True, help="the site as built from the main branch")
    parser.add_argument("--releases", type=Path, required=True, help="a folder of site-v1.2.3.zip; it may be empty")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    arguments = parser.parse_args()
    try:
        names = assemble(arguments.main, releases_in(arguments.releases), arguments.out)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
    print(f"{arguments.out}: main, {', '.join(names) or 'no release yet'}")


if __name__ == "__main__":
    main()
