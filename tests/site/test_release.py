"""A release from one tag: the version everywhere, what is packed, and the site with its versions."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from browser import ROOT, served
from playwright.sync_api import Page

from workshop.site import release, versions

PAGE = """<!doctype html><html lang="en"><title>{title}</title><body>
<div><a class="navbar-brand" href="#">The book</a></div><main><h1>{title}</h1></main>
<script defer src="../_static/book-versions.js"></script></body></html>"""


def small_site(folder: Path, title: str) -> Path:
    (folder / "book").mkdir(parents=True)
    (folder / "_static").mkdir()
    (folder / "book" / "masks.html").write_text(PAGE.format(title=title), "utf-8")
    (folder / "index.html").write_text(f"<title>{title}</title>", "utf-8")
    for name in ("404.html", "robots.txt", "sitemap.xml"):
        (folder / name).write_text("of the host", "utf-8")
    (folder / release.PDF).write_bytes(b"%PDF-1.7")
    (folder / release.EPUB).write_bytes(b"PK")
    (folder / versions.FILE).write_text(versions.listing(title, "", []), "utf-8")
    shutil.copy(ROOT / "book" / "_static" / "book-versions.js", folder / "_static")
    return folder


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A main site beside four releases."""
    for version in ("0.9.0", "0.10.0", "0.10.1", "0.2.0"):
        (tmp_path / "zips").mkdir(exist_ok=True)
        site = small_site(tmp_path / version, f"text of {version}")
        release.pack(site, tmp_path / "zips" / f"site-v{version}.zip")
    main = small_site(tmp_path / "main", "text of main")
    versions.assemble(main, versions.releases_in(tmp_path / "zips"), tmp_path / "public")
    return tmp_path / "public"


# ── The version ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_files_agree_on_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == release.version() == project["tool"]["bumpversion"]["current_version"]
    for place in project["tool"]["bumpversion"]["files"]:
        wanted = place["search"].format(current_version=release.version())
        pattern = wanted if place.get("regex") else re.escape(wanted)
        assert len(re.findall(pattern, (ROOT / place["filename"]).read_text("utf-8"))) == 1, place["filename"]


def test_the_changelog_gives_the_notes_of_its_version_alone() -> None:
    log = "# Changelog\n\n## [Unreleased]\n\n## [7.9.0] - 2031-02-04\n\n- Later.\n\n## [7.8.9] - 2031-02-03\n\n- Now.\n"
    assert [release.notes(log, version) for version in ("7.9.0", "7.8.9", "7.8")] == ["- Later.", "- Now.", ""]


# ── What is packed ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release publishes, with a small site."""
    folder = tmp_path_factory.mktemp("collected")
    release.collect(small_site(folder / "site", "text"), folder / "release")
    return folder / "release"


@pytest.mark.slow
def test_a_dry_run_packs_what_a_release_publishes(collected: Path) -> None:
    out = collected
    version = release.version()
    lines = (out / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in sums} == sums
    assert {path.name for path in out.iterdir()} - set(sums) == {"SHA256SUMS", "notes.md"}
    wheel, sources = f"executable_transformer-{version}-py3-none-any.whl", f"executable_transformer-{version}.tar.gz"
    packed = {f"site-v{version}.zip", f"notebooks-v{version}.zip"}
    assert set(sums) == {wheel, sources, release.PDF, release.EPUB, *packed}
    with zipfile.ZipFile(out / wheel) as archive:
        assert archive.testzip() is None
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "transformer_lib",
            "transformer_run",
            f"executable_transformer-{version}.dist-info",
        }
        assert "transformer_run/pretrained/tatoeba_de_en/model.safetensors" in archive.namelist()
        pages = [name for name in archive.namelist() if name.endswith((".md", ".ipynb"))]
        assert all("/pretrained/" in name for name in pages), "the cards of the packed translators, and no page"
    with tarfile.open(out / sources) as archive:
        assert f"executable_transformer-{version}/transformer_lib/attention.py" in archive.getnames()
    with zipfile.ZipFile(out / f"notebooks-v{version}.zip") as archive:
        assert sorted(archive.namelist()) == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
        for name in archive.namelist():
            assert json.loads(archive.read(name))["nbformat"] == 4
    with zipfile.ZipFile(out / f"site-v{version}.zip") as archive:
        assert {"index.html", "book/masks.html", release.PDF} <= set(archive.namelist())


@pytest.mark.deep
def test_the_wheel_in_an_empty_folder_translates_trains_and_exports(collected: Path, tmp_path: Path) -> None:
    (wheel,) = collected.glob("*.whl")
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--target", installed, wheel], check=True, capture_output=True)

    def said(*arguments: str, given: str = "") -> str:
        command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": str(installed)}
        return subprocess.run(
            command, env=environment, cwd=tmp_path, input=given, capture_output=True, text=True, check=True
        ).stdout

    place = said("-c", "import transformer_lib; print(transformer_lib.__file__)").strip()
    assert Path(place).is_relative_to(installed)
    found = said("-m", "transformer_run", "translate", "tatoeba_de_en", given="Ich habe das Buch gestern gelesen.\n")
    assert found == "I read the book yesterday.\n"
    sizes = "num_layers=1 d_model=32 d_ff=64 num_heads=2 d_k=16 d_v=16".split()
    said("-m", "transformer_run", "train", "run", "--model", *sizes, "--training", "num_steps=2", "batch_tokens=600")
    assert "BLEU" in said("-m", "transformer_run", "evaluate", "run")
    for form in ("ctranslate2", "marian", "onnx", "page"):
        said("-m", "transformer_run", "export", "run", form, "--to", form)
        assert (tmp_path / form).exists()


def test_a_packed_folder_has_the_same_bytes_again(tmp_path: Path) -> None:
    site = small_site(tmp_path / "site", "text")
    release.pack(site, tmp_path / "a.zip")
    os.utime(site / "index.html", (1e9, 1e9))  # a ZIP's times have steps of two seconds
    release.pack(site, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [("index.html", "make book"), (release.PDF, "make pdf"), (release.EPUB, "make_epub")],
)
def test_a_site_that_is_not_whole_is_not_packed(tmp_path: Path, missing: str, remedy: str) -> None:
    site = small_site(tmp_path / "site", "text")
    (site / missing).unlink()
    with pytest.raises(ValueError, match=remedy):
        release.collect(site, tmp_path / "release")
    assert not (tmp_path / "release").exists()


# ── The versions on the site ──────────────────────────────────────────────────────────────────────────────────


def test_a_list_of_versions_leads_from_each_folder_to_each_other_and_the_newest_is_latest(published: Path) -> None:
    texts = {"main": "main", "v0.10": "0.10.1", "v0.9": "0.9.0", "v0.2": "0.2.0"}
    for folder in (".", "latest", *list(texts)[1:]):
        here = {".": "main", "latest": "v0.10"}.get(folder, folder)
        listed = json.loads((published / folder / versions.FILE).read_text("utf-8"))
        assert (listed["here"], [version["name"] for version in listed["versions"]]) == (here, list(texts))
        for version in listed["versions"]:
            place = (published / folder / version["path"]).resolve()
            assert json.loads((place / versions.FILE).read_text("utf-8"))["here"] == version["name"]
            assert f"<h1>text of {texts[version['name']]}</h1>" in (place / "book" / "masks.html").read_text("utf-8")
        assert f"<h1>text of {texts[here]}</h1>" in (published / folder / "book" / "masks.html").read_text("utf-8")


def test_what_speaks_for_the_host_stands_at_its_root_alone(published: Path) -> None:
    names = ["404.html", "robots.txt", "sitemap.xml"]
    assert [path.relative_to(published).as_posix() for name in names for path in published.rglob(name)] == names


def test_without_a_release_there_is_the_newest_text_alone(tmp_path: Path) -> None:
    (tmp_path / "zips").mkdir()
    main = small_site(tmp_path / "main", "text")
    assert versions.assemble(main, versions.releases_in(tmp_path / "zips"), tmp_path / "public") == []
    assert not (tmp_path / "public" / "latest").exists()


def test_a_file_that_is_no_packed_site_is_named(tmp_path: Path) -> None:
    (tmp_path / "homework.zip").touch()
    with pytest.raises(ValueError, match=r"homework\.zip is no packed site"):
        versions.releases_in(tmp_path)


@pytest.fixture
def host(published: Path) -> Iterator[str]:
    """The published site below a folder of its host, as GitHub serves it."""
    (published.parent / "host").mkdir()
    published.rename(published.parent / "host" / "book")
    with served(published.parent / "host") as origin:
        yield f"{origin}book/"


@pytest.mark.slow
def test_a_reader_goes_by_keys_to_the_same_page_of_another_version(page: Page, host: str) -> None:
    page.goto(f"{host}latest/book/masks.html")
    summary = page.locator(".book-versions summary")
    assert summary.inner_text() == "Version: v0.10"
    summary.focus()
    page.keyboard.press("Enter")
    names = page.locator(".book-versions a")
    assert names.all_inner_texts() == ["main", "v0.10", "v0.9", "v0.2"]
    assert page.locator(".book-versions [aria-current]").all_inner_texts() == ["v0.10"]
    names.nth(2).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{host}v0.9/book/masks.html")
    assert page.locator("h1").inner_text() == "text of 0.9.0"
    page.locator(".book-versions summary").click()
    page.locator(".book-versions a").first.click()
    page.wait_for_url(f"{host}book/masks.html")
