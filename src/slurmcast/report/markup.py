"""HTML and SVG as trees of elements, so that all text is escaped by the standard library's writer. Pure."""

from __future__ import annotations

from xml.etree import ElementTree

Element = ElementTree.Element
Node = Element | str


def el(tag: str, *children: Node | None, **attributes: str | float) -> Element:
    """An element. Of attributes, ``class_`` is ``class`` and ``stroke_width`` is ``stroke-width``; None is no child."""
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    made = Element(tag, {names[name]: _text(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            if len(made):
                made[-1].tail = (made[-1].tail or "") + child
            else:
                made.text = (made.text or "") + child
        elif child is not None:
            made.append(child)
    return made


def document(root: Element) -> str:
    """The text of a page."""
    return "<!DOCTYPE html>\n" + ElementTree.tostring(root, "unicode", method="html") + "\n"


def _text(value: str | float) -> str:
    """Coordinates to a hundredth: finer ones can't be seen, and make the page long."""
    return value if isinstance(value, str) else f"{round(value, 2):g}"
