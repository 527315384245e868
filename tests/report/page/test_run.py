"""What the page says first about a run: what was trained, whether the budget was kept, and its main numbers."""

import pytest

from prunus.measure.evaluation import Evaluation
from prunus.measure.speed import Benchmark
from prunus.report.page.run import ReportedRun, headline, summary
from tests.makers.run_folders import results

LIMIT = {"name": "kernels", "domain": None, "used": 7, "limit": 8, "kept": True}


def _evaluation(*arguments: object, **more: object) -> Evaluation:
    return Evaluation.model_validate(results(*arguments, **more))  # type: ignore[arg-type]


def _facts(run: ReportedRun) -> dict[str, tuple[str, str]]:
    return {name: (value, meaning) for name, value, meaning in headline(run)}


@pytest.mark.parametrize(
    ("evaluation", "expected"),
    [
        (
            _evaluation("exact", 0.5, budget_kept=True, limits=[LIMIT]),
            "Budget (β): 50 % of the kernels. It was kept: 7 of 8 kernels.",
        ),
        (
            _evaluation("exact", 0.125, budget_kept=False, limits=[LIMIT | {"used": 9, "kept": False}, LIMIT]),
            "Budget (β): 12.5 % of the kernels. It was missed: 9 of 8 kernels.",
        ),
        (_evaluation("union", 0.5), "Budget (β): 50 % of the kernels."),
        (_evaluation("finetune", None), "Method finetune: a whole network per domain, every weight trained."),
        (_evaluation("of somebody", None), "Method of somebody."),
    ],
)
def test_the_summary_ends_with_the_budget(evaluation: Evaluation, expected: str) -> None:
    text = summary(evaluation)
    assert text.startswith("wrn14_2 on 2 domains. Method ")
    assert text.endswith(expected)


def test_what_is_over_its_budget_is_named() -> None:
    content = results("union", 0.25)
    content["domains"]["birds"]["usage"] = 0.3
    assert summary(Evaluation.model_validate(content)).endswith("It was exceeded by birds.")
    over = LIMIT | {"used": 9, "kept": False}
    missed = _evaluation("union", 0.25, budget_kept=False, limits=[LIMIT | {"domain": "birds"}, over])
    assert summary(missed).endswith("It was missed: 9 of 8 kernels.")


def test_the_accuracy_is_compared_with_the_frozen_backbone_where_that_is_known() -> None:
    baseline = results("feature", None, {"birds": 0.5, "flowers": 0.6})
    alone, compared = _evaluation(), _evaluation(baselines={"feature": baseline})
    assert _facts(ReportedRun("a", alone))["mean accuracy"] == ("80.0 %", "on 20 test images of 2 domains")
    expected = "on 20 test images of 2 domains; 55.0 % with the frozen backbone"
    assert _facts(ReportedRun("a", compared))["mean accuracy"][1] == expected
    content = results()
    for domain, accuracy in zip(content["domains"].values(), (0.2, 0.3), strict=True):
        domain["frozen_accuracy"] = accuracy
    known = _facts(ReportedRun("a", Evaluation.model_validate(content)))["mean accuracy"][1]
    assert known.endswith("; 25.0 % with the frozen backbone")
    content["domains"]["birds"]["frozen_accuracy"] = None
    assert "frozen" not in _facts(ReportedRun("a", Evaluation.model_validate(content)))["mean accuracy"][1]


def test_the_latency_is_compared_with_the_fastest_dense_network_on_as_many_threads() -> None:
    speeds = [
        {"engine": engine, "threads": threads, "domain": domain, "images_per_second": 1.0}
        | {"latency": {"median_ms": ms, "p95_ms": ms}}
        for engine, threads, domain, ms in (
            *(("Prunus", 1, "birds", 0.2), ("Prunus", 1, "flowers", 0.4), ("Prunus", 2, "birds", 0.1)),
            *(("ONNX dense", 1, None, 1.5), ("PyTorch dense", 1, None, 3.0), ("ONNX dense", 2, None, 0.9)),
        )
    ]
    content = {"model": "m", "machine": "a machine", "batch": 16, "versions": {}, "speeds": speeds}
    run = ReportedRun("a", _evaluation(), bench=Benchmark.model_validate(content))
    assert _facts(run)["latency"] == ("0.3 ms", "for one image, 1 thread; ONNX dense 1.5 ms")
    assert "latency" not in _facts(ReportedRun("a", _evaluation()))


def test_a_method_without_a_model_file_shows_what_it_has_to_store() -> None:
    assert _facts(ReportedRun("a", _evaluation()))["size"][0] == "0.90 MB"
    assert _facts(ReportedRun("a", _evaluation(model_bytes=None)))["size"][0] == "0.88 MB"
