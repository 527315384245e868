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


@pytest.mark.parametrize(
    ("name", "smallest", "largest"),
    [
        ("port", 0, 65535),
        ("threads", 1, 1024),
        ("batch_images", 1, 4096),
        ("batch_ms", 0, 1000),
        ("max_upload_mb", 0.001, 1024),
        ("max_images", 1, 1024),
        ("decode_seconds", 0.1, 3600),
        ("max_queue", 1, 100_000),
        ("max_connections", 1, 100_000),
        ("request_seconds", 0.05, 3600),
    ],
)
def test_the_bounds_of_a_setting_are_accepted_and_what_is_beyond_them_is_refused(
    name: str, smallest: float, largest: float
) -> None:
    for bound in (smallest, largest):
        assert getattr(parse_settings({name: bound}), name) == bound
    step = 1 if isinstance(smallest, int) else 1e-6
    for beyond in (smallest - step, largest + step):
        with pytest.raises(PrunusError, match=f"setting '{name}'"):
            parse_settings({name: beyond})


def test_a_service_listens_on_port_8000_of_this_machine_unless_told() -> None:
    assert (ServeSettings().host, ServeSettings().port, ServeSettings().workers) == ("127.0.0.1", 8000, 1)
