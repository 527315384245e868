"""The responses of the service as typed models."""

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Base of all responses: frozen, and every key is always present."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorAnswer(Answer):
    """The reason why a request failed."""

    error: str


class ClassAnswer(Answer):
    """One class and its probability."""

    label: str
    probability: float = Field(ge=0, le=1)


class ImageAnswer(Answer):
    """The classes of one image, most probable first, and the name of the uploaded file."""

    name: str
    predictions: list[ClassAnswer]


class PredictAnswer(Answer):
    """The results of a request in upload order, and the milliseconds from its last byte to the answer."""

    domain: str
    milliseconds: float
    results: list[ImageAnswer]


class ExampleAnswer(Answer):
    """An example image; its path is relative to the page."""

    name: str
    path: str


class DomainAnswer(Answer):
    """A domain, its classes, and the share of the network's kernels that it uses."""

    name: str
    classes: list[str]
    usage: float
    examples: list[ExampleAnswer]


class LimitsAnswer(Answer):
    """The limits of one request."""

    upload_bytes: int
    images: int
    pixels: int


class DomainsAnswer(Answer):
    """All domains of the model, and the share of kernels that any of them uses."""

    model: str
    backbone: str
    usage: float
    domains: list[DomainAnswer]
    limits: LimitsAnswer


class HealthAnswer(Answer):
    """The status of the service and the model that it serves."""

    status: str
    model: str
    version: str
    domains: int
