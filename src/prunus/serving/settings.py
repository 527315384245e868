"""The settings of a service: address, batches and limits."""

from collections.abc import Mapping

from pydantic import Field, ValidationError

from prunus.config import Settings
from prunus.errors import PrunusError, UnknownNameError
from prunus.images import MAX_PIXELS

MEGA = 1_000_000


class ServeSettings(Settings):
    """Address, batches and limits of a service."""

    host: str = Field(
        default="127.0.0.1", min_length=1, description="address to listen on; 0.0.0.0 listens on all interfaces"
    )
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    allow_hosts: list[str] = Field(
        default=[], description='more host names to answer to, such as those of a proxy; "*" answers to any'
    )
    workers: int = Field(default=1, ge=1, le=256, description="processes that serve requests, each with these limits")
    threads: int = Field(default=1, ge=1, le=1024, description="threads that compute one batch")
    batch_images: int = Field(default=32, ge=1, le=4096, description="largest number of images computed together")
    batch_ms: float = Field(
        default=2.0, ge=0, le=1000, description="longest time in milliseconds that an image waits for others"
    )
    max_upload_mb: float = Field(default=16.0, ge=0.001, le=1024, description="largest request, in megabytes")
    max_images: int = Field(default=16, ge=1, le=1024, description="most images in one request")
    max_megapixels: float = Field(
        default=32.0,
        ge=0.001,
        le=MAX_PIXELS / MEGA,
        description="most pixels of all images in one request, in megapixels",
    )
    decoders: int = Field(default=2, ge=1, le=64, description="most processes that decode large images")
    decode_seconds: float = Field(
        default=10.0, ge=0.1, le=3600, description="most CPU time in seconds for decoding one request"
    )
    max_queue: int = Field(
        default=256, ge=1, le=100_000, description="most requests that are read but not yet answered"
    )
    max_held_mb: float = Field(default=256.0, gt=0, description="most megabytes held for all requests together")
    max_connections: int = Field(default=512, ge=1, le=100_000, description="most connections open at the same time")
    max_address_connections: int = Field(
        default=384, ge=1, le=100_000, description="most connections of one address, if there are several"
    )
    max_address_mb: float = Field(
        default=192.0, gt=0, description="most megabytes held for one address, if there are several"
    )
    max_address_cpu_seconds: float = Field(
        default=60.0, gt=0, description="CPU seconds per minute for images of one address, if there are several"
    )
    min_bytes_per_second: float = Field(
        default=1000.0, ge=0, le=1e9, description="slowest rate at which a request may arrive, after 5 seconds"
    )
    request_seconds: float = Field(
        default=30.0,
        ge=0.05,
        le=3600,
        description="time limit of a request in seconds, from the first byte to the answer",
    )

    @property
    def max_upload_bytes(self) -> int:
        """Return the size of the largest request in bytes."""
        return int(self.max_upload_mb * MEGA)

    @property
    def max_held_bytes(self) -> int:
        """Return the bytes that all requests together may hold; one request of the largest size always fits."""
        return max(int(self.max_held_mb * MEGA), self.max_upload_bytes)

    @property
    def max_pixels(self) -> int:
        """Return the number of pixels of all images in the largest request."""
        return int(self.max_megapixels * MEGA)


def parse_settings(values: Mapping[str, object]) -> ServeSettings:
    """Validate settings of a user, and report the first mistake in one line."""
    try:
        return ServeSettings.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UnknownNameError("setting", name, ServeSettings.model_fields) from None
        raise PrunusError(f"setting {name!r}: {first['msg']}, got {first['input']!r}") from None
