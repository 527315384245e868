"""Show a measured model in a terminal."""

from collections.abc import Mapping

from rich.console import Group

from prunus.amounts import plural
from prunus.catalog import find_described
from prunus.measure.budget import in_words, limits_in_words
from prunus.measure.evaluation import Evaluation
from prunus.names import marked
from prunus.report.comparison import SCORES
from prunus.terminal import PlainTable, plain_text
from prunus.uncertainty import Interval

REACH = "train longer or raise training.dual_rate"  # a budget that is a penalty

USUAL = {"granularity": "kernel"}  # option -> what "auto" means for networks of convolutions


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share in percent; a dash if it is unknown."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def accuracy_text(accuracy: float, interval: Interval | None) -> str:
    """Write an accuracy with the larger distance to the ends of its 95 % interval, if that is known."""
    if interval is None:
        return percent(accuracy)
    return f"{100 * accuracy:.1f} ± {100 * max(accuracy - interval[0], interval[1] - accuracy):.1f} %"


def file_size(count: int) -> str:
    """Write a number of bytes in megabytes of 10^6 bytes, or in kilobytes if there are few."""
    return f"{count / 1e6:.2f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def results_view(
    results: Evaluation, baseline: Evaluation | None = None, explain: bool = False, run: str = "RUN"
) -> Group:
    """Show the accuracy and cost of every domain, and below them the size and the budget in one line.

    Args:
        baseline: a run of the method "feature" (default: what was fitted to the frozen features of the run).
        explain: also say what each number counts, with those that the table leaves out.
        run: the folder to continue, if the run is not finished.
    """
    title = plain_text(_title(results), style="bold")
    notes = [plain_text(note) for note in _notes(results, run)]
    explanations = [plain_text(line) for line in _explanations(results, _frozen(results, baseline))] if explain else []
    summary = plain_text(f"{_size(results)}{_budget(results)}")
    advice = [plain_text(line) for line in _advice(results, baseline)]
    return Group(title, *notes, _table(results, baseline), *explanations, *advice, summary)


def _frozen(results: Evaluation, baseline: Evaluation | None) -> dict[str, float]:
    return baseline.accuracies if baseline else results.frozen_accuracies


def _table(results: Evaluation, baseline: Evaluation | None) -> PlainTable:
    frozen = _frozen(results, baseline)
    usages = [domain.usage for domain in results.domains.values()]
    table = PlainTable("domain", "accuracy", "images", "frozen features", "kernels used", "computation")
    for name, domain in results.domains.items():
        accuracy = accuracy_text(domain.accuracy, domain.accuracy_interval)
        shares = (frozen.get(name), domain.usage, domain.macs_ratio)
        table.add_row(marked(name, results.source), accuracy, str(domain.images), *map(percent, shares))
    table.add_section()
    mean_frozen = sum(frozen.values()) / len(frozen) if len(frozen) == len(usages) else None
    mean = accuracy_text(results.mean_accuracy, results.mean_accuracy_interval)
    shares = (mean_frozen, sum(usages) / len(usages), results.macs_ratio)
    table.add_row("mean", mean, str(sum(results.images.values())), *map(percent, shares), style="bold")
    table.add_row("any domain", "-", "-", "-", percent(results.union), "-")
    for column in table.columns[1:]:
        column.justify = "right"
    table.columns[3].style = "dim"
    if not frozen:
        del table.columns[3]
    if not results.accuracy_intervals:  # in files of earlier versions
        del table.columns[2]
    table.name_columns(0)
    return table


def _title(results: Evaluation) -> str:
    described = find_described(results.method)
    defaults = {key: option.default for key, option in described.options.items()} if described else {}
    settings = [
        f"{key} {value}"
        for key, value in results.options.items()
        if value != defaults.get(key) and value != USUAL.get(key)
    ]
    if results.sharing and results.sharing != results.method:
        settings.append(f"{results.sharing} loss")
    method = f"method {results.method}" + (f" ({', '.join(settings)})" if settings else "")
    limits = limits_in_words(limit for limit in results.limits if limit.name != "kernels")
    shares = [f"{100 * results.budget:.4g} % of the kernels"] if results.budget else []
    amounts = ", ".join([*shares, *([limits] if limits else [])])
    budget = f", budget {amounts}" if amounts else ""
    measured = len(results.domains)
    skipped = f"{measured} of " if results.unmeasured else ""
    domains = f"{skipped}{plural(measured + len(results.unmeasured), 'domain')}"
    return f"{results.backbone}: {domains}, {method}{budget} ({results.split} split)"


def _notes(results: Evaluation, run: str) -> list[str]:
    """Return what a reader must know before the numbers."""
    lines = [f"skipped: {reason}" for reason in results.unmeasured.values()]
    if _is_unfinished(results):
        done, total = results.steps
        lines.append(f"unfinished: step {done} of {total}; continue with: prunus train --resume {run}")
    if results.scores:
        scores = {title: getattr(results.scores, key) for title, key in SCORES.items()}
        lines.append(", ".join(f"{title} {score:.4g}" for title, score in scores.items() if score is not None))
    return lines


def _advice(results: Evaluation, baseline: Evaluation | None) -> list[str]:
    """Return what to do where training has not paid off; the note above says how to continue an unfinished run."""
    frozen = _frozen(results, baseline)
    worse = [name for name, accuracy in results.accuracies.items() if accuracy < frozen.get(name, 0)]
    if not worse or _is_unfinished(results):
        return []
    where = "every domain" if len(worse) == len(results.domains) > 1 else ", ".join(worse)
    remedy = "train for more epochs" + (", or set a larger budget" if _can_grow(results) else "")
    return [f"frozen features are more accurate in {where}: {remedy}"]


def _can_grow(results: Evaluation) -> bool:
    """Return whether there is a budget that can be raised; a share of 1 is all there is."""
    is_whole = results.budget in (None, 1)
    return not is_whole or any(limit.name != "kernels" for limit in results.limits)


def _is_unfinished(results: Evaluation) -> bool:
    done, total = results.steps
    return done < total


def _size(results: Evaluation) -> str:
    size, place = (
        (results.stored_bytes, "to store") if results.model_bytes is None else (results.model_bytes, "on disk")
    )
    return f"{file_size(size)} {place}, dense backbone {file_size(results.dense_bytes)}"


def _budget(results: Evaluation) -> str:
    if results.budget_kept:
        return f"; budget kept: {in_words(results.limits)}"
    if results.over_budget and is_penalty(results):
        return f"; over budget: {', '.join(results.over_budget)}; {REACH}"
    if results.budget_kept is False:
        state = "not reached yet" if _is_unfinished(results) else "missed"
        return f"; budget {state}: {in_words(limit for limit in results.limits if not limit.kept)}"
    return ""


def is_penalty(results: Evaluation) -> bool:
    """Return whether a run's method has a penalty instead of limits, so that a run may end over its budget."""
    described = find_described(results.method)
    return not (results.limits and described and described.keeps_budget)


def _explanations(results: Evaluation, frozen: Mapping[str, float]) -> list[str]:
    return [
        "accuracy: share of the images whose most probable class is the right one; ± is the larger side of the 95 % "
        "interval (Wilson), which says how far this many images can be off",
        *(["frozen features: accuracy of a linear classifier on the unchanged backbone"] if frozen else []),
        "kernels used: share of the backbone's kernels, which in linear layers are single weights; "
        "any domain: kernels that at least one domain uses",
        f"computation: share of the backbone's {results.dense_macs / 1e6:.1f} M MACs per image; "
        + _with_source(results, results.macs_ratio_with_source, "mean"),
        f"parameters: {percent(results.params_ratio)} of the backbone's weights in convolutions and linear layers "
        "(weights that any domain uses, plus 1 bit per switch and domain); "
        + _with_source(results, results.params_ratio_with_source, "share"),
        f"sparsity (kernels that no domain uses, mean over layers): {percent(results.sparsity)}; "
        f"kernels that all domains use: {percent(results.intersection)}",
        "size: with all norms and classifiers; that of the dense backbone is without a classifier",
    ]


def _with_source(results: Evaluation, ratio: float | None, what: str) -> str:
    if results.source:
        return f"the source is one of the domains ({results.source})"
    return f"{what} including an unpruned source domain: {percent(ratio)}"
