"""What the service answers, as data: the schema of every response."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Frozen; every key is always there."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorAnswer(Answer):
    """Why a request was not answered."""

    error: str


class ClassAnswer(Answer):
    """One class and how probable it is."""

    label: str
    probability: float = Field(ge=0, le=1)


class ImageAnswer(Answer):
    """The classes of one image, the most probable first; the name is that of the uploaded file."""

    name: str
    predictions: list[ClassAnswer]


class PredictAnswer(Answer):
    """The classes of all images of a request, in its order; milliseconds from its last byte to the answer."""

    domain: str
    milliseconds: float
    results: list[ImageAnswer]


class ExampleAnswer(Answer):
    """An image to try; the path is relative to the page."""

    name: str
    path: str


class DomainAnswer(Answer):
    """A domain, its classes, and which share of the network's kernels it uses."""

    name: str
    classes: list[str]
    usage: float
    examples: list[ExampleAnswer]


class LimitsAnswer(Answer):
    """What one request may hold."""

    upload_bytes: int
    images: int
    pixels: int


class DomainsAnswer(Answer):
    """All domains of the model; usage is the share of kernels that any of them uses."""

    model: str
    backbone: str
    usage: float
    domains: list[DomainAnswer]
    limits: LimitsAnswer


class HealthAnswer(Answer):
    """That the service answers, and what it serves."""

    status: str
    model: str
    version: str
    domains: int
