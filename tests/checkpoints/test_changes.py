"""A run continues only with what it began with; a refusal says what has changed."""

import re

import pytest

from prunus.checkpoints.changes import check_identity, check_same
from prunus.checkpoints.checkpoint import Identity
from prunus.errors import TrainingError
from tests.makers.tiny_training import PREPROCESS, tiny_identity, tiny_recipe

BEFORE = tiny_identity(tiny_recipe()).model_copy(update={"validation": {"a": "held out"}})


def _changed(**changes: object) -> Identity:
    return BEFORE.model_copy(update=changes)


def test_only_what_a_run_began_with_may_continue_it() -> None:
    check_same("backbone", "1", "1")
    for before in (None, "2"):
        with pytest.raises(TrainingError, match="the backbone has changed since this run began"):
            check_same("backbone", before, "1")


def test_the_same_run_may_continue() -> None:
    check_identity(BEFORE, _changed())


CLASSES = BEFORE.classes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"classes": CLASSES | {"b": ("x", "other", "z")}},
            "of domain 'b' have changed .*('y' is now 'other')",
        ),
        (
            {"classes": CLASSES | {"b": ("y", "x", "z")}},
            "of domain 'b' have changed .*(they have another order)",
        ),
        ({"classes": CLASSES | {"a": ("x",)}}, "classes of domain 'a' have changed .*(gone: 'y')"),
        ({"classes": CLASSES | {"a": tuple("wxy")}}, "classes of domain 'a' have changed .*(new: 'w')"),
        ({"classes": CLASSES | {"a": tuple("qrstv")}}, "(gone: 'x', 'y'; new: 'q', 'r', 's' and 2 more)"),
        ({"classes": CLASSES | {"a": ("x", "\x1b[2J")}}, r"('y' is now '\\x1b[2J')"),
        ({"backbone": "another"}, "the backbone has changed since this run began"),
        ({"domains": BEFORE.domains | {"b": "others"}}, "the data of domain 'b' has changed"),
        ({"validation": {"a": "others"}}, "the validation data of domain 'a' has changed"),
        ({"validation": {}}, "the validation data of domain 'a' has changed"),
        ({"validation": {"a": "held out", "b": "new"}}, "the validation data of domain 'b' has changed"),
        (
            {"preprocess": BEFORE.preprocess | {"b": PREPROCESS.model_copy(update={"resize": 12, "fit": "squash"})}},
            "the preprocessing of domain 'b' has changed since this run began (resize: 9 -> 12, fit: crop -> squash)",
        ),
    ],
)
def test_anything_else_is_refused_with_what_changed(changes: dict[str, object], message: str) -> None:
    pattern = re.escape(message).replace(r"\.\*", ".*").replace(r"\\\\", r"\\")
    with pytest.raises(TrainingError, match=pattern):
        check_identity(BEFORE, _changed(**changes))


def test_a_run_of_an_earlier_version_does_not_know_its_validation_images() -> None:
    check_identity(_changed(validation=None), BEFORE)
