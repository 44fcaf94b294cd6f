"""Finding what was handed in: which file, whose, and of which chapter.

STUDENT/CHAPTER/CHAPTER.ipynb                           nbgrader's folders, also below `submitted/` beside other files
STUDENT/CHAPTER.ipynb                                   a folder for each student
ada.ipynb, ada_attention.ipynb, ada_attention_final.ipynb, ada__week3.ipynb
                                                        one folder of files: the student stands before _CHAPTER or
                                                        __, whichever comes first
lovelaceada_1234_56789_attention.ipynb                  Canvas, `Download Submissions` (also with _LATE_)
Ada Lovelace_1234_assignsubmission_file_x.ipynb         Moodle, `Download all submissions`
Ada Lovelace_1234_assignsubmission_file/x.ipynb         the same, in folders

Upper and lower case are one. Beside `submitted/`, nbgrader's source, release, autograded and feedback are not read.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

CANVAS = re.compile(r"^(?P<name>[^_]+)_(?P<late>LATE_)?(?P<user>\d+)_(?P<file>\d+)_.*$")
MOODLE = re.compile(r"^(?P<name>.+?)_(?P<user>\d+)_assignsubmission_file_?.*$")
AGAIN = re.compile(r" \(\d+\)$")  # what browsers add to the name of a second download
COPY = re.compile(r"^((copy of|kopie von|copie de|copia de) )+|( - |[ _-])(copy|kopie|copie|copia)$", re.IGNORECASE)
# What a file may be called beside its chapter; {} is for the chapters' own names.
NO_NAME = (
    r"(my[ _-]?)?({}|home ?work|hw|assignments?|exercises?|notebooks?|submissions?|solutions?|answers?|untitled|week)"
    r"([ _-]?(\d+|v\d+|final|new|done))*"
)
SAFE_MARKS = set("_ .@+-")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")  # of a picture
MAX_MB = 50  # of a notebook, with the outputs saved in it
COUNTS = "left out for {}: of one student what is filled in counts, then the assignment's name, then the newer date"
Given = Mapping[str, frozenset[str]]
NBGRADERS = {"source", "release", "autograded", "feedback"}
NOBODYS = {"Thumbs.db", "desktop.ini", "__MACOSX"}  # beside all that begins with a dot


@dataclass(frozen=True)
class Submission:
    """One file that was handed in."""

    file: Path
    student: str
    chapter: str
    name: str = ""
    moodle: str = ""  # the number that Moodle's grading worksheet calls Participant
    canvas: str = ""  # the user's number in Canvas
    page: str = ""  # what course systems expect in the name of a file that goes back to the student
    listed: str = ""  # the student as on the class list
    note: str = ""  # what the course system or the class list says: late, an extension


def readable(text: object) -> str:
    """Text that every file can hold: no lone surrogates, which the bytes of a file name that are no UTF-8 become."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


class Line(str):
    """What is said of a file, and the chapter that it is of; nothing where it is of none, or may be of any."""

    chapter: str

    def __new__(cls, text: str, chapter: str = "") -> Self:
        line = super().__new__(cls, readable(text))
        line.chapter = chapter
        return line


def safe(student: str) -> str:
    """A name for folders: without what means something in a path or a pattern.

    Where that changes more than how an accent is written, a few digits follow, so that two names stay two.
    """
    student = unicodedata.normalize("NFC", student).strip()
    # Of scripts with vowel signs these are part of the letter before them.
    kept = "".join(one if unicodedata.category(one)[0] in "LMN" or one in SAFE_MARKS else "-" for one in student)
    kept = kept.strip(" .") or "unnamed"
    digits = hashlib.sha256(student.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return kept if kept == student else f"{kept}-{digits}"


def whose(stem: str, chapters: set[str]) -> dict[str, str]:
    """Student and numbers from the name of a file or folder as course systems write it."""
    stem = COPY.sub("", AGAIN.sub("", unicodedata.normalize("NFC", stem)))
    if match := MOODLE.match(stem):
        return {"student": safe(f"{match['name']} {match['user']}"), "name": match["name"], "moodle": match["user"]}
    if match := CANVAS.match(stem):
        numbers = {"canvas": match["user"], "note": "late, says Canvas" if match["late"] else ""}
        return {"student": safe(f"{match['name']}-{match['user']}"), "name": match["name"], **numbers}
    for chapter in sorted(chapters, key=len, reverse=True):  # attention ends multi_head_attention
        # -1, _final: another try
        match = re.fullmatch(rf"(.+?)_+{re.escape(chapter)}([_ -].+)?", stem, re.IGNORECASE)
        if match and f"{match[1]}_{chapter}".casefold() not in chapters:  # nobody is called self in self_attention
            stem = match[1]
            break
    return {"student": safe(re.split("(?<=.)__", stem, maxsplit=1)[0])}


def whose_folder(folder: Path, chapters: set[str]) -> str:
    """A folder's student: without the (1) of a second download, unless another's name differs in that alone."""
    beside = (path.name.removesuffix(".ipynb") for path in folder.parent.iterdir() if path != folder)
    others = {whose(name, chapters)["student"].casefold() for name in beside}
    alone = AGAIN.sub("", folder.name)
    return folder.name if safe(alone).casefold() in others else alone


def is_nobodys_name(student: str, chapters: Iterable[str]) -> bool:
    """Whether a file's name says what it is, as the handout's does, and not whose."""
    return bool(re.fullmatch(NO_NAME.format("|".join(map(re.escape, chapters))), student, re.IGNORECASE))


def chapter_of(file: Path, chapters: dict[str, list[str]]) -> str:
    """The chapter whose answers a file names; by the file's name if it names none; or nothing."""
    try:
        text = json.dumps(json.loads(file.read_text("utf-8-sig"))) if file.stat().st_size <= MAX_MB << 20 else ""
    except (ValueError, OSError, RecursionError):
        text = ""
    counts = {name: sum(f'"{label}"' in text for label in labels) for name, labels in chapters.items()}
    best = max(counts, key=lambda name: counts[name], default="")
    if best and counts[best]:
        return best
    stem = file.stem.casefold()
    named = [name for name in chapters if re.search(rf"(^|[_ ]){re.escape(name)}($|[_ -])", stem)]
    return max(named, key=len, default="")


def _is_a_students(file: Path, chapters: Iterable[str]) -> bool:
    """Whether a file's folder is one student's: it is alone there, or beside one that names nobody, as handed out."""
    beside = [path.stem for path in file.parent.glob("*.ipynb")]
    named = [whose(stem, {*chapters})["student"] for stem in beside]
    return len(beside) == 1 or any(is_nobodys_name(name, chapters) for name in named)


def _submission(file: Path, top: Path, chapters: dict[str, list[str]], wanted: str) -> Submission | str:
    """What a file is, by where it lies; or why it is left out."""
    if file.is_symlink() or file.suffix.lower() != ".ipynb":
        return "not a student's notebook, but a link or another file (unpack archives), left out"
    folders = [*file.relative_to(top).parts[:-1]]
    if folders[:1] == ["submitted"]:
        del folders[0]
    moodle = next((part for part in folders if MOODLE.match(part)), "")
    by_nbgrader = len(folders) == 2 and folders[1].casefold() in chapters and not moodle
    by_student = len(folders) == 1 and not moodle and not is_nobodys_name(folders[0], chapters)
    by_student = by_student and _is_a_students(file, chapters)
    if folders and not (by_nbgrader or by_student or moodle):
        return "its folders are of no layout that is understood (grading/submissions.py lists them), left out"
    chapter = folders[1].casefold() if by_nbgrader else chapter_of(file, chapters) or wanted
    if not chapter:
        return "of no chapter that can be told; grade it with CHAPTER=…"
    if wanted and chapter != wanted:
        return f"of the chapter {chapter}, left out"
    if by_nbgrader or by_student:
        name = whose_folder(file.parents[len(folders) - 1], set(chapters))
        who = {"student": safe(name), "name": name, "page": folders[0]}
    else:
        who = whose(moodle or file.stem, set(chapters))
        who["page"] = f"{moodle.rstrip('_')}_{chapter}" if moodle else file.stem
        if "name" not in who and is_nobodys_name(who["student"], chapters):
            return Line(f"names no student: call it STUDENT_{chapter}.ipynb; left out", chapter)
    texts: dict[str, Any] = {key: readable(value) for key, value in who.items()}
    return Submission(file, chapter=chapter, **texts)


def is_nobodys(name: str) -> bool:
    """Whether a file or folder is one that systems and programs make."""
    return name.startswith(".") or name in NOBODYS


def files(folder: Path) -> list[Path]:
    """What was handed in, of whatever kind."""
    others = NBGRADERS if (folder / "submitted").is_dir() else set()
    found = {path: path.relative_to(folder).parts for path in folder.rglob("*") if path.is_file()}
    return sorted(path for path, parts in found.items() if not (any(map(is_nobodys, parts)) or parts[0] in others))


def inside(folder: Path) -> list[Path]:
    """The files and folders that lie in a folder itself."""
    return sorted(path for path in folder.iterdir() if not is_nobodys(path.name))


def gathered(
    folder: Path,
    paths: Callable[[Path], list[Path]],
    understood: Callable[[Path], Submission | str],
    needed: str,
    given: Given | None = None,
) -> tuple[list[Submission], list[Line]]:
    """The submissions in a folder, one of each student and chapter, and a line on each path that is none.

    Args:
        paths: those to look at in the folder.
        understood: what a path is; or why it is left out.
        needed: what to say where there is nothing to grade.
        given: chapter → the texts of its assignment's cells.

    Raises:
        SystemExit: if there is no folder or nothing in it to grade.
    """
    if not folder.is_dir():
        raise SystemExit(f"{folder} is no folder. Put the submissions into one (unpack an archive), and name it")
    found, lines = [], []
    for path in paths(folder):
        submission = understood(path)
        if isinstance(submission, Submission):
            found.append(submission)
        else:
            lines.append(Line(f"{path.relative_to(folder)}: {submission}", getattr(submission, "chapter", "")))
    found, twice = _latest(_spelled_alike(found), given or {})
    if not found:
        raise SystemExit(f"Nothing to grade in {folder}. " + "\n".join([*lines, needed]))
    return found, [*lines, *twice]


def find(
    folder: Path, chapters: dict[str, list[str]], wanted: str = "", given: Given | None = None
) -> tuple[list[Submission], list[Line]]:
    """The notebooks below a folder, and a line on each file that is none.

    Args:
        chapters: name → labels of its answers.
        wanted: the only chapter to grade; files that name no chapter are taken for it.
        given: chapter → the texts of its assignment's cells.

    Raises:
        SystemExit: if there is no folder or nothing in it to grade.
    """
    return gathered(folder, files, lambda file: _submission(file, folder, chapters, wanted), __doc__ or "", given)


def _spelled_alike(found: list[Submission]) -> list[Submission]:
    """The submissions with each student's name in one spelling, that of the oldest file."""
    spelling: dict[str, str] = {}
    for one in sorted(found, key=lambda one: one.file.stat().st_mtime):
        spelling.setdefault(one.student.casefold(), one.student)
    return [replace(one, student=spelling[one.student.casefold()]) for one in found]


def texts(file: Path) -> frozenset[str]:
    """The texts of a notebook's cells; none of what is no notebook."""
    try:
        cells = json.loads(file.read_text("utf-8-sig"))["cells"] if file.stat().st_size <= MAX_MB << 20 else []
        return frozenset("".join(cell["source"]) for cell in cells)
    except (ValueError, OSError, RecursionError, KeyError, TypeError):
        return frozenset()


def rank(file: Path, chapter: str, given: frozenset[str] = frozenset()) -> tuple[bool, bool, float, str]:
    """Of two notebooks of one student that with the higher rank counts.

    Args:
        given: the texts of the cells of the assignment; a notebook with no other is not filled in.
    """
    is_filled_in = not given or not texts(file) <= given
    return is_filled_in, file.stem.casefold() == chapter, file.stat().st_mtime, str(file)


def _latest(found: list[Submission], given: Given) -> tuple[list[Submission], list[Line]]:
    """One submission of each student and chapter: one that is filled in, with the assignment's name, or the newest."""
    ranked = sorted(found, key=lambda one: rank(one.file, one.chapter, given.get(one.chapter, frozenset())))
    newest = {(one.chapter, one.student): one for one in ranked}
    lines = [
        Line(f"{one.file.name}: {COUNTS.format(other.file.name)}", one.chapter)
        for one in ranked
        if (other := newest[one.chapter, one.student]) is not one
    ]
    return [newest[whose] for whose in sorted(newest)], lines
