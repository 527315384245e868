"""Files are loaded once, counted as they are, and timed in turns."""

from pathlib import Path

import numpy as np
import pytest

from prunus.alternatives import measuring
from prunus.alternatives.alternative import Answering, Shipped
from prunus.alternatives.measuring import load_runs, time_runs, total_bytes
from prunus.arrays import Floats
from prunus.timing.sessions import Run
from tests.makers.tiny_training import tiny_recipe


def _shipped(*files: str, output: str | None = None) -> Shipped:
    answering = {f"domain{i}": Answering(file=file, output=output) for i, file in enumerate(files)}
    return Shipped(recipe=tiny_recipe(), counted=tuple(dict.fromkeys(files)), answering=answering, macs={})


def test_a_file_that_several_domains_share_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"12345")
    (tmp_path / "b.onnx").write_bytes(b"67")
    assert total_bytes(tmp_path, _shipped("a.onnx", "a.onnx")) == 5
    assert total_bytes(tmp_path, _shipped("a.onnx", "b.onnx")) == 7


def test_onnx_files_are_run_with_their_output_and_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []

    def onnx_run(*arguments: object) -> Run:
        calls.append(arguments)
        return lambda images: images

    monkeypatch.setattr(measuring, "onnx_run", onnx_run)
    monkeypatch.setattr(measuring, "usable_processors", lambda: 7)
    (tmp_path / "a.onnx").write_bytes(b"model")
    assert list(load_runs(tmp_path, _shipped("a.onnx", output="x"), threads=1)) == ["domain0"]
    load_runs(tmp_path, _shipped("a.onnx"))
    assert calls == [(b"model", 1, "x"), (b"model", 7, None)]


def test_a_model_file_answers_for_each_of_its_domains() -> None:
    model = Path(__file__).parents[1] / "golden" / "model_format_3" / "trained.prunus"
    from prunus.runtime.predictor import Predictor

    predictor = Predictor(model)
    domains = predictor.bundle.domains
    shipped = Shipped(
        recipe=tiny_recipe(),
        counted=(model.name,),
        answering={domain: Answering(file=model.name) for domain in domains},
        macs={},
    )
    size = predictor.bundle.manifest.image_size
    images = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)
    for domain, run in load_runs(model.parent, shipped).items():
        np.testing.assert_array_equal(run(images), predictor.logits(images, domain))


def test_all_runs_take_turns_with_one_image() -> None:
    calls: list[str] = []

    def run(name: str) -> Run:
        def answer(images: Floats) -> Floats:
            assert images.shape == (1, 3, 8, 8)
            calls.append(name)
            return images

        return answer

    timings = time_runs({("lora", 0, "a"): run("lora"), ("ours", 0, "a"): run("ours")}, 8, rounds=4)
    assert list(timings) == [("lora", 0, "a"), ("ours", 0, "a")]
    assert all(timing.median_ms >= 0 for timing in timings.values())
    turns = [set(calls[start : start + 4]) for start in range(0, len(calls), 4)]  # each is called twice a round
    assert all(turn == {"lora", "ours"} for turn in turns)
