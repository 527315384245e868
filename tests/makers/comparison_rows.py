"""A row of a comparison or a sweep."""

from prunus.measure.comparison import ComparisonRow

ROW = ComparisonRow(
    name="union-0.5",
    method="union",
    options={},
    budget=0.5,
    largest_usage=0.4,
    union=0.4,
    macs_ratio=0.4,
    params_ratio=0.5,
    stored_bytes=1000,
    accuracies={"birds": 0.9},
    mean_accuracy=0.9,
    scores=None,
)
