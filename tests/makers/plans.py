"""A plan written by hand."""

from prunus.measure.budget import LimitUse, Plan, PlannedDomain

PLAN = Plan(
    backbone="wrn14_2",
    method="exact",
    dtype="float16",
    is_exact=True,
    domains={"birds": PlannedDomain(classes=20, images=1_000, macs=12_403_152, macs_ratio=0.492)},
    kernels=18_828,
    weights=169_452,
    model_bytes=360_000,
    bytes_by_part={"weights of the kept kernels": 340_000, "classifiers": 20_000},
    dense_kernels=75_312,
    dense_weights=677_808,
    dense_bytes=2_728_000,
    dense_macs=25_214_976,
    limits=(LimitUse.of("kernels", 18_828, 18_828), LimitUse.of("macs", 12_403_152, 20_000_000, "birds")),
    binding="kernels",
    epochs=1,
    steps=4_080,
    notes=("a note",),
)
