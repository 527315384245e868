"""Errors are one line that says what is wrong and what to do."""

import pytest

from prunus import errors
from prunus.errors import MOST_NAMES, MissingExtraError, PrunusError, UnknownNameError


def test_an_unknown_name_lists_the_known_ones_the_most_similar_first() -> None:
    message = str(UnknownNameError("method", "unoin", ["ba2", "taps", "union"]))
    assert message == "unknown method 'unoin'; did you mean 'union'? known: union, ba2, taps"


def test_an_unknown_name_like_no_other_has_no_suggestion() -> None:
    assert str(UnknownNameError("method", "x", ["ba2", "taps"])) == "unknown method 'x'; known: ba2, taps"
    assert str(UnknownNameError("method", "x", [])) == "unknown method 'x'; known: none"


def test_a_long_list_of_known_names_is_cut() -> None:
    names = [f"name {index:03d}" for index in range(MOST_NAMES + 5)]
    message = str(UnknownNameError("folder", "x", names))
    assert message.endswith(f"{names[MOST_NAMES - 1]} and 5 more")


def test_a_missing_extra_says_what_to_install() -> None:
    message = str(MissingExtraError("torch", "train", "training"))
    assert message == "training needs torch, which is not installed; install it with: pip install 'prunus[train]'"


@pytest.mark.parametrize("name", [name for name in vars(errors) if name.endswith(("Error", "Interrupted"))])
def test_every_error_is_a_prunus_error_and_a_value_error(name: str) -> None:
    assert issubclass(getattr(errors, name), PrunusError)
    assert issubclass(getattr(errors, name), ValueError)
