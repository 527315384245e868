"""What an 8-bit file records of how its numbers were chosen, under `int8` in its provenance."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prunus.bundle.manifest import Provenance

KEY = "int8"
MOST_IMAGES = 9999  # of one domain
Share = Annotated[float, Field(ge=0, le=1)]
Images = Annotated[int, Field(ge=0, le=MOST_IMAGES)]


class EightBitRecord(BaseModel):
    """How many images of each domain chose the codings, and what others measured.

    Args:
        accuracy: domain -> held-out images, and the accuracy on them in floats and in 8 bits.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    calibration: Images
    accuracy: dict[str, tuple[Images, Share, Share]]

    def written(self) -> dict[str, object]:
        """Return the record as JSON, with four decimals."""
        rows = {name: [count, round(old, 4), round(new, 4)] for name, (count, old, new) in self.accuracy.items()}
        return {"calibration": self.calibration, "accuracy": rows}


def longest_record(domains: Iterable[str]) -> dict[str, object]:
    """Return a record that no other of these domains is longer than, to plan the size of a file with."""
    return EightBitRecord(
        calibration=MOST_IMAGES, accuracy=dict.fromkeys(domains, (MOST_IMAGES, 0.8888, 0.8888))
    ).written()


def read_record(provenance: Provenance) -> EightBitRecord | None:
    """Return the record of a file; None if it has none, or one that cannot be read."""
    try:
        return EightBitRecord.model_validate(provenance.get(KEY))
    except ValidationError:
        return None
