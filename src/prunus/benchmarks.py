"""Two benchmarks of the field as plain data: their sets, sizes, rules and published reference accuracies."""

from dataclasses import dataclass

from prunus.errors import UnknownNameError


@dataclass(frozen=True)
class BenchmarkSet:
    """One image domain of a benchmark, with the published accuracies of fine-tuning and of the feature extractor."""

    name: str
    number: int
    classes: int
    num_test: int | None
    finetune_accuracy: float
    feature_accuracy: float
    mirror: bool = True
    comes_cropped: bool = False


@dataclass(frozen=True)
class Benchmark:
    """A named group of domains that share their preprocessing."""

    name: str
    title: str
    sets: tuple[BenchmarkSet, ...]
    size: int
    resize: int
    own_statistics: bool

    def names(self) -> list[str]:
        """List the names of the sets, in order."""
        return [benchmark_set.name for benchmark_set in self.sets]

    def find(self, name: str) -> BenchmarkSet:
        """Return the set of a name."""
        for benchmark_set in self.sets:
            if benchmark_set.name == name:
                return benchmark_set
        raise UnknownNameError(f"set of {self.name}", name, self.names())


DECATHLON = Benchmark(
    name="decathlon",
    title="Visual Decathlon Challenge",
    sets=(  # in the order of the published tables; the number is the k of the ids
        BenchmarkSet("imagenet12", 6, 1000, 48_238, 0.599, 0.597),
        BenchmarkSet("aircraft", 1, 100, 3_333, 0.603, 0.233),
        BenchmarkSet("cifar100", 2, 100, 10_000, 0.821, 0.631),
        BenchmarkSet("daimlerpedcls", 3, 2, 19_600, 0.928, 0.803),
        BenchmarkSet("dtd", 4, 47, 1_880, 0.555, 0.454, mirror=False),
        BenchmarkSet("gtsrb", 5, 43, 12_630, 0.975, 0.682, mirror=False),
        BenchmarkSet("vgg-flowers", 10, 102, 6_149, 0.814, 0.737),
        BenchmarkSet("omniglot", 7, 1623, 8_115, 0.877, 0.588, mirror=False),
        BenchmarkSet("svhn", 8, 10, 26_032, 0.966, 0.435, mirror=False),
        BenchmarkSet("ucf101", 9, 101, 3_783, 0.512, 0.268),
    ),
    size=64,
    resize=72,
    own_statistics=True,
)

IMAGENET_TO_SKETCH = Benchmark(
    name="imagenet_to_sketch",
    title="ImageNet-to-Sketch",
    sets=(
        BenchmarkSet("imagenet", 1, 1000, None, 0.762, 0.762),
        BenchmarkSet("cubs_cropped", 2, 200, None, 0.828, 0.707, comes_cropped=True),
        BenchmarkSet("stanford_cars_cropped", 3, 196, None, 0.918, 0.528, comes_cropped=True),
        BenchmarkSet("flowers", 4, 102, None, 0.966, 0.860),
        BenchmarkSet("wikiart", 5, 195, None, 0.756, 0.556),
        BenchmarkSet("sketches", 6, 250, None, 0.808, 0.509),
    ),
    size=224,
    resize=256,
    own_statistics=False,
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in (DECATHLON, IMAGENET_TO_SKETCH)}


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name."""
    if name not in BENCHMARKS:
        raise UnknownNameError("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]
