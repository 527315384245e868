"""Find the processes of this start, and not those of an earlier one.

torchrun keeps its store when it restarts processes, with everything that the processes before have written there. Names
that depend on the number of restarts would not help: on several machines, each counts only its own.
"""

import json
import time
from uuid import uuid4

from torch.distributed.distributed_c10d import Store

PAUSE = 0.05  # seconds


def meet(store: Store, rank: int, world: int, seconds: float) -> str:
    """Return a new name on which all processes agree, under which they can leave messages for each other."""
    token = uuid4().hex
    store.set(f"here/{rank}", token)
    leader = _Leader(store, world)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        name = leader.look() if rank == 0 else _follow(store, rank, token)
        if name is not None:
            return name
        time.sleep(PAUSE)
    missing = [other for other in range(world) if not store.check([f"here/{other}"])]
    raise TimeoutError(f"processes {missing} did not come" if missing else "some processes did not answer")


class _Leader:
    """The first process, which proposes a name together with the processes that it sees.

    A process that sees itself in a proposal agrees. If a process of an earlier start was seen, the proposal is replaced
    as soon as its successor has come. All agree before the name is used.
    """

    def __init__(self, store: Store, world: int) -> None:
        self._store = store
        self._keys = [f"here/{rank}" for rank in range(world)]
        self._name = ""
        self._seen: list[str] = []

    def look(self) -> str | None:
        if not self._store.check(self._keys):
            return None
        seen = [self._store.get(key).decode() for key in self._keys]
        if seen != self._seen:
            self._seen = seen
            self._name = uuid4().hex
            self._store.set("proposal", json.dumps([self._name, seen]))
        agreed = [f"agreed/{self._name}/{rank}" for rank in range(1, len(seen))]
        if not self._store.check(agreed):
            return None
        self._store.set(f"begun/{self._name}", "")
        return self._name


def _follow(store: Store, rank: int, token: str) -> str | None:
    if not store.check(["proposal"]):
        return None
    name, seen = json.loads(store.get("proposal"))
    if seen[rank : rank + 1] != [token]:
        return None
    store.set(f"agreed/{name}/{rank}", "")
    return str(name) if store.check([f"begun/{name}"]) else None
