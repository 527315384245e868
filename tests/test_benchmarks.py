"""The tables of the benchmarks agree with what was published."""

import pytest

from prunus.benchmarks import BENCHMARKS, DECATHLON, IMAGENET_TO_SKETCH, find_benchmark
from prunus.errors import UnknownNameError


def test_every_set_of_the_decathlon_has_its_own_number_and_sizes() -> None:
    assert sorted(benchmark_set.number for benchmark_set in DECATHLON.sets) == list(range(1, 11))
    assert sum(benchmark_set.classes for benchmark_set in DECATHLON.sets) == 3128
    assert sum(benchmark_set.num_test or 0 for benchmark_set in DECATHLON.sets) == 139_760


def test_mirroring_is_off_where_the_paper_found_it_harmful() -> None:
    assert [s.name for s in DECATHLON.sets if not s.mirror] == ["dtd", "gtsrb", "omniglot", "svhn"]


def test_the_sets_with_bounding_boxes_come_cropped() -> None:
    cropped = [benchmark_set.name for benchmark_set in IMAGENET_TO_SKETCH.sets if benchmark_set.comes_cropped]
    assert cropped == ["cubs_cropped", "stanford_cars_cropped"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_and_its_sets_are_found_by_name(name: str) -> None:
    benchmark = find_benchmark(name)
    assert benchmark.resize >= benchmark.size
    for set_name in benchmark.names():
        assert benchmark.find(set_name).name == set_name
        assert 0 < benchmark.find(set_name).feature_accuracy <= benchmark.find(set_name).finetune_accuracy < 1


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown benchmark 'decathlo'; did you mean 'decathlon'\?"):
        find_benchmark("decathlo")
    with pytest.raises(UnknownNameError, match=r"unknown set of decathlon 'flowers'.* known: .*vgg-flowers"):
        DECATHLON.find("flowers")
