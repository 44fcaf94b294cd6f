"""One setting for the public address: no file names another."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from workshop.site.address import Address, configured
from workshop.site.make_notebooks import notebook_text
from workshop.site.plain_markdown import Plain, whole_book

ROOT = Path(__file__).resolve().parents[2]
NEW = Address("new", "atlas")


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


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone to list the files")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [ROOT / name for name in names if "/vendor/" not in name and (ROOT / name).is_file()]


def test_notebooks_and_forms_follow_a_second_address() -> None:
    masks = whole_book()["masks"]
    text = notebook_text(Plain(masks.page, masks.index, NEW, ROOT))
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
