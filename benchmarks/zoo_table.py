"""Take networks of timm all the way: a training step, pruning, a model file, both engines and ONNX against torch.

    python -m benchmarks.zoo_table [NAME...] [--json FILE] [--page FILE] [--seconds 300] [--jobs 1] [--again]

Every network has random weights and small images, and is trained for one step with the method `exact` and a budget of
25 % of the kernels on two domains of noise. The logits of the model file and of the ONNX model must be those of the
trained network in torch, to within 1e-4 of the largest; and scrambling any one layer must move the logits by more than
that, or their equality would say nothing about it. Each network has a process of its own and a limit of processor time.
Rows that are already in FILE are not computed again, unless `--again` is given. The page gets the table between its two
markers. The command fails if fewer than 22 networks reach an equal file.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.zoo_networks import NETWORKS
from benchmarks.zoo_row import GOES_ON, Row, compute_row
from prunus.timing.machine import describe_machine

# step of a row -> its title
STEPS = {
    "trains": "trains a step",
    "prunes": "keeps its budget",
    "file": "file",
    "live": "every layer counts",
    "numpy": "numpy = torch",
    "native": "native = torch",
    "onnx": "ONNX = torch",
}
EQUAL = ("file", "live", "numpy", "native", "onnx")  # what a file whose logits are torch's has reached
ENOUGH = 22
BEGIN, END = "<!-- zoo table: begin -->", "<!-- zoo table: end -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--json", type=Path, default=Path("docs/results/zoo.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/zoo.md"))
    parser.add_argument("--seconds", type=int, default=300, help="processor time of one network")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    parser.add_argument("--again", action="store_true", help="compute rows that are already there")
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)  # of the process of one network: its result
    arguments = parser.parse_args()
    if arguments.row:
        compute_row(arguments.names[0], arguments.row, arguments.seconds)
        return
    saved = json.loads(arguments.json.read_text())["networks"] if arguments.json.exists() else []
    rows: dict[str, Row] = {row["network"]: row for row in saved}
    missing = [name for name in arguments.names if name not in rows or arguments.again]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(row_of, name, arguments.seconds) for name in missing]
        for done in as_completed(waiting):
            row = done.result()
            rows[row["network"]] = row
            print(f"{row['network']}: {in_words(row)} ({row['seconds']} s)", flush=True)
            ordered = [rows[known] for known in NETWORKS if known in rows]
            content = {"command": "python -m benchmarks.zoo_table", "machine": describe_machine(), "networks": ordered}
            arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    ordered = [rows[known] for known in NETWORKS if known in rows]
    if arguments.page.exists():
        text = arguments.page.read_text()
        before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        arguments.page.write_text(f"{before}\n\n{markdown(ordered)}\n\n{after}")
    equal = sum(is_equal(row) for row in ordered)
    print(f"{equal} of {len(ordered)} networks become a file whose logits are torch's")
    if equal < ENOUGH:
        raise SystemExit(f"missed: {ENOUGH} networks should")


def row_of(name: str, seconds: int) -> Row:
    """Compute the row of a network in a process of its own."""
    family, size = NETWORKS[name]
    row: Row = {"network": name, "family": family, "size": size}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "row.json"
        command = [sys.executable, "-m", "benchmarks.zoo_table", name, "--row", str(result)]
        command += ["--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
        reason = f"over {seconds} s" if done.returncode == -signal.SIGXCPU else "crash"
        row |= json.loads(result.read_text()) if result.exists() else {}
    for step in STEPS:  # the first that is missing is the one that did not end
        if step not in row:
            row[step] = {"yes": False, "reason": reason}
        if not row[step]["yes"] and step not in GOES_ON:
            break
    return row | {"seconds": round(time.monotonic() - began, 1)}


def is_equal(row: Row) -> bool:
    """Return whether a network became a file whose logits are torch's, in both engines and in ONNX Runtime."""
    return all(row.get(step, {}).get("yes", False) for step in EQUAL)


def in_words(row: Row) -> str:
    """Return what a network has reached, in one line."""
    return ", ".join(f"{step} {_cell(row.get(step))}" for step in STEPS)


def _cell(step: Row | None) -> str:
    if step is None:
        return "-"
    return "yes" if step["yes"] else f"no: {step['reason']}"


def markdown(rows: list[Row]) -> str:
    """Return the table of a page."""
    head = ("network", "family", "px", "weights", *STEPS.values())
    lines = [f"| {' | '.join(head)} |", "|---|---|--:|--:|" + "---|" * len(STEPS)]
    for row in rows:
        weights = f"{row['trains']['weights'] / 1e6:.1f} M" if row["trains"]["yes"] else "-"
        cells = [_cell(row.get(step)) for step in STEPS]
        lines.append(f"| `{row['network']}` | {row['family']} | {row['size']} | {weights} | {' | '.join(cells)} |")
    equal = sum(is_equal(row) for row in rows)
    return "\n".join([*lines, "", f"{equal} of {len(rows)} networks become a file whose logits are torch's."])


if __name__ == "__main__":
    main()
