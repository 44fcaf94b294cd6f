"""Finding what was handed in: which file, whose, and of which chapter.

STUDENT/CHAPTER/CHAPTER.ipynb                           nbgrader's folders, also below `submitted/`
ada.ipynb, ada_attention.ipynb, ada__week3.ipynb        one folder of files: the student is what stands before _
lovelaceada_1234_56789_attention.ipynb                  Canvas, `Download Submissions` (also with _LATE_)
Ada Lovelace_1234_assignsubmission_file_x.ipynb         Moodle, `Download all submissions`
Ada Lovelace_1234_assignsubmission_file/x.ipynb         the same, in folders
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

CANVAS = re.compile(r"^(?P<name>[^_]+)_(?:LATE_)?(?P<user>\d+)_(?P<file>\d+)_.*$")
MOODLE = re.compile(r"^(?P<name>.+?)_(?P<user>\d+)_assignsubmission_file_?.*$")
UNSAFE = re.compile(r"[^\w .@+-]")
IGNORED = {".DS_Store", "Thumbs.db", "desktop.ini"}


@dataclass(frozen=True)
class Submission:
    """One file that was handed in."""

    file: Path
    student: str
    chapter: str
    name: str = ""
    moodle: str = ""  # the number that Moodle's grading worksheet calls Participant
    canvas: str = ""  # the user's number in Canvas

    @property
    def stem(self) -> str:
        """What course systems expect in the name of a file that goes back to the student."""
        inside = self.file.parent.name
        return inside if MOODLE.match(inside) else self.file.stem


def safe(student: str) -> str:
    """A name for folders: without what means something in a path or a pattern."""
    return UNSAFE.sub("-", student).strip(" .") or "unnamed"


def _who(stem: str, chapters: set[str]) -> dict[str, str]:
    """Student and numbers from the name of a file or folder as course systems write it."""
    if match := MOODLE.match(stem):
        return {"student": safe(f"{match['name']} {match['user']}"), "name": match["name"], "moodle": match["user"]}
    if match := CANVAS.match(stem):
        return {"student": safe(f"{match['name']}-{match['user']}"), "name": match["name"], "canvas": match["user"]}
    for chapter in chapters:
        if stem.endswith(f"_{chapter}"):
            return {"student": safe(stem.removesuffix(f"_{chapter}").rstrip("_"))}
    return {"student": safe(stem.split("__", maxsplit=1)[0])}


def chapter_of(file: Path, chapters: dict[str, list[str]]) -> str:
    """The chapter whose answers a file names; by the file's name if it names none; or nothing."""
    try:
        text = json.dumps(json.loads(file.read_text("utf-8")))
    except (ValueError, OSError, RecursionError):
        text = ""
    counts = {name: sum(f'"{label}"' in text for label in labels) for name, labels in chapters.items()}
    best = max(counts, key=lambda name: counts[name], default="")
    if best and counts[best]:
        return best
    named = [name for name in chapters if re.search(rf"(^|_){re.escape(name)}($|[_-])", file.stem)]
    return max(named, key=len, default="")


def _in_folders(folder: Path, chapters: dict[str, list[str]]) -> list[Submission]:
    """Submissions in nbgrader's folders."""
    found = []
    for file in sorted(folder.glob("*/*/*.ipynb")):
        chapter, student = file.parent.name, file.parent.parent.name
        if chapter in chapters and file.parent.parent.name != "release":
            found.append(Submission(file, safe(student), chapter, name=student))
    return found


def find(folder: Path, chapters: dict[str, list[str]], wanted: str = "") -> tuple[list[Submission], list[str]]:
    """The submissions below a folder, and a line on each file that is none.

    Args:
        chapters: name → labels of its answers.
        wanted: the chapter that all files are taken for.

    Raises:
        SystemExit: if there is no folder or nothing in it to grade.
    """
    if not folder.is_dir():
        raise SystemExit(f"{folder} is no folder. Put the submissions into one, and name it: make grade SUBMISSIONS=…")
    top = folder / "submitted" if (folder / "submitted").is_dir() else folder
    found, lines = _in_folders(top, chapters), []
    taken = {submission.file for submission in found}
    for file in sorted(path for path in [*top.glob("*"), *top.glob("*/*")] if path.is_file()):
        if file in taken or file.name in IGNORED or file.name.startswith("."):
            continue
        inside = MOODLE.match(file.parent.name)
        if file.suffix.lower() != ".ipynb" or (file.parent != top and not inside):
            lines.append(f"{file.relative_to(folder)}: not a notebook of a student, left out")
        elif chapter := wanted or chapter_of(file, chapters):
            who = _who(file.parent.name if inside else file.stem, set(chapters))
            found.append(Submission(file, chapter=chapter, **who))
        else:
            lines.append(f"{file.relative_to(folder)}: of no chapter that can be told; grade it with CHAPTER=…")
    if wanted:
        found = [submission for submission in found if submission.chapter == wanted]
    found, twice = _latest(found)
    if not found:
        raise SystemExit(f"Nothing to grade in {folder}. " + "\n".join([*lines, __doc__ or ""]))
    return found, lines + twice


def _latest(found: list[Submission]) -> tuple[list[Submission], list[str]]:
    """One submission of each student and chapter: the newest."""
    newest: dict[tuple[str, str], Submission] = {}
    lines = []
    for submission in sorted(found, key=lambda one: (one.file.stat().st_mtime, str(one.file))):
        key = (submission.student, submission.chapter)
        if key in newest:
            lines.append(f"{newest[key].file.name}: {submission.file.name} of the same student is newer; left out")
        newest[key] = submission
    return sorted(newest.values(), key=lambda one: (one.chapter, one.student)), lines
