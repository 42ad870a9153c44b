"""A game of agents with at most one person; agents and person see their observations alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import agents
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.agent import Agent, ask, name_of
from alles_kaese_env.core.records import MAX_PLAYERS
from alles_kaese_env.replay import PUBLIC, Perspective, Replay
from alles_kaese_env.seeding import agent_generator
from alles_kaese_env.variant import whole_number

YOU = "you"


class Table:
    """One recorded game of agents, with at most one person among them.

    Args:
        names: the player of each seat, 2 to 6: "you" for a person, else see `agents.make`.
        seed: of the deal, the dice and the agents; None for one from the operating system.
        variant: the rules, for so many players; None stands for the default ones.

    Attributes:
        seat: of the person, None without one.
        names: as given.

    Raises:
        ValueError: there are too few or too many names, or one is that of no agent.
    """

    def __init__(
        self, names: Sequence[str], seed: int | None = None, variant: Variant | None = None
    ) -> None:
        whole_number("number of players", len(names), 2, MAX_PLAYERS)
        variant = variant or Variant(num_players=len(names))
        if list(names).count(YOU) > 1:
            raise ValueError(f"{YOU!r} is named more than once; allowed: one person at a table")
        self.names = tuple(names)
        self.seat = names.index(YOU) if YOU in names else None
        self._agents: list[Agent | None] = [
            None if name == YOU else agents.make(name, variant) for name in names
        ]
        self._rng = agent_generator(seed, 1)
        self._batch = GameBatch(1, variant, seed=seed, record=True)

    @property
    def variant(self) -> Variant:
        """The rules of the game."""
        return self._batch.variant

    @property
    def mover(self) -> int:
        """The seat to move."""
        return int(self._batch.seats[0])

    @property
    def is_over(self) -> bool:
        """Whether the game has ended."""
        return bool(self._batch.over[0])

    @property
    def is_persons_turn(self) -> bool:
        """Whether the person has to act."""
        return not self.is_over and self.mover == self.seat

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """The legal actions of the seat to move, (18,) bool."""
        return self._batch.masks[0].copy()

    def choose(self, adviser: Agent | None = None) -> int:
        """What the agent on the seat to move would do, or an adviser by what that seat knows.

        The game stays as it is, and goes on as it would without an adviser.
        """
        agent = adviser or self._agents[self.mover]
        assert agent is not None, "a person decides"
        rng = np.random.default_rng(0) if adviser else self._rng
        who = f"agent {name_of(agent)}"
        batch = self._batch
        actions = ask(agent, who, batch.observations.copy(), batch.masks.copy(), rng)
        batch.check(actions, np.arange(1), f" of {who}")
        return int(actions[0])

    def deal(self) -> None:
        """Begin another game with the same players."""
        self._batch.reset()

    def act(self, action: int) -> None:
        """Let the seat to move act.

        Raises:
            ValueError: it is not legal; nothing has changed.
        """
        self._batch.step([action])

    def replay(self, perspective: Perspective = PUBLIC) -> Replay:
        """The game up to now, as a perspective saw it."""
        return self._batch.replay(perspective=perspective, names=self.names)
