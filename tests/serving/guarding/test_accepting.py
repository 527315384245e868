"""Connections are accepted while there is room, and wait otherwise."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from prunus.serving.guarding.accepting import BURST, Acceptor


class Listed(asyncio.Protocol):
    """A connection that puts itself on a list."""

    def __init__(self, accepted: Accepted) -> None:
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted.append(transport)


class Accepted(list[asyncio.BaseTransport]):
    """The transports of all accepted connections."""

    def make(self) -> asyncio.Protocol:
        return Listed(self)


async def _soon(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition was not met")


@dataclass(frozen=True)
class Scene:
    """A listener, its accepted connections and clients."""

    listener: socket.socket
    accepted: Accepted
    clients: ExitStack

    def connect(self, count: int) -> None:
        for _ in range(count):
            self.clients.enter_context(socket.create_connection(self.listener.getsockname()))

    async def end(self, acceptor: Acceptor) -> None:
        acceptor.close()
        await acceptor.wait_closed()
        for transport in self.accepted:
            transport.close()
        await asyncio.sleep(0.1)  # the event loop closes them a turn later


def _run(test: Callable[[Scene], Coroutine[None, None, None]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as clients:
        asyncio.run(test(Scene(listener, Accepted(), clients)))


def test_all_are_accepted_while_there_is_room() -> None:
    async def test(scene: Scene) -> None:
        acceptor = Acceptor(scene.listener, scene.accepted.make, lambda starting: True)
        scene.connect(3 * BURST)
        await _soon(lambda: len(scene.accepted) >= 3 * BURST)
        await scene.end(acceptor)
        assert len(scene.accepted) == 3 * BURST

    _run(test)


def test_who_does_not_fit_waits_and_is_accepted_later() -> None:
    async def test(scene: Scene) -> None:
        room = 3
        acceptor = Acceptor(scene.listener, scene.accepted.make, lambda starting: len(scene.accepted) + starting < room)
        scene.connect(5)
        await _soon(lambda: len(scene.accepted) == 3)
        await asyncio.sleep(0.1)
        assert len(scene.accepted) == 3
        room = 10
        await _soon(lambda: len(scene.accepted) == 5)
        await scene.end(acceptor)

    _run(test)


@pytest.mark.parametrize("room", [True, False])  # while listening, and during a pause
def test_nobody_is_accepted_after_the_end(room: bool) -> None:
    async def test(scene: Scene) -> None:
        acceptor = Acceptor(scene.listener, scene.accepted.make, lambda starting: room)
        await asyncio.sleep(0.03)
        await scene.end(acceptor)
        scene.connect(1)
        await asyncio.sleep(0.1)
        assert len(scene.accepted) == 0

    _run(test)


def test_no_more_than_a_burst_is_accepted_in_one_turn() -> None:
    async def test(scene: Scene) -> None:
        asked: list[int] = []

        def has_room(starting: int) -> bool:
            asked.append(starting)
            return True

        scene.connect(3 * BURST)
        acceptor = Acceptor(scene.listener, scene.accepted.make, has_room)
        await _soon(lambda: len(scene.accepted) == 3 * BURST)
        assert asked[:BURST] == list(range(BURST))
        await scene.end(acceptor)

    _run(test)
