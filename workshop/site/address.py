"""The public address of the project: one setting, `repository` in _config.yml, and everything derived from it."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import yaml

ROOT = Path(__file__).resolve().parents[2]
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

    def colab(self, notebook: str) -> str:
        """A notebook in Colab, which cannot open the Markdown source."""
        return f"https://colab.research.google.com/github/{self.owner}/{self.name}/blob/{self.branch}/{notebook}"


@cache
def configured(root: Path = ROOT) -> Address:
    """The address that _config.yml sets."""
    repository = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]
    return Address.from_url(repository["url"], repository.get("branch", "main"))
