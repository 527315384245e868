"""The scores of the paper for the runs of the study."""

from __future__ import annotations

import statistics

from benchmarks.study_judging import row
from benchmarks.study_results import Runs
from prunus.measure.score import Scores, decathlon_score, efficiency_scores


def scores(runs: Runs, without: str | None = None) -> dict[tuple[str, int], Scores]:
    """Score the test runs of all domains; the references are means over the seeds, as in `prunus compare`.

    Args:
        without: a domain that does not count; Params are those of the whole model all the same.
    """
    references = {name: row(runs, name) for name in ("finetune", "feature")}
    if not all(references.values()):
        return {}
    domains = [domain for domain in references["finetune"][0].accuracies if domain != without]
    means = {
        name: [statistics.fmean(run.accuracies[domain] for run in found) for domain in domains]
        for name, found in references.items()
    }
    feature = decathlon_score(means["feature"], means["finetune"])
    return {
        key: efficiency_scores(
            decathlon_score([run.accuracies[domain] for domain in domains], means["finetune"]),
            statistics.fmean(run.domain_macs_ratio[domain] for domain in domains),
            run.params_ratio,
            feature,
        )
        for key, run in runs.items()
        if run.split == "test" and set(domains) == set(run.accuracies) - {without}
    }
