"""What an 8-bit file records of how its numbers were chosen, under `int8` in its provenance."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prunus.bundle.manifest import Provenance

KEY = "int8"
MOST_IMAGES = 9999  # of one domain
Share = Annotated[float, Field(ge=0, le=1)]
Images = Annotated[int, Field(ge=0, le=MOST_IMAGES)]


class Measured(NamedTuple):
    """What the held-out images of one domain showed; files of earlier versions end after the accuracy in 8 bits.

    Args:
        images: that were held out.
        floats: the accuracy on them in floats.
        int8: the accuracy on them in 8 bits.
        turned: images that are right in only one of the two.
        validation: images that are validation images; the others were trained on.
    """

    images: Images
    floats: Share
    int8: Share
    turned: Images | None = None
    validation: Images | None = None


class EightBitRecord(BaseModel):
    """How many images of a domain chose the codings, at most, and what others measured, by domain."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    calibration: Images
    accuracy: dict[str, Measured]

    def written(self) -> dict[str, object]:
        """Return the record as JSON, with four decimals."""
        rows = {
            name: [row.images, round(row.floats, 4), round(row.int8, 4), row.turned, row.validation]
            for name, row in self.accuracy.items()
        }
        return {"calibration": self.calibration, "accuracy": rows}


def longest_record(domains: Iterable[str]) -> dict[str, object]:
    """Return a record that no other of these domains is longer than, to plan the size of a file with."""
    longest = Measured(MOST_IMAGES, 0.8888, 0.8888, MOST_IMAGES, MOST_IMAGES)
    return EightBitRecord(calibration=MOST_IMAGES, accuracy=dict.fromkeys(domains, longest)).written()


def read_record(provenance: Provenance) -> EightBitRecord | None:
    """Return the record of a file; None if it has none, or one that cannot be read."""
    try:
        return EightBitRecord.model_validate(provenance.get(KEY))
    except ValidationError:
        return None
