"""Check image data before training."""

from pathlib import Path

from prunus.benchmarks import find_benchmark
from prunus.data.checks import BENCHMARK_CHECKS, CheckReport, OnImage, check_folders, find_domains


def check(path: str | Path, benchmark: str | None = None, on_image: OnImage = lambda: None) -> CheckReport:
    """Check a domain (a folder or zip file with a train split), a folder of domains, or a benchmark.

    Every image is decoded.

    Args:
        benchmark: the name of the benchmark that the folder holds.
        on_image: called for every image.
    """
    if benchmark is None:
        return check_folders(find_domains(path), None, on_image)
    known = find_benchmark(benchmark)
    return BENCHMARK_CHECKS[known.name](Path(path), known, on_image)
