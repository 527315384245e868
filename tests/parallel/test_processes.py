"""Sums, shares and agreements of several processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prunus.errors import TrainingError
from prunus.parallel.processes import ALONE, Processes
from tests.makers.process_groups import Results, run_processes


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize(("images", "parts"), [(5, 1), (7, 1), (32, 1), (32, 3), (26, 4)])
def test_shares_cover_a_batch_once_and_differ_by_at_most_one_image(world: int, images: int, parts: int) -> None:
    portions = [Processes(rank, world).portions(images, parts) for rank in range(world)]
    chunks = [chunk.tolist() for chunk in torch.arange(images).chunk(parts)]
    for part, chunk in zip(zip(*portions, strict=True), chunks, strict=True):
        assert [row for portion in part for row in portion.rows] == chunk
        sizes = [len(portion.rows) for portion in part]
        assert max(sizes) - min(sizes) <= 1
        assert all(portion.images == len(chunk) and portion.counts and portion.weight == 1 for portion in part)
        assert all(portion.is_split == (world > 1) for portion in part)


def test_a_part_of_fewer_images_than_processes_is_computed_whole_by_all_and_counted_once() -> None:
    portions = [Processes(rank, 4).portions(7, 2)[1] for rank in range(4)]
    assert all(portion.rows == range(4, 7) and not portion.is_split for portion in portions)
    assert sum(portion.weight for portion in portions) == 1
    assert [portion.counts for portion in portions] == [True, False, False, False]


def test_a_process_alone_has_everything_and_exchanges_nothing() -> None:
    tensor = torch.tensor([1.0, 2.0])
    ALONE.sum_([tensor])
    ALONE.average_([tensor], 3.0)
    ALONE.broadcast_([tensor])
    ALONE.barrier()
    with ALONE.leader_first():
        assert tensor.tolist() == [1.0, 2.0]
    assert ALONE.gather(tensor).tolist() == [[1.0, 2.0]]
    assert (ALONE.agree([1]), ALONE.any([True, False])) == ([1], [True, False])
    assert ALONE.failure() == "it ended without a message"
    assert ALONE.is_first


def _exchange(processes: Processes) -> Results:
    rank = processes.rank
    matrix = torch.arange(6.0).view(2, 3).t() * (rank + 1)  # not contiguous
    scalar = torch.tensor(10.0 + rank)
    processes.sum_([matrix, scalar])
    mean = torch.tensor([rank, 1.0], dtype=torch.float64)
    processes.average_([mean], 1.0 + rank)
    received = [torch.full((2,), rank), torch.full((3,), float(rank)), torch.full((1,), rank)]
    processes.broadcast_(received)
    flags = processes.any([rank == 2, False])
    log = processes.gather(torch.tensor([float(rank)]))
    assert processes.agree({"step": rank, "share": rank / 3}) == {"step": 0, "share": 0.0}
    processes.barrier()
    return {
        **{"matrix": matrix, "scalar": scalar, "mean": mean, "log": log, "flags": torch.tensor(flags)},
        **{f"received {index}": tensor for index, tensor in enumerate(received)},
    }


@pytest.mark.slow
def test_sums_means_and_agreements_of_three_processes(tmp_path: Path) -> None:
    results = run_processes(_exchange, 3, tmp_path)
    for found in results:
        assert torch.equal(found["matrix"], torch.arange(6.0).view(2, 3).t() * 6)
        assert found["scalar"] == 33
        torch.testing.assert_close(found["mean"], torch.tensor([(0 + 2 + 6) / 6, 1.0], dtype=torch.float64))
        assert found["log"].flatten().tolist() == [0, 1, 2]
        assert found["flags"].tolist() == [True, False]
        assert [found[f"received {index}"].tolist() for index in range(3)] == [[0, 0], [0.0, 0.0, 0.0], [0]]
        assert found["received 0"].dtype == torch.int64


def _take_turns(processes: Processes) -> Results:
    assert processes.store is not None
    with processes.leader_first():
        place = processes.store.add("visits", 1)
    return {"place": torch.tensor(place)}


@pytest.mark.slow
def test_the_first_process_of_a_machine_goes_first(tmp_path: Path) -> None:
    first, *others = run_processes(_take_turns, 3, tmp_path)
    assert first["place"] == 1
    assert sorted(int(other["place"]) for other in others) == [2, 3]


def _fail_in_the_leader(processes: Processes) -> Results:
    with processes.leader_first():
        if processes.is_first:
            raise TrainingError("an image is damaged")
    return {}


@pytest.mark.slow
def test_a_process_does_not_wait_for_a_leader_that_failed(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"0: an image is damaged \| 1: .*\(process 0: an image is damaged\)"):
        run_processes(_fail_in_the_leader, 2, tmp_path)
