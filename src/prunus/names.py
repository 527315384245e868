"""Names that others chose, such as those of classes, domains and files: which are accepted, and how they are shown.

A name may hold anything: markup, escape sequences of a terminal, marks that turn the direction of text, or bytes that
are not UTF-8. `shown` is the one function that every such name passes before it reaches a terminal, a log or a page.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

# categories of Unicode that a reader cannot see: controls, formats such as bidi marks, surrogates, line separators
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
JOINERS = frozenset({"\u200c", "\u200d"})  # Persian, Indic scripts and emoji are written with them
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
MAX_PART_BYTES = 255  # of a class, or of one folder or file: what file systems allow
MAX_NAME_BYTES = 4096  # of a file with its folders
MAX_DOMAIN_NAME = 200  # characters; exported files are named after it
DOMAIN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # part of addresses, commands and file names on any system
NOT_IN_DOMAIN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
ZIP_ENDING = re.compile(r"\.zip$", re.IGNORECASE)
LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"})
PRINTED = re.compile(r"[ -~]*")


def shown(text: str) -> str:
    r"""Return a text as one visible line: control characters, bidi marks and surrogates become escapes such as \x1b."""
    if PRINTED.fullmatch(text):
        return text
    return "".join(_escape(character) if is_unseen(character) else character for character in text)


def shown_lines(text: str) -> str:
    """Return a text of several lines, each as `shown` returns it."""
    return "\n".join(map(shown, text.split("\n")))


@lru_cache(maxsize=4096)
def is_unseen(character: str) -> bool:
    """Return whether a character does something other than appear where it is written."""
    return unicodedata.category(character) in UNSEEN and character not in JOINERS


def is_utf8(text: str) -> bool:
    """Return whether a text can be written to a file; names on disk may hold bytes that cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def name_problem(name: str) -> str | None:
    """Return why a name of a domain, class or file is not accepted; None if it is."""
    if len(name) <= MAX_PART_BYTES and PRINTED.fullmatch(name):
        return None
    return next(_problems(name), None)


def domain_name(folder: str) -> str:
    """Return the name of the domain in a folder or zip file: "My Art" becomes "My-Art", "Vögel.zip" becomes "Vogel".

    A name in another script becomes a hash of it, and a name without any letter or digit becomes an empty text.
    """
    name = unicodedata.normalize("NFC", ZIP_ENDING.sub("", folder))
    if re.fullmatch(DOMAIN_NAME, name):
        return name
    latin = unicodedata.normalize("NFKD", name.translate(LETTERS))
    plain = "".join(character for character in latin if not unicodedata.combining(character))
    short = NOT_IN_DOMAIN_NAMES.sub("-", plain).strip("._-")
    if short or not any(map(str.isalnum, name)):
        return short
    return f"domain-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:6]}"


def domain_name_problem(name: str) -> str | None:
    """Return why a name of a domain is not accepted; None if it is."""
    if len(name) > MAX_DOMAIN_NAME:
        return f"a domain name has at most {MAX_DOMAIN_NAME} characters, got {len(name)}: {name[:20]!r}..."
    if re.fullmatch(DOMAIN_NAME, name):
        return None
    example = domain_name(name)
    hint = f", for example {example!r}" if example else ""
    return (
        "a domain name has letters from A to Z, digits, '.', '_' and '-', and begins with a letter or digit"
        f"{hint}, got {name!r}"
    )


def marked(name: str, source: str | None) -> str:
    """Return the name of a domain, with a mark if it is the source: the images that the backbone was trained on."""
    return f"{name} (source)" if name == source else name


def _problems(name: str) -> Iterator[str]:
    if not is_utf8(name):
        yield "the name is not valid UTF-8; rename it"
    if control := next((character for character in name if unicodedata.category(character) == "Cc"), None):
        yield f"the name contains the control character {_escape(control)}; rename it"
    longest = max(len(part.encode(errors="surrogatepass")) for part in name.split("/"))
    whole = len(name.encode(errors="surrogatepass"))
    for size, limit in ((longest, MAX_PART_BYTES), (whole, MAX_NAME_BYTES)):
        if size > limit:
            yield f"the name has {size:,} bytes; at most {limit:,} are allowed; rename it"


def _escape(character: str) -> str:
    code = ord(character)
    if character in SHORT:
        return SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
