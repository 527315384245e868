"""Show a plan in a terminal."""

from rich.console import Group

from prunus.amounts import plural, write_bytes
from prunus.measure.budget import Plan, in_words
from prunus.names import marked
from prunus.report.tables import percent
from prunus.terminal import PlainTable, plain_text


def plan_view(plan: Plan) -> Group:
    """Show the size of a planned model, the parts of its file, the domains, the limits and notes."""
    title = f"{plan.backbone}: {plural(len(plan.domains), 'domain')}, method {plan.method}, {plan.dtype}"
    length = f"{plural(plan.epochs, 'epoch')}, {plural(plan.steps, 'step')}"
    tables = [_sizes(plan), *([_parts(plan)] if plan.bytes_by_part else []), _domains(plan)]
    return Group(plain_text(f"{title}; {length}", style="bold"), *tables, plain_text(*_limits(plan), *plan.notes))


def _sizes(plan: Plan) -> PlainTable:
    table = _table("", "planned", "dense network", "share")
    for name, planned, dense in (
        ("kernels", plan.kernels, plan.dense_kernels),
        ("weights", plan.weights, plan.dense_weights),
    ):
        table.add_row(name, f"{planned:,}", f"{dense:,}", percent(planned / dense))
    size = plan.model_bytes
    share = percent(None if size is None else size / plan.dense_bytes)
    table.add_row("file", "unknown" if size is None else write_bytes(size), write_bytes(plan.dense_bytes), share)
    return table


def _parts(plan: Plan) -> PlainTable:
    table = _table("part of the file", "bytes", "share")
    total = sum(plan.bytes_by_part.values())
    for part, count in plan.bytes_by_part.items():
        table.add_row(part, f"{count:,}", percent(count / total))
    table.add_section()
    table.add_row("all", f"{total:,}", "")
    return table


def _domains(plan: Plan) -> PlainTable:
    table = _table("domain", "classes", "training images", "MACs per image, at most", "of dense")
    for name, domain in plan.domains.items():
        counts = (f"{count:,}" for count in (domain.classes, domain.images, domain.macs))
        table.add_row(marked(name, plan.source), *counts, percent(domain.macs_ratio))
    return table


def _limits(plan: Plan) -> list[str]:
    """Name every limit; of several domains, the one that uses most of its own."""
    if not plan.limits:
        return []
    binding = [limit for limit in plan.limits if limit.name == plan.binding]
    others = [limit for limit in plan.limits if limit.name != plan.binding]
    if not binding:
        return [f"no limit removes anything, the whole network is within them: {in_words(others)}"]
    return [
        f"the limit that decides: {in_words(binding)}",
        *([f"other limits: {in_words(others)}"] if others else []),
    ]


def _table(*columns: str) -> PlainTable:
    table = PlainTable(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    table.name_columns(0)
    return table
