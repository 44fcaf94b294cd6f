"""The public address of the project: one setting, `repository` in _config.yml, and everything derived from it.

python -m workshop.site.address           write the address into the files that have to name it
python -m workshop.site.address --check   fail if one of them names another
"""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

ROOT = Path(__file__).resolve().parents[2]
DERIVED = (
    "README.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "pyproject.toml",
    ".zenodo.json",
    ".github/ISSUE_TEMPLATE/config.yml",
    "book/index.md",
    "book/for_instructors.md",
    "paper/paper.md",
    "projects/build_the_transformer/README.md",
)
GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


@dataclass(frozen=True)
class Address:
    """Where the repository lives, and the addresses that follow from it."""

    owner: str
    name: str
    branch: str = "main"

    @classmethod
    def from_url(cls, url: str, branch: str = "main") -> "Address":
        if not (match := GITHUB.fullmatch(url)):
            raise ValueError(f"repository.url must look like https://github.com/OWNER/NAME, not {url!r}")
        return cls(match[1], match[2], branch)

    @property
    def repository(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}"

    @property
    def home(self) -> str:
        """The published site."""
        return f"https://{self.owner}.github.io/{self.name}/"

    @property
    def site(self) -> str:
        """The folder of the chapters on the published site."""
        return f"{self.home}book/"

    def blob(self, path: str) -> str:
        return f"{self.repository}/blob/{self.branch}/{path}"

    def raw(self, path: str) -> str:
        return f"{self.repository}/raw/{self.branch}/{path}"

    def issue(self, form: str, **fields: str) -> str:
        """A form for a new issue, with some of its fields filled in."""
        return f"{self.repository}/issues/new?{urlencode({'template': form, **fields})}"

    def colab(self, notebook: str, host: str = "https://colab.research.google.com") -> str:
        return f"{host.rstrip('/')}/github/{self.owner}/{self.name}/blob/{self.branch}/{notebook}"


def address_of(config: Any) -> Address:
    """The address by Sphinx's configuration; Jupyter Book hands `repository` of _config.yml to the theme."""
    theme = config.html_theme_options
    return Address.from_url(theme["repository_url"], theme.get("repository_branch") or "main")


def configured(root: Path = ROOT) -> Address:
    """The address that _config.yml sets."""
    repository = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]
    return Address.from_url(repository["url"], repository.get("branch", "main"))


def written(root: Path = ROOT) -> Address:
    """The address that the derived files hold now; pyproject.toml speaks for them."""
    text = (root / "pyproject.toml").read_text("utf-8")
    if not (match := re.search(r'^Repository = "([^"]+)"$', text, re.MULTILINE)):
        raise ValueError("pyproject.toml: no Repository under [project.urls]")
    return Address.from_url(match[1])


def rewrite(text: str, old: Address, new: Address) -> str:
    """`text` with each address of the project, of the old one or of another owner's copy, replaced by the new."""
    for name in {old.name, new.name}:
        here = rf"{re.escape(name)}(?![\w-])"
        text = re.sub(rf"(?<=\bgithub\.com/)[\w.-]+/{here}", f"{new.owner}/{new.name}", text)
        text = re.sub(rf"(?<=\bgoogle\.com/github/)[\w.-]+/{here}", f"{new.owner}/{new.name}", text)
        text = re.sub(rf"(?<=//)[\w-]+\.github\.io/{here}", f"{new.owner}.github.io/{new.name}", text)
    return text


def stale_files(root: Path = ROOT) -> dict[Path, str]:
    """The derived files that name another address, with the text they should hold."""
    old, new = written(root), configured(root)
    wanted = {}
    for path in (root / name for name in DERIVED):
        if path.exists():
            text = path.read_text("utf-8")
            if (fresh := rewrite(text, old, new)) != text:
                wanted[path] = fresh
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file names another address")
    check = parser.parse_args().check
    stale = stale_files()
    names = ", ".join(path.name for path in stale)
    if check and stale:
        raise SystemExit(f"{names}: not the address of _config.yml; run `make address`")
    for path, text in stale.items():
        path.write_text(text, "utf-8")
    print(f"address {configured().repository}: {names + ' rewritten' if stale else 'the same everywhere'}")


if __name__ == "__main__":
    main()
