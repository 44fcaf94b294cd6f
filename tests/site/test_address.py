"""One setting for the public address: every file that names it derives from it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from workshop.site import address
from workshop.site.address import Address, configured, rewrite, stale_files
from workshop.site.make_notebooks import notebook_text
from workshop.site.plain_markdown import whole_book

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = Address("old", "book"), Address("new", "atlas")


def test_derived_addresses() -> None:
    here = Address.from_url("https://github.com/owner/name.git/", "dev")
    assert here == Address("owner", "name", "dev")
    assert here.repository == "https://github.com/owner/name"
    assert here.site == "https://owner.github.io/name/book/"
    assert here.blob("a/b.py") == "https://github.com/owner/name/blob/dev/a/b.py"
    assert here.colab("n.ipynb") == "https://colab.research.google.com/github/owner/name/blob/dev/n.ipynb"


@pytest.mark.parametrize("url", ["", "git@github.com:owner/name", "https://gitlab.example/owner/name"])
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"https://github\.com/OWNER/NAME, not"):
        Address.from_url(url)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://github.com/old/book/actions", "https://github.com/new/atlas/actions"),
        ("git clone https://github.com/old/book.git", "git clone https://github.com/new/atlas.git"),
        ("https://old.github.io/book/book/masks.html", "https://new.github.io/atlas/book/masks.html"),
        ("https://colab.research.google.com/github/old/book/x", "https://colab.research.google.com/github/new/atlas/x"),
        ("a fork: https://github.com/another/book", "a fork: https://github.com/new/atlas"),
        ("https://github.com/old/bookshop", "https://github.com/old/bookshop"),
        ("https://github.com/astral-sh/ruff", "https://github.com/astral-sh/ruff"),
    ],
)
def test_rewriting(text: str, expected: str) -> None:
    assert rewrite(text, OLD, NEW) == expected


def test_one_change_of_the_setting_reaches_every_file(tmp_path: Path) -> None:
    for name in ("_config.yml", *address.DERIVED):
        if (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    config = tmp_path / "_config.yml"
    config.write_text(config.read_text("utf-8").replace(configured().repository, NEW.repository), "utf-8")
    stale = stale_files(tmp_path)
    assert "pyproject.toml" in {path.name for path in stale}
    for path, text in stale.items():
        path.write_text(text, "utf-8")
    assert stale_files(tmp_path) == {}
    old = configured()
    for name in address.DERIVED:
        if (tmp_path / name).exists():
            text = (tmp_path / name).read_text("utf-8")
            assert f"{old.owner}/{old.name}" not in text
            assert f"{old.owner}.github.io" not in text


def test_the_files_name_the_configured_address() -> None:
    assert [path.name for path in stale_files()] == []


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone to list the files")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [ROOT / name for name in names if "/vendor/" not in name and (ROOT / name).is_file()]


def test_every_file_that_names_the_address_is_written_by_make_address() -> None:
    here = configured()
    naming = set()
    for path in tracked_files():
        text = path.read_bytes()
        if f"github.com/{here.owner}/{here.name}".encode() in text or here.home.encode() in text:
            naming.add(path.relative_to(ROOT).as_posix())
    notebooks = {name for name in naming if name.startswith("notebooks/")}
    assert len(notebooks) > 20
    assert naming - notebooks - {"_config.yml"} <= set(address.DERIVED)


def test_notebooks_and_forms_follow_a_second_address() -> None:
    masks = whole_book()["masks"]
    text = notebook_text(masks.page, masks.index, NEW, ROOT)
    assert f"git+{NEW.repository}@main" in text
    assert f"{NEW.site}masks.html" in text
    assert configured().owner not in NEW.issue("stumbled.yml", page="masks")


def test_no_file_names_another_address_for_this_project() -> None:
    here = configured()
    patterns = {
        rf"github\.com/([\w.-]+)/{here.name}(?![\w-])": here.owner,
        rf"([\w-]+)\.github\.io/{here.name}(?![\w-])": here.owner,
        rf"github\.com/{here.owner}/([\w-]+)": here.name,
        rf"{here.owner}\.github\.io/([\w-]+)": here.name,
    }
    others = []
    for path in tracked_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for pattern, expected in patterns.items():
            others += [f"{path.name}: {found}" for found in re.findall(pattern, text) if found != expected]
    assert others == []
