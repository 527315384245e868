"""Errors are one line that says what is wrong and what to do."""

import time

import numpy as np
import pytest

from prunus import errors
from prunus.errors import MOST_NAMES, DataError, MissingExtraError, PrunusError, UnknownNameError, check_known
from prunus.names import shown


def test_an_unknown_name_lists_the_known_ones_the_most_similar_first() -> None:
    message = str(UnknownNameError("method", "unoin", ["ba2", "taps", "union"]))
    assert message == "unknown method 'unoin'; did you mean 'union'? known: union, ba2, taps"


def test_a_name_in_other_letters_is_similar() -> None:
    message = str(UnknownNameError("dtype", "INT8", ["float32", "int8"]))
    assert message == "unknown dtype 'INT8'; did you mean 'int8'? known: int8, float32"


def test_an_unknown_name_like_no_other_has_no_suggestion() -> None:
    assert str(UnknownNameError("method", "x", ["ba2", "taps"])) == "unknown method 'x'; known: ba2, taps"
    assert str(UnknownNameError("method", "x", [])) == "unknown method 'x'; known: none"


@pytest.mark.parametrize("wrong", [np.int8, np.dtype("int8"), 8, ["int8"], np.zeros(2), b"int8"])
def test_what_is_no_name_at_all_is_unknown_too(wrong: object) -> None:
    for known in ({"float32": 1, "int8": 2}, ("float32", "int8")):
        with pytest.raises(UnknownNameError, match=r"^unknown dtype .*; known: float32, int8$"):
            check_known("dtype", wrong, known)
    check_known("dtype", "int8", ("float32", "int8"))


def test_what_is_no_name_at_all_is_shown_short() -> None:
    message = str(UnknownNameError("dtype", np.int8, ["float32"]))
    assert message == "unknown dtype <class 'numpy.int8'>; known: float32"
    assert len(str(UnknownNameError("dtype", list(range(1000)), ["float32"]))) < 100


def test_a_similar_name_is_followed_by_where_the_others_are_listed() -> None:
    known = ["ba2", "taps", "union"]
    message = str(UnknownNameError("method", "unoin", known, "see prunus methods"))
    assert message == "unknown method 'unoin'; did you mean 'union'? see prunus methods"
    assert str(UnknownNameError("method", "x", known, "see prunus methods")).endswith("; known: ba2, taps, union")


def test_a_long_list_of_known_names_is_cut() -> None:
    names = [f"name {index:03d}" for index in range(MOST_NAMES + 5)]
    message = str(UnknownNameError("folder", "x", names))
    assert message.endswith(f"{names[MOST_NAMES - 1]} and 5 more")


BASE = "".join(chr(ord("a") + 7 * number % 10) for number in range(97))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (BASE + "x77", [f"{BASE}{index:03d}" for index in range(1000)]),
        ("x77" + BASE, [f"{index:03d}{BASE}" for index in range(1000)]),
        ("ab" * 50, ["ab" * 25 + f"{index:03d}" + "ba" * 25 for index in range(1000)]),
        ("domian77", [f"domain{index}" for index in range(1000)]),
    ],
)
def test_an_unknown_name_among_a_thousand_similar_ones_costs_little(name: str, known: list[str]) -> None:
    times = []
    for _ in range(10):  # a busy machine makes any of them longer, none shorter
        start = time.thread_time()
        message = str(UnknownNameError("domain", name, known))
        times.append(time.thread_time() - start)
    assert min(times) < 0.010
    assert "did you mean" in message


def test_the_right_name_is_found_among_a_thousand_others() -> None:
    known = [f"domain{index}" for index in range(1000)]
    assert "did you mean 'domain77'?" in str(UnknownNameError("domain", "domian77", known))
    assert "did you mean 'domain123'?" in str(UnknownNameError("domain", "Domain123", known))


def test_long_names_are_suggested_whole() -> None:
    assert f"did you mean '{BASE}1'?" in str(UnknownNameError("domain", BASE, [f"{BASE}1"]))


def test_a_missing_extra_says_what_to_install() -> None:
    message = str(MissingExtraError("torch", "train", "training"))
    command = "pip install 'prunus[train]' (in a checkout: pip install '.[train]')"
    assert message == f"training needs torch, which is not installed; install it with: {command}"


def test_the_demo_of_a_checkout_is_installed_with_its_samples() -> None:
    assert "(in a checkout: pip install ./samples '.[demo]')" in str(MissingExtraError("x", "demo", "a demo"))


@pytest.mark.parametrize("name", [name for name in vars(errors) if name.endswith(("Error", "Interrupted"))])
def test_every_error_is_a_prunus_error_and_a_value_error(name: str) -> None:
    assert issubclass(getattr(errors, name), PrunusError)
    assert issubclass(getattr(errors, name), ValueError)


@pytest.mark.parametrize("name", ["\x1b[31m", "a\nb", "\u202e", "\udcff"])
def test_an_error_is_one_visible_line_whatever_the_names_in_it_hold(name: str) -> None:
    for error in (DataError(f"cannot read {name}"), UnknownNameError("class", name, [name])):
        assert str(error).isprintable()
        assert shown(name) in str(error)
