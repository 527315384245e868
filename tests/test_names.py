"""Foreign names: which are accepted, and that what is shown of them only appears."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.names import (
    DOMAIN_NAME,
    MAX_DOMAIN_NAME,
    MAX_NAME_BYTES,
    MAX_PART_BYTES,
    domain_name,
    domain_name_problem,
    name_problem,
    shown,
    shown_lines,
)
from tests.makers.hostile_files import HOSTILE_NAMES

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates too


@pytest.mark.parametrize(("name", "visible"), HOSTILE_NAMES.items())
def test_what_a_name_hides_is_shown(name: str, visible: str) -> None:
    assert shown(name) == visible


@pytest.mark.parametrize(
    ("name", "visible"),
    [
        ("\udcff.jpg", r"\udcff.jpg"),
        ("\ud83d", r"\ud83d"),
        ("\x00\x7f\x85", r"\x00\x7f\x85"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e", r"\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e"),
        ("\u2066\u2067\u2068\u2069\ufeff\u200b\xad", r"\u2066\u2067\u2068\u2069\ufeff\u200b\xad"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_controls_bidi_marks_and_surrogates_become_escapes(name: str, visible: str) -> None:
    assert shown(name) == visible


@pytest.mark.parametrize("name", ["rose", "Übergröße", "玫瑰", "می‌خواهم", "क्‍ष", "👩‍🌾", r"C:\data\x", "a b", ""])
def test_names_of_any_language_are_shown_as_they_are(name: str) -> None:
    assert shown(name) == name
    assert name_problem(name) is None


@given(ANY_TEXT)
def test_whatever_a_name_holds_its_shown_form_is_one_line_of_seen_characters(name: str) -> None:
    visible = shown(name)
    visible.encode()  # no surrogates
    assert not {unicodedata.category(character) for character in visible} & {"Cc", "Cs", "Zl", "Zp"}
    assert all(character in "\u200c\u200d" for character in visible if unicodedata.category(character) == "Cf")
    assert shown(visible) == visible


def test_the_lines_of_a_text_are_kept() -> None:
    assert shown_lines("a\x1b\nb\r\n\nc") == "a\\x1b\nb\\r\n\nc"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("train/a/\udcff.jpg", "not valid UTF-8"),
        ("a\x1b[31m", r"the control character \x1b;"),
        ("a\nb", r"the control character \n;"),
        ("a\x9b", r"the control character \x9b;"),
        ("é" * (MAX_PART_BYTES // 2) + "aa", f"{MAX_PART_BYTES + 1} bytes; at most {MAX_PART_BYTES} are allowed"),
        ("x" * (MAX_PART_BYTES + 1), f"{MAX_PART_BYTES + 1} bytes"),
        ("ab/" * (MAX_NAME_BYTES // 3) + "ab", "4,097 bytes; at most 4,096 are allowed"),
    ],
)
def test_a_name_that_is_no_utf8_that_holds_controls_or_is_too_long_is_not_accepted(name: str, problem: str) -> None:
    assert problem in str(name_problem(name))
    assert "rename it" in str(name_problem(name))


@pytest.mark.parametrize(
    "name", ["x" * MAX_PART_BYTES, "é" * (MAX_PART_BYTES // 2) + "a", "ab/" * (MAX_NAME_BYTES // 3) + "a", "[/]"]
)
def test_a_name_of_the_largest_size_is_accepted(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("flowers", "flowers"),
        ("signs.zip", "signs"),
        ("Signs.ZIP", "Signs"),
        ("My Art", "My-Art"),
        ("  My  Photos (2024) ", "My-Photos-2024"),
        ("Vögel", "Vogel"),
        (unicodedata.normalize("NFD", "Vögel"), "Vogel"),
        ("Straße", "Strasse"),
        ("_.x", "x"),
        ("v1.2_b", "v1.2_b"),
        ("...", ""),
    ],
)
def test_a_domain_is_called_after_its_folder(folder: str, name: str) -> None:
    assert domain_name(folder) == name


def test_a_folder_in_another_script_leads_to_a_name_of_its_own() -> None:
    names = {domain_name(folder) for folder in ("鳥", "花", "птицы")}
    assert len(names) == 3
    assert all(re.fullmatch(r"domain-[0-9a-f]{6}", name) for name in names)


@given(ANY_TEXT)
def test_the_name_of_any_folder_is_empty_or_accepted_and_stays(folder: str) -> None:
    name = domain_name(folder)
    assert name == "" or re.fullmatch(DOMAIN_NAME, name)
    assert domain_name(name) == name or name.lower().endswith(".zip")


@pytest.mark.parametrize("name", ["a b", "", ".a", "a/b", "ä", "a\n"])
def test_a_domain_name_that_is_no_file_name_is_refused_with_one_that_is(name: str) -> None:
    problem = str(domain_name_problem(name))
    assert problem.endswith(f", got {name!r}")
    assert f"for example {domain_name(name)!r}" in problem or not domain_name(name)


def test_a_domain_name_is_limited() -> None:
    assert domain_name_problem("x" * MAX_DOMAIN_NAME) is None
    assert "at most 200 characters, got 201" in str(domain_name_problem("x" * (MAX_DOMAIN_NAME + 1)))
