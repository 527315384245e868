"""The shared state of a service: model, limits, queue and metrics."""

from dataclasses import dataclass, field

from starlette.requests import Request

from prunus.bundle.bundle import Bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.runtime.predictor import Predictor
from prunus.serving.answers import DomainAnswer, DomainsAnswer, ExampleAnswer, LimitsAnswer
from prunus.serving.computing.batcher import Batcher
from prunus.serving.computing.ranking import ranking_with
from prunus.serving.computing.workers import Workers
from prunus.serving.guarding.admission import Admission
from prunus.serving.metrics import Metrics
from prunus.serving.routes.examples import Example, Examples
from prunus.serving.settings import ServeSettings

DECODERS = 2  # threads; each may hold one decoded image of the largest size
STOP_SECONDS = 5.0  # time for threads to finish after the last response


@dataclass(frozen=True)
class Service:
    """The parts of a running service."""

    name: str
    predictor: Predictor
    settings: ServeSettings
    examples: Examples
    admission: Admission
    batcher: Batcher
    metrics: Metrics
    domains: DomainsAnswer
    decoders: Workers = field(default_factory=lambda: Workers(DECODERS, "prunus-decode"))

    def close(self) -> None:
        """Stop the threads after their current task; those that take too long end with the process."""
        self.decoders.finish(STOP_SECONDS)
        self.batcher.close(STOP_SECONDS)

    def example(self, domain: str, number: int) -> Example | None:
        """Return an example by its number, or None."""
        images = self.examples.get(domain, [])
        return images[number] if 0 <= number < len(images) else None


def make_service(name: str, predictor: Predictor, settings: ServeSettings, examples: Examples) -> Service:
    """Build a service for a model."""
    admission = Admission(settings.max_queue, settings.max_held_bytes, settings.min_bytes_per_second)
    batcher = Batcher(
        ranking_with(predictor, settings.batch_images),
        settings.batch_images,
        settings.batch_ms / 1000,
        admission.expects_more,
    )
    metrics = Metrics(lambda: admission.requests, lambda: admission.bytes)
    batcher.on_batch = metrics.batch
    domains = describe_domains(name, predictor.bundle, settings, examples)
    return Service(name, predictor, settings, examples, admission, batcher, metrics, domains)


def service_of(request: Request) -> Service:
    """Return the service that handles a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def describe_domains(name: str, bundle: Bundle, settings: ServeSettings, examples: Examples) -> DomainsAnswer:
    """Build the response of GET /domains, which never changes."""
    costs = bundle_costs(bundle)
    return DomainsAnswer(
        model=name,
        backbone=bundle.manifest.backbone,
        usage=costs.union(),
        domains=[
            DomainAnswer(
                name=domain,
                classes=list(entry.classes),
                usage=costs.usage(domain),
                examples=[
                    ExampleAnswer(name=example.name, path=f"examples/{domain}/{number}")
                    for number, example in enumerate(examples.get(domain, []))
                ],
            )
            for domain, entry in bundle.manifest.domains.items()
        ],
        limits=LimitsAnswer(
            upload_bytes=settings.max_upload_bytes, images=settings.max_images, pixels=settings.max_pixels
        ),
    )
