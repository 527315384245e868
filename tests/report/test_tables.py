"""Tables for the terminal: numbers as text, and what a measured model shows."""

import io

import pytest
from rich.console import Console, Group

from prunus.amounts import plural
from prunus.measure.evaluation import Evaluation
from prunus.report.tables import file_size, percent, results_view
from tests.makers.run_folders import results


def _text(view: Group) -> str:
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(view)
    return console.export_text()


def _evaluation(*arguments: object, **more: object) -> Evaluation:
    return Evaluation.model_validate(results(*arguments, **more))  # type: ignore[arg-type]


def _row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (percent(0.1234), "12.3 %"),
        (percent(0.5, 0), "50 %"),
        (percent(None), "-"),
        (file_size(2_345_678), "2.35 MB"),
        (file_size(100_000), "0.10 MB"),
        (file_size(1_234), "1.2 kB"),
        (plural(1, "run"), "1 run"),
        (plural(0, "run"), "0 runs"),
    ],
)
def test_numbers_are_written_with_their_unit(written: str, expected: str) -> None:
    assert written == expected


def test_a_row_per_domain_their_mean_and_the_union_are_shown() -> None:
    text = _text(results_view(_evaluation()))
    assert text.startswith("wrn14_2: 2 domains, method union, budget 50 % of the kernels (test split)")
    assert _row(text, "birds") == ["birds", "90.0 %", "40.0 %", "40.0 %"]
    assert _row(text, "mean") == ["mean", "80.0 %", "40.0 %", "40.0 %"]
    assert _row(text, "any domain") == ["any domain", "-", "40.0 %", "-"]
    assert "0.90 MB" in text
    assert "over budget" not in text
    assert "unfinished" not in text


def test_a_kept_budget_is_shown_in_its_unit_and_a_missed_one_by_how_much() -> None:
    limit = {"name": "kernels", "domain": None, "used": 18_828, "limit": 18_828, "kept": True}
    kept = _evaluation("exact", 0.25, budget_kept=True, limits=[limit])
    assert "budget kept: 18,828 of 18,828 kernels" in _text(results_view(kept))
    missed = _evaluation("exact", None, budget_kept=False, limits=[limit, limit | {"used": 18_829, "kept": False}])
    assert "budget missed: 18,829 of 18,828 kernels" in _text(results_view(missed))


def test_the_title_names_every_limit() -> None:
    limits = [
        {"name": "kernels", "domain": None, "used": 18_828, "limit": 18_828, "kept": True},
        {"name": "bytes", "domain": None, "used": 390_000, "limit": 400_000, "kept": True},
        {"name": "macs", "domain": "birds", "used": 1_000_000, "limit": 2_000_000, "kept": True},
        {"name": "macs", "domain": "flowers", "used": 3_000_000, "limit": 4_000_000, "kept": True},
    ]
    text = _text(results_view(_evaluation("exact", 0.25, budget_kept=True, limits=limits)))
    title = "method exact, budget 25 % of the kernels, 400 kB, 2 M MACs for birds, 4 M MACs for flowers (test split)"
    assert title in text
    assert "1 M of 2 M MACs for domain 'birds', 3 M of 4 M MACs for domain 'flowers'" in " ".join(text.split())


def test_all_domains_together_are_named_if_they_exceed_the_budget_of_the_union_loss() -> None:
    within = {"name": "kernels", "domain": "birds", "used": 10, "limit": 10, "kept": True}
    over = {"name": "kernels", "domain": None, "used": 11, "limit": 10, "kept": False}
    text = _text(results_view(_evaluation("union", 0.25, budget_kept=False, limits=[within, over])))
    assert "over budget: all domains together; train longer or raise training.dual_rate" in text
    assert "budget kept" not in text


def test_a_larger_budget_is_advised_only_where_there_is_one() -> None:
    def advice(method: str, budget: float | None) -> str:
        content = results(method, budget, {"birds": 0.3, "flowers": 0.2})
        for domain in content["domains"].values():
            domain["frozen_accuracy"] = 0.5
        return _text(results_view(Evaluation.model_validate(content)))

    assert "train for more epochs, or set a larger budget" in advice("exact", 0.5)
    assert all("larger budget" not in advice(*case) for case in (("exact", 1.0), ("bn", None)))


def test_an_unfinished_run_says_how_to_continue_it_instead_of_what_to_change() -> None:
    limit = {"name": "kernels", "domain": None, "used": 35_114, "limit": 18_828, "kept": False}
    content = results("exact", 0.25, {"birds": 0.3, "flowers": 0.2}, steps=[3, 8], budget_kept=False, limits=[limit])
    for domain in content["domains"].values():
        domain |= {"usage": 0.4, "frozen_accuracy": 0.5}
    text = _text(results_view(Evaluation.model_validate(content), run="'my runs/a'"))
    assert "unfinished: step 3 of 8; continue with: prunus train --resume 'my runs/a'" in text
    assert "budget not reached yet: 35,114 of 18,828 kernels" in text
    assert "dual_rate" not in text  # of other methods
    assert "more accurate" not in text


@pytest.mark.parametrize(
    ("frozen", "where"), [((0.95, 0.71), "every domain"), ((0.5, 0.71), "flowers"), ((0.5, 0.7), None)]
)
def test_where_training_has_not_paid_off_is_said_with_a_remedy(frozen: tuple[float, float], where: str | None) -> None:
    content = results()
    for domain, accuracy in zip(content["domains"].values(), frozen, strict=True):
        domain["frozen_accuracy"] = accuracy
    text = _text(results_view(Evaluation.model_validate(content)))
    assert (f"frozen features are more accurate in {where}: train for more epochs" in text) == (where is not None)
    assert ("more accurate" in text) == (where is not None)


def test_a_baseline_is_a_column_of_its_own() -> None:
    baseline = _evaluation("feature", None, {"birds": 0.6, "flowers": 0.5})
    text = _text(results_view(_evaluation(), baseline))
    assert "frozen features" in text
    assert _row(text, "flowers") == ["flowers", "70.0 %", "50.0 %", "40.0 %", "40.0 %"]
    assert _row(text, "mean")[2] == "55.0 %"


def test_frozen_features_of_the_run_are_shown_where_there_is_no_baseline() -> None:
    content = results()
    for domain, accuracy in zip(content["domains"].values(), (0.6, 0.5), strict=True):
        domain["frozen_accuracy"] = accuracy
    evaluation = Evaluation.model_validate(content)
    text = _text(results_view(evaluation))
    assert _row(text, "birds")[:3] == ["birds", "90.0 %", "60.0 %"]
    assert _row(text, "mean")[2] == "55.0 %"
    baseline = _evaluation("feature", None, {"birds": 0.3, "flowers": 0.2})
    assert _row(_text(results_view(evaluation, baseline)), "birds")[2] == "30.0 %"
    content["domains"]["flowers"]["frozen_accuracy"] = None
    assert _row(_text(results_view(Evaluation.model_validate(content))), "mean")[2] == "-"


def test_what_went_wrong_is_said_with_a_remedy() -> None:
    content = results(steps=[3, 8], scores={"s": 1234.5, "s_o": 2.0, "s_p": None, "s_e": None})
    content["domains"]["birds"]["usage"] = 0.51
    text = _text(results_view(Evaluation.model_validate(content)))
    assert "over budget: birds; train longer" in text
    assert "unfinished: step 3 of 8" in text
    assert "prunus train --resume RUN" in text
    assert "S 1234, S_O 2\n" in text


def test_below_the_table_is_one_line_unless_an_explanation_is_asked_for() -> None:
    limit = {"name": "kernels", "domain": None, "used": 18_828, "limit": 18_828, "kept": True}
    evaluation = _evaluation("exact", 0.25, budget_kept=True, limits=[limit])
    line = "0.90 MB on disk, dense backbone 2.70 MB; budget kept: 18,828 of 18,828 kernels"
    assert len(line) < 80
    assert _text(results_view(evaluation)).splitlines()[-1] == line
    assert _text(results_view(evaluation)).splitlines()[-2].startswith("└")
    explained = _text(results_view(evaluation, explain=True))
    assert explained.splitlines()[-1] == line
    for word in ("accuracy:", "kernels used:", "computation:", "parameters: 50.0 %", "sparsity (", "1 bit per switch"):
        assert word in explained


def test_only_options_other_than_the_defaults_are_named() -> None:
    changed = _evaluation("exact", 0.25, options={"granularity": "filter", "weights": "trained", "until": 0.5})
    assert "method exact (granularity filter), budget" in _text(results_view(changed)).splitlines()[0]
    default = _evaluation("exact", 0.25, options={"granularity": "kernel", "weights": "trained", "until": 0.5})
    assert "method exact, budget" in _text(results_view(default)).splitlines()[0]


def test_a_skipped_domain_is_named_above_the_table() -> None:
    text = _text(results_view(_evaluation(unmeasured={"signs": "domain 'signs' has no test images"})))
    assert text.startswith("wrn14_2: 2 of 3 domains, ")
    assert text.splitlines()[1] == "skipped: domain 'signs' has no test images"


def test_small_files_are_not_rounded_to_hundredths_of_a_megabyte() -> None:
    text = _text(results_view(_evaluation(model_bytes=7_552, dense_bytes=99_000)))
    assert "7.6 kB on disk, dense backbone 99.0 kB" in text


def test_without_a_model_file_the_counted_bytes_are_shown() -> None:
    assert "0.88 MB" in _text(results_view(_evaluation(model_bytes=None)))


def test_the_source_is_marked_and_counted_once() -> None:
    ratios = {"params_ratio_with_source": 1.5, "macs_ratio_with_source": 0.7}
    text = _text(results_view(_evaluation(source="birds", **ratios), explain=True))
    assert _row(text, "birds (source)")[1] == "90.0 %"
    assert "the source is one of the domains (birds)" in text
    assert "unpruned source" not in text
    apart = " ".join(_text(results_view(_evaluation(**ratios), explain=True)).split())
    assert "(source)" not in apart
    assert "share including an unpruned source domain: 150.0 %" in apart
    assert "mean including an unpruned source domain: 70.0 %" in apart


def test_accuracies_are_shown_with_their_interval_and_the_number_of_images() -> None:
    content = results(mean_accuracy_interval=(0.77, 0.84))
    for domain in content["domains"].values():
        domain |= {"images": 200, "accuracy_interval": (domain["accuracy"] - 0.05, domain["accuracy"] + 0.03)}
    text = _text(results_view(Evaluation.model_validate(content), explain=True))
    assert _row(text, "birds") == ["birds", "90.0 ± 5.0 %", "200", "40.0 %", "40.0 %"]
    assert _row(text, "mean") == ["mean", "80.0 ± 4.0 %", "400", "40.0 %", "40.0 %"]
    assert "95 % interval (Wilson)" in " ".join(text.split())
