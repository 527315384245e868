"""Settings that are out of range or misspelt are refused in one line."""

from __future__ import annotations

import pytest

from prunus.errors import PrunusError, UnknownNameError
from prunus.serving.settings import ServeSettings, parse_settings


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ({"max_imges": 1}, UnknownNameError, "unknown setting 'max_imges'; did you mean 'max_images'?"),
        ({"max_images": 0}, PrunusError, "setting 'max_images': Input should be greater than or equal to 1, got 0"),
        ({"request_seconds": 0.01}, PrunusError, "greater than or equal to 0.05, got 0.01"),
        ({"max_upload_mb": 1e-9}, PrunusError, "greater than or equal to 0.001, got 1e-09"),
        ({"max_megapixels": 1e-9}, PrunusError, "greater than or equal to 0.001, got 1e-09"),
        ({"port": 70_000}, PrunusError, "setting 'port'"),
        ({"batch_ms": "slow"}, PrunusError, "setting 'batch_ms'"),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, object], kind: type[PrunusError], said: str) -> None:
    with pytest.raises(kind) as error:
        parse_settings(values)
    assert said in str(error.value)


def test_limits_in_megabytes_are_millions_of_bytes() -> None:
    settings = ServeSettings(max_upload_mb=2, max_held_mb=3, max_megapixels=0.5)
    assert (settings.max_upload_bytes, settings.max_held_bytes, settings.max_pixels) == (2_000_000, 3_000_000, 500_000)


def test_one_request_of_the_largest_size_always_fits() -> None:
    assert ServeSettings(max_upload_mb=8, max_held_mb=1).max_held_bytes == 8_000_000
