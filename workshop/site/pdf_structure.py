"""The structure of joined prints: one tree of headings, paragraphs, lists and tables for screen readers.

Chromium writes such a tree into each print (ISO 32000-1, section 14.7), and pypdf leaves it behind when it joins them.
Here each tree is copied, with its pages and links replaced by those of the joined file, under one root.
"""

from typing import Any

from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    DictionaryObject,
    IndirectObject,
    NameObject,
    NullObject,
    NumberObject,
    TextStringObject,
)

POINTERS = {"/P", "/K", "/Pg", "/Obj"}


def dictionary(**entries: Any) -> DictionaryObject:
    """A dictionary with these names as keys."""
    return DictionaryObject({NameObject(f"/{name}"): value for name, value in entries.items()})


def shortened(element: DictionaryObject, kids: ArrayObject) -> ArrayObject:
    """Kids, with pieces of content as bare numbers where they stand on the element's page, to save bytes."""
    marks = [kid for kid in kids if isinstance(kid, DictionaryObject) and "/MCID" in kid]
    if marks and "/Pg" not in element:
        element[NameObject("/Pg")] = marks[0].raw_get("/Pg")
    own = [kid for kid in marks if kid.raw_get("/Pg") == element.raw_get("/Pg")]
    return ArrayObject(kid["/MCID"] if any(kid is mark for mark in own) else kid for kid in kids)


class Copy:
    """The structure of one print on its way into the joined file, without elements that say nothing."""

    def __init__(self, writer: PdfWriter, reader: PdfReader, first_page: int, length: int):
        self.writer, self.reader = writer, reader
        self.moved: dict[int, Any] = {}  # number of a page, link or element of the print → where it stands now
        for number in range(length):
            old, new = reader.pages[number], writer.pages[first_page + number]
            self.moved[old.indirect_reference.idnum] = new.indirect_reference  # type: ignore[union-attr]
            for link, copy in zip(old.get("/Annots", ()), new.get("/Annots", ()), strict=True):
                if isinstance(link, IndirectObject):
                    self.moved[link.idnum] = copy

    def kids(self, element: DictionaryObject, parent: Any) -> ArrayObject:
        """What stands below an element of the print, for the parent in the joined file."""
        kids = element.get("/K", ArrayObject())
        kids = kids if isinstance(kids, ArrayObject) else [element.raw_get("/K")]
        return ArrayObject(copy for kid in kids for copy in self.copies(kid, element, parent))

    def copies(self, value: Any, above: DictionaryObject, parent: Any) -> list[Any]:
        """An element with all below it, or the mark of a piece of content; nothing of what stands on a dropped page."""
        old = value.get_object()
        if isinstance(old, NumberObject):  # a piece of content, alone or with more words
            old = dictionary(Type=NameObject("/MCR"), MCID=old)
        if "/MCID" in old and "/Pg" not in old:  # on the page of the element above
            old = DictionaryObject({**old, NameObject("/Pg"): above.raw_get("/Pg")})
        pointed = {key: old.raw_get(key).idnum for key in ("/Pg", "/Obj") if key in old}
        if not self.moved.keys() >= set(pointed.values()):
            return []
        if old.get("/S") == "/NonStruct":
            self.moved[value.idnum] = parent
            return self.kids(old, parent)
        new = DictionaryObject({key: old[key].clone(self.writer) for key in old if key not in POINTERS})
        new.update({NameObject(key): self.moved[number] for key, number in pointed.items()})
        if "/S" not in old:
            return [new]
        self.moved[value.idnum] = reference = self.writer._add_object(new)
        new.update(dictionary(P=parent, K=shortened(new, self.kids(old, reference))))
        return [reference]

    def owner(self, value: Any) -> Any:
        """The element, or the list of elements, to which a page's or a link's content belongs."""
        if isinstance(value, IndirectObject) and value.idnum in self.moved:
            return self.moved[value.idnum]
        found = value.get_object()
        return ArrayObject(self.owner(one) for one in found) if isinstance(found, ArrayObject) else NullObject()


def write_structure(writer: PdfWriter, prints: list[tuple[PdfReader, int, int]]) -> None:
    """Give the joined file the structure of its prints: each a reader, its first page in the file, its pages."""
    root, book = dictionary(Type=NameObject("/StructTreeRoot")), dictionary(S=NameObject("/Document"))
    root_place, book_place = writer._add_object(root), writer._add_object(book)
    parts, owners, start = ArrayObject(), ArrayObject(), 0
    for reader, first_page, length in prints:
        tree: Any = reader.trailer["/Root"]["/StructTreeRoot"]  # type: ignore[index]
        copy = Copy(writer, reader, first_page, length)
        parts += copy.copies(tree.raw_get("/K"), tree, book_place)
        parts[-1].get_object()[NameObject("/S")] = NameObject("/Part")
        numbers = tree["/ParentTree"]["/Nums"]
        for key, value in zip(numbers[::2], numbers[1::2], strict=True):
            owners += [NumberObject(start + key), copy.owner(value)]
        for number in range(length):
            old, new = reader.pages[number], writer.pages[first_page + number]
            pairs: list[Any] = [(old, new), *zip(old.get("/Annots", ()), new.get("/Annots", ()), strict=True)]
            for one, other in pairs:
                for name in ("/StructParents", "/StructParent"):  # of a page, of a link
                    if name in (found := one.get_object()):
                        other.get_object()[NameObject(name)] = NumberObject(start + found[name])
        start += tree["/ParentTreeNextKey"]
    book.update(dictionary(P=root_place, K=parts))
    roles = dict.fromkeys(("Em", "Strong"), NameObject("/Span"))  # what PDF 2.0 adds and Chromium writes, for others
    tree = {"ParentTree": dictionary(Nums=owners), "ParentTreeNextKey": NumberObject(start)}
    root.update(dictionary(K=book_place, RoleMap=dictionary(**roles), **tree))
    marked = dictionary(Marked=BooleanObject(True))
    writer.root_object.update(dictionary(StructTreeRoot=root_place, MarkInfo=marked, Lang=TextStringObject("en")))
