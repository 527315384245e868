"""`prunus evaluate`, `prunus bench` and `prunus inspect`: their tables, explanations and options."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.cli.measure import SPEED_COLUMNS
from prunus.measure.evaluation import Evaluation
from prunus.measure.inspection import Inspection, LayerContent
from prunus.measure.speed import Benchmark, Gain, Speed, Timing
from prunus.report.page.writing import Report
from tests.makers.run_folders import by_class, results

LONG = "stages.0.blocks.0.a_very_long_name_of_a_layer.conv"
RESULTS = Benchmark(
    model="model.prunus",
    backbone="wrn14_2",
    image_size=64,
    batch=16,
    machine="a machine",
    prunus_engine="avx2",
    versions={"numpy": "2.0"},
    speeds=tuple(
        Speed(
            engine=engine,
            threads=threads,
            domain=domain,
            latency=Timing(median_ms=ms / threads, p95_ms=2 * ms / threads),
            images_per_second=1234 * threads,
        )
        for threads in (1, 2)
        for engine, domain, ms in (("Prunus", "birds", 2.5), ("Prunus", "flowers", 5.0), ("ONNX dense", None, 10.0))
    ),
    gains=tuple(
        Gain(domain=domain, threads=1, promised=5.0, speed_up=speed_up, realised=speed_up / 5)
        for domain, speed_up in (("birds", 4.0), ("flowers", 2.0))
    ),
    missing={"PyTorch dense": "torch is not installed"},
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Return the arguments with which the benchmark was called."""
    seen: list[tuple[object, ...]] = []

    def bench(*arguments: object, accuracy: bool) -> Benchmark:
        seen.append((*arguments, accuracy))
        return RESULTS

    monkeypatch.setattr("prunus.bench", bench)
    return seen


def _lines(*options: str) -> list[str]:
    result = CliRunner().invoke(app, ["bench", "model.prunus", *options], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.output.splitlines()]


def _row(lines: Sequence[str], *start: str) -> list[str]:
    return next(line.split() for line in lines if line.split()[: len(start)] == list(start))


def test_every_engine_is_a_row_with_its_times_and_gains(calls: list[tuple[object, ...]]) -> None:
    lines = _lines()
    assert _row(lines, "Prunus", "birds") == ["Prunus", "birds", "2.500", "5.000", "1,234", "4.00", "x", "80", "%"]
    assert _row(lines, "ONNX", "dense") == ["ONNX", "dense", "10.0", "20.0", "1,234"]
    assert _row(lines, "Prunus", "mean") == ["Prunus", "mean", "3.00", "x", "60", "%"]


def test_numbers_of_threads_have_a_table_each(calls: list[tuple[object, ...]]) -> None:
    text = "\n".join(_lines())
    assert text.count("model.prunus (wrn14_2, 64 px), 1 thread, Prunus on avx2") == 1
    assert text.count("2 threads, Prunus on avx2") == 1
    assert text.count("mean") == 1  # nothing was gained with two threads


def test_what_was_not_timed_and_the_machine_are_named(calls: list[tuple[object, ...]]) -> None:
    lines = _lines()
    assert "PyTorch dense was not timed: torch is not installed" in lines
    assert "a machine; Prunus on avx2; numpy 2.0" in lines


def test_without_anything_to_compare_with_there_are_no_columns_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = RESULTS.model_copy(update={"gains": ()})
    monkeypatch.setattr("prunus.bench", lambda *_, **__: alone)
    lines = _lines()
    assert _row(lines, "engine") == ["engine", "domain", "median", "ms", "p95", "ms", "images/s"]
    assert not any("--explain" in line for line in lines)


def test_accuracies_stand_beside_times_with_their_means(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = Timing(median_ms=1.0, p95_ms=2.0)
    rival = Speed(engine="onnxruntime_int8", threads=1, domain=None, latency=timing, images_per_second=9)
    speeds = [
        *(each.model_copy(update={"accuracy": 0.75 if each.domain else None}) for each in RESULTS.speeds),
        rival.model_copy(update={"domain": "birds", "accuracy": 0.5}),
        rival.model_copy(update={"domain": "flowers", "accuracy": 0.6}),
        rival,
    ]
    found = RESULTS.model_copy(update={"speeds": tuple(speeds)})
    monkeypatch.setattr("prunus.bench", lambda *_, **__: found)
    lines = _lines("--explain")
    assert _row(lines, "engine")[-1] == "accuracy"
    assert _row(lines, "Prunus", "birds")[-4:] == ["80", "%", "75.00", "%"]
    assert _row(lines, "ONNX", "int8", "birds") == ["ONNX", "int8", "birds", "1.000", "2.000", "9", "50.00", "%"]
    assert _row(lines, "ONNX", "int8", "1.000") == ["ONNX", "int8", "1.000", "2.000", "9"]
    assert _row(lines, "Prunus", "mean") == ["Prunus", "mean", "3.00", "x", "60", "%", "75.00", "%"]
    assert _row(lines, "ONNX", "int8", "mean") == ["ONNX", "int8", "mean", "55.00", "%"]
    assert max(len(line) for line in lines if line.startswith(("Prunus  ", "ONNX  "))) <= 80
    alone = found.model_copy(update={"gains": ()})
    monkeypatch.setattr("prunus.bench", lambda *_, **__: alone)
    assert _row(_lines(), "Prunus", "mean") == ["Prunus", "mean", "75.00", "%"]


def test_columns_are_explained_only_when_asked(calls: list[tuple[object, ...]]) -> None:
    explanation = "of ideal: speed-up divided by the reduction in multiply-accumulates; above 100 %"
    assert explanation not in "\n".join(_lines())
    assert "--explain says what is counted." in _lines()
    assert explanation in "\n".join(_lines("--explain"))
    assert "speed-up: over ONNX dense, the row without a domain" in _lines("--explain")


def test_an_8_bit_file_shows_its_speed_up_over_8_bits_and_no_ideal(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = (Gain(domain="birds", threads=1, speed_up=2.5, over="onnxruntime_int8"),)
    eight_bits = RESULTS.model_copy(update={"gains": gains})
    monkeypatch.setattr("prunus.bench", lambda *_, **__: eight_bits)
    lines = _lines("--explain")
    assert not any("ideal" in line for line in lines)
    assert _row(lines, "engine")[-1] == "speed-up"
    assert _row(lines, "Prunus", "birds")[-2:] == ["2.50", "x"]
    assert _row(lines, "Prunus", "mean") == ["Prunus", "mean", "2.50", "x"]
    assert "speed-up: over ONNX int8, the row without a domain" in lines


def test_all_columns_fit_beside_whole_names(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = [each.model_copy(update={"accuracy": 0.75}) for each in RESULTS.speeds]
    renamed = [each.model_copy(update={"domain": each.domain and "characters"}) for each in speeds]
    gain = RESULTS.gains[0].model_copy(update={"domain": "characters"})
    dense = speeds[2].model_copy(update={"engine": "OpenVINO bf16"})
    found = RESULTS.model_copy(update={"speeds": (*renamed, dense), "gains": (gain,)})
    monkeypatch.setattr("prunus.bench", lambda *_, **__: found)
    lines = _lines()
    assert _row(lines, "Prunus", "characters")[-2:] == ["75.00", "%"]
    assert _row(lines, "engine") == [word for title in SPEED_COLUMNS for word in title.split()]


def test_why_no_accuracy_was_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "the model file does not record where the images are; name their folder with the argument data='DIR'"
    monkeypatch.setattr("prunus.bench", lambda *_, **__: RESULTS.model_copy(update={"unmeasured": reason}))
    line = "accuracy was not measured: the model file does not record where the images are; "
    assert f"{line}name their folder with --data DIR" in " ".join(_lines())


def test_options_reach_the_benchmark(calls: list[tuple[object, ...]]) -> None:
    _lines("--threads", "1", "--threads", "2", "--domain", "birds", "--batch", "3", "--rounds", "4", "--data", "images")
    _lines("--no-accuracy")
    assert calls == [
        (Path("model.prunus"), [1, 2], ["birds"], 3, 4, Path("images"), True),
        (Path("model.prunus"), None, (), 16, 50, None, False),
    ]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> "Show":
    return Show(monkeypatch)


class Show:
    """Runs the command for a number of domains in a terminal of some width."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, domains: tuple[str, ...], width: int) -> str:
        usage = dict.fromkeys(domains, 0.25)
        layer = LayerContent(name=LONG, num_kernels=200, kept=150, channels=(10, 20), usage=usage)
        content = Inspection(
            backbone="wrn14_2",
            dtype="float16",
            domains=dict.fromkeys(domains, 3),
            layers=(layer,),
            sharing={name: dict.fromkeys(domains, 0.5) for name in domains},
            bytes_by_part={"weights": 3000, "masks": 1000},
            provenance={},
        )
        self._monkeypatch.setattr("prunus.inspect", lambda _: content)
        result = CliRunner().invoke(app, ["inspect", "m.prunus"], env={"COLUMNS": str(width)})
        assert result.exit_code == 0, result.output
        return result.output


def test_layers_sharing_and_bytes_are_tables(show: Show) -> None:
    output = show(("birds", "flowers"), 120)
    rows = [line.split() for line in output.splitlines()]
    assert output.startswith("m.prunus: wrn14_2, float16, 2 domains\n")
    assert [LONG, "200", "150", "25", "%", "25", "%"] in rows
    assert ["birds", "50", "%", "50", "%"] in rows
    assert ["weights", "3,000", "75.0", "%"] in rows
    assert ["all", "4,000"] in rows


def test_in_a_narrow_terminal_domains_are_numbered_and_names_broken_after_dots(show: Show) -> None:
    output = show(("characters", "clothing", "fashion", "fruits", "signs"), 80)
    assert "domains: 1 characters, 2 clothing, 3 fashion, 4 fruits, 5 signs" in output
    lines = [line.strip() for line in output.splitlines()]
    start = next(index for index, line in enumerate(lines) if line.startswith("stages.0.blocks.0."))
    assert lines[start].split() == ["stages.0.blocks.0.", "200", "150", *["25", "%"] * 5]
    end = lines.index("", start)
    assert "".join(line.split()[0] for line in lines[start:end]) == LONG
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize(("options", "lines"), [((), 2), (("--explain",), 8)])
def test_evaluate_ends_in_two_lines_unless_explanations_are_asked_for(
    options: Sequence[str], lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunus.evaluate", lambda *_: Evaluation.model_validate(results()))
    printed = CliRunner().invoke(app, ["evaluate", str(tmp_path), *options], env={"COLUMNS": "300"}).output.splitlines()
    below = printed[[line[0] for line in printed].index("└") + 1 :]
    assert len(below) == lines
    assert below[-1].startswith(f"Saved to {tmp_path / 'results.json'}.")
    assert ("--explain" in below[-1]) == (not options)


@pytest.mark.parametrize(("options", "is_shown"), [((), False), (("--pictures",), True)])
def test_json_has_the_pictures_of_mistakes_only_if_they_are_asked_for(
    options: Sequence[str], is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = results()
    content["domains"]["birds"]["by_class"] = by_class(["owl", "wren"])
    monkeypatch.setattr("prunus.evaluate", lambda *_: Evaluation.model_validate(content))
    output = CliRunner().invoke(app, ["evaluate", "m.prunus", "--json", *options]).output
    mistakes = json.loads(output)["domains"]["birds"]["by_class"]["mistakes"]
    assert len(mistakes) > 1
    assert all(bool(mistake["picture"]) == is_shown for mistake in mistakes)


def test_evaluate_says_how_to_see_more_of_a_model_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.evaluate", lambda *_: Evaluation.model_validate(results()))
    output = CliRunner().invoke(app, ["evaluate", "m.prunus"], env={"COLUMNS": "80"}).output
    assert output.splitlines()[-1] == "--explain says what is counted."


def test_frozen_features_are_not_counted_as_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.html").write_bytes(b"x" * 130_000)
    for runs, words in ((("a", "a/feature"), "1 run, with frozen features"), (("a", "x/b"), "2 runs")):
        report = Report(tmp_path / "r.html", runs, {}, (), {})
        monkeypatch.setattr("prunus.write_report", lambda *_, report=report: report)
        output = CliRunner().invoke(app, ["report", "runs"]).output
        assert output == f"{tmp_path / 'r.html'}: {words}, 0.13 MB; open it in a browser\n"
