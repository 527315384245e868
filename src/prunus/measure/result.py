"""What all typed results have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0)]  # of something else; above 1 if it is more than that
Amount = Annotated[float, Field(ge=0)]  # a time, a speed or a standard deviation


class Result(BaseModel):
    """A frozen result; its dump is what `--json` prints, and files with unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
