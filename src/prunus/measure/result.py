"""What all typed results have in common."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Share = Annotated[float, Field(ge=0)]  # of something else; above 1 if it is more than that
Amount = Annotated[float, Field(ge=0)]  # a time, a speed or a standard deviation


class Result(BaseModel):
    """A frozen result; its dump is what `--json` prints, and files with unknown keys are refused.

    Fields in `added` are missing in files of earlier versions, or where nobody measured them: they are left out unless
    they were set.
    """

    added: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _omit_what_nobody_added(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        content: dict[str, object] = serialize(self)
        left_out = set(self.added) - self.model_fields_set
        return {key: value for key, value in content.items() if key not in left_out}
