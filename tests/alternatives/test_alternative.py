"""What is shipped is written and read as it is."""

import pytest
from pydantic import ValidationError

from prunus.alternatives.alternative import Alternative, Answering, Shipped
from prunus.alternatives.table import ALTERNATIVES
from prunus.measure.alternatives.results import OURS
from tests.makers.tiny_training import tiny_recipe

SHIPPED = Shipped(
    recipe=tiny_recipe(),
    counted=("all.onnx",),
    answering={"a": Answering(file="all.onnx", output="a"), "b": Answering(file="b.onnx")},
    macs={"a": 1, "b": 2},
)


def test_what_is_shipped_is_read_as_it_was_written() -> None:
    assert Shipped.model_validate_json(SHIPPED.model_dump_json()) == SHIPPED


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError):
        Shipped.model_validate(SHIPPED.model_dump() | {"more": 1})


def test_rows_of_ours_are_named_so_and_need_no_other_package() -> None:
    ours = {name: row for name, row in ALTERNATIVES.items() if name.startswith(OURS)}
    assert list(ours) == ["ours", "ours_int8"]
    assert all(row.packages == () and row.has_budget for row in ours.values())
    others: list[Alternative] = [row for name, row in ALTERNATIVES.items() if name not in ours]
    assert all("onnxruntime" in row.packages for row in others)
