"""The shared state of a service: model, limits, queue and metrics."""

import time
from dataclasses import dataclass

from starlette.requests import Request

from prunus.bundle.bundle import Bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.runtime.predictor import Predictor
from prunus.serving.answers import DomainAnswer, DomainsAnswer, ExampleAnswer, LimitsAnswer
from prunus.serving.computing.batcher import Batcher
from prunus.serving.computing.ranking import ranking_with
from prunus.serving.guarding.admission import Admission
from prunus.serving.guarding.quotas import QuotaLimits, Quotas, address_of
from prunus.serving.metrics import Metrics
from prunus.serving.routes.examples import Example, Examples
from prunus.serving.settings import MEGA, ServeSettings
from prunus.serving.uploads.decoders import Decoders, Limits

STOP_SECONDS = 5.0  # time for the current batch to finish after the last response


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
    decoders: Decoders
    quotas: Quotas

    async def start(self) -> None:
        """Start the processes that decode images."""
        await self.decoders.start()

    def close(self) -> None:
        """End the decoders, and stop computing after the current batch; a batch that takes too long is given up."""
        self.decoders.close()
        self.batcher.close(STOP_SECONDS)

    def example(self, domain: str, number: int) -> Example | None:
        """Return an example by its number, or None."""
        images = self.examples.get(domain, [])
        return images[number] if 0 <= number < len(images) else None


def make_service(name: str, predictor: Predictor, settings: ServeSettings, examples: Examples) -> Service:
    """Build a service for a model."""
    side = max(entry.preprocess.size for entry in predictor.bundle.manifest.domains.values())
    largest = settings.max_upload_bytes + settings.max_images * 3 * side**2  # a request of the largest size always fits
    max_bytes = max(settings.max_held_bytes, largest)
    admission = Admission(settings.max_queue, max_bytes, settings.min_bytes_per_second)
    batcher = Batcher(
        ranking_with(predictor),
        settings.batch_images,
        settings.batch_ms / 1000,
        admission.expects_more,
    )
    metrics = Metrics(lambda: admission.requests, lambda: admission.bytes, lambda: admission.arrivals.given_up)
    batcher.on_batch = metrics.batch
    domains = describe_domains(name, predictor.bundle, settings, examples)
    limits = Limits(settings.max_images, settings.max_pixels, settings.decode_seconds, settings.request_seconds)
    decoders = Decoders(limits, settings.decoders, metrics.decoder_restart)
    quotas = make_quotas(settings)
    decoders.on_cpu = lambda client, seconds: quotas.spend(
        address_of(client if isinstance(client, tuple) else None), seconds, time.monotonic()
    )
    return Service(name, predictor, settings, examples, admission, batcher, metrics, domains, decoders, quotas)


def make_quotas(settings: ServeSettings) -> Quotas:
    """Return the quotas of addresses, of which none has used anything yet."""
    limit = QuotaLimits(
        settings.max_address_connections, int(settings.max_address_mb * MEGA), settings.max_address_cpu_seconds
    )
    return Quotas(limit)


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
