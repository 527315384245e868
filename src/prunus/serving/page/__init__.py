"""The files of the web page, which loads nothing from other hosts."""

from functools import lru_cache
from importlib import resources

FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
PAGE_HEADERS = {"Cache-Control": "no-cache"}


@lru_cache
def page_file(name: str) -> tuple[bytes, str]:
    """Return a file of the page and its media type."""
    file, media_type = FILES[name]
    return (resources.files("prunus.serving.page") / file).read_bytes(), media_type
