"""How trials are run: on Ray where it is installed, and without it elsewhere."""

import pytest

from prunus.comparison.execution import OneByOne
from prunus.comparison.executors import local_executor, sweep_executor
from prunus.comparison.processes import LocalProcesses
from prunus.errors import MissingExtraError, TrainingError


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize(
    ("jobs", "executor", "how"),
    [
        (None, OneByOne(), "one after the other"),
        (1, OneByOne(), "one after the other"),
        (3, LocalProcesses(3), "3 processes"),
    ],
)
def test_without_ray_trials_run_on_this_machine_and_a_note_says_so(
    jobs: int | None, executor: OneByOne | LocalProcesses, how: str
) -> None:
    notes: list[str] = []
    chosen = sweep_executor(jobs, None, notes.append)
    assert type(chosen) is type(executor)
    assert getattr(chosen, "jobs", None) == getattr(executor, "jobs", None)
    (note,) = notes
    assert note.startswith("Ray is not installed; get it with: pip install 'prunus[sweep]' (in a checkout: ")
    assert "); trials run" in note
    assert note.endswith(how)


@pytest.mark.usefixtures("without_ray")
def test_a_cluster_needs_ray() -> None:
    with pytest.raises(MissingExtraError, match=r"a cluster needs ray, .* pip install 'prunus\[sweep\]'"):
        sweep_executor(2, "auto", print)


def test_a_comparison_needs_no_ray() -> None:
    assert isinstance(local_executor(1), OneByOne)
    assert local_executor(2) == LocalProcesses(2)


def test_an_address_is_checked_before_ray_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    with pytest.raises(TrainingError, match="no Ray cluster at 'nowhere': it is not of the form HOST:PORT"):
        sweep_executor(2, "nowhere", print)
