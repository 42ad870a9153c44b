"""The OpenSpiel API: importing this module registers the game ``python_alles_kaese``.

Needs the extra ``openspiel``.

Example:
    >>> import pyspiel
    >>> import alles_kaese_env.envs.open_spiel
    >>> game = pyspiel.load_game("python_alles_kaese(players=2)")
    >>> small = "python_alles_kaese(traps=1 1,copies=3 3,row_size=2,trap_limit=1)"
    >>> pyspiel.load_game(small).max_game_length()
    4

Parameters are the fields of `alles_kaese_env.Variant`; ``players`` stands for ``num_players``, as
everywhere in OpenSpiel, and ``traps`` and ``copies`` are numbers with spaces between them.

The phases of the rules are the nodes of OpenSpiel: CARD, DIE and FRONT are chance nodes, whose
outcomes have the numbers and the weights of the rules. What a seat saw is a sequence of events:
each outcome and action except the fronts, and beside it the front that this seat came to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from alles_kaese_env.actions import KINDS, decode_action, describe_action, encode_action
from alles_kaese_env.core import loops
from alles_kaese_env.core import rules as core
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import (
    CARD,
    DECISION,
    DIE,
    FRONT,
    GAME,
    MAX_HOLES,
    MAX_PLAYERS,
    NUM_ACTIONS,
    NUM_FACES,
    OVER,
    PEEK,
    UNSEEN,
)
from alles_kaese_env.envs.common import missing_extra
from alles_kaese_env.observation import OBSERVATION, whole
from alles_kaese_env.variant import Variant, whole_number

try:
    import pyspiel
except ImportError as error:
    raise missing_extra(__name__, "OpenSpiel", "openspiel") from error

SHORT_NAME = "python_alles_kaese"
NEGLIGIBLE = 2.0**-64  # probability that a game without a bound (E3) is longer than its max length
FRONTS = ("cheese", "trap")
CHANCE = {CARD: "card", DIE: "die"}
LAST_COUNTS = np.array([DECISION + 1, NUM_ACTIONS, NUM_FACES], np.float32)  # in a row of `seen`
CHANCE_PLAYER, TERMINAL = int(pyspiel.PlayerId.CHANCE), int(pyspiel.PlayerId.TERMINAL)
DERIVED = ("trap_share", "trap_probability")  # facts that follow from the others


def parameters_of(variant: Variant) -> dict[str, Any]:
    """All game parameters of a variant."""
    fields = asdict(variant)
    for name in ("traps", "copies"):
        fields[name] = " ".join(map(str, fields[name]))
    return {"players": fields.pop("num_players"), **fields}


def variant_of(parameters: Mapping[str, Any]) -> Variant:
    """The variant of some game parameters; `ValueError` if one is not allowed."""
    fields = {**GAME_TYPE.parameter_specification, **parameters}
    for name in ("traps", "copies"):
        words = fields[name].split()
        if not all(word.isdecimal() for word in words):
            raise ValueError(
                f"{name} is {fields[name]!r}; allowed: whole numbers with spaces between them"
            )
        fields[name] = tuple(map(int, words))
    fields["copies"] = fields["copies"] or None
    return Variant(num_players=fields.pop("players"), **fields)


GAME_TYPE = pyspiel.GameType(
    short_name=SHORT_NAME,
    long_name="Alles Käse!",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=MAX_PLAYERS,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=True,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={**parameters_of(Variant()), "copies": ""},  # "": the default
)


def most_turns(variant: Variant) -> int:
    """The turns of the longest game (E3).

    Where a peek burns no card there is no bound: then it is the number of turns that a game
    exceeds with a probability of less than 2^-64, whatever the seats do.
    """
    rules = variant.rules[0]
    game = np.zeros(1, GAME)[0]
    game.action = encode_action(PEEK, 0)
    uses_card = 1.0 if core.burns(game, rules) else 1 / rules.num_holes
    used = np.zeros(rules.num_cards - rules.row_size)  # the probability of each number of cards
    used[0] = 1
    turns = 0
    while used.sum() > NEGLIGIBLE:
        more = used * uses_card
        used -= more
        used[1:] += more[:-1]
        turns += 1
    return turns


class AllesKaeseGame(pyspiel.Game):
    """A variant as an OpenSpiel game.

    Parameters that are missing are those of the default variant; `ValueError` for a wrong one.
    """

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        self.variant = variant_of(params or {})
        self.rules = self.variant.rules
        self.max_turns = most_turns(self.variant)
        self.max_events = self.max_turns + self.max_chance_nodes_in_history()
        info = pyspiel.GameInfo(
            num_distinct_actions=NUM_ACTIONS,
            max_chance_outcomes=self.variant.num_holes,
            num_players=self.variant.num_players,
            min_utility=float(core.lost_payoff(self.rules[0])),
            max_utility=1.0,  # P5
            utility_sum=0.0,
            max_game_length=self.max_turns,
        )
        super().__init__(GAME_TYPE, info, parameters_of(self.variant))
        self.history_observer = HistoryObserver(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled game is made anew: OpenSpiel's own way skips the constructor."""
        return type(self), (parameters_of(self.variant),)

    def new_initial_state(self) -> AllesKaeseState:
        """A game before its first card is dealt."""
        return AllesKaeseState(self)

    def max_chance_nodes_in_history(self) -> int:
        """A back and a front for every card, and a roll for every turn."""
        return 2 * len(self.variant.deck) + self.max_turns

    def make_py_observer(
        self, iig_obs_type: Any = None, params: Mapping[str, Any] | None = None
    ) -> Observer | None:
        """The observer of what a seat knows, or of all that it saw; None for other kinds."""
        if params:
            raise ValueError(f"observer has parameters {dict(params)}; allowed: none")
        kind = iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False)
        if not kind.public_info or kind.private_info != pyspiel.PrivateInfoType.SINGLE_PLAYER:
            return None
        return HistoryObserver(self) if kind.perfect_recall else Observer(self)


class AllesKaeseState(pyspiel.State):
    """A game at one of its phases.

    It holds only plain data, which OpenSpiel copies and pickles.

    Attributes:
        games: the record of the game, (1,) `GAME`; do not write into it.
        seen: what each seat saw of each event, as `loops.play_event` writes it, (P, events, 3)
            uint8; zeros for events to come.
    """

    def __init__(self, game: AllesKaeseGame) -> None:
        super().__init__(game)
        self.games = np.zeros(1, GAME)
        self.seen = np.zeros((game.num_players(), game.max_events, 3), np.uint8)
        self._weights = np.zeros(NUM_ACTIONS, np.uint8)  # of what may happen next
        self._player = CHANCE_PLAYER
        loops.begin_events(self.games, game.rules, self._weights)

    def current_player(self) -> int:
        """The seat to move, or `PlayerId.CHANCE` or `PlayerId.TERMINAL`."""
        return self._player

    def is_terminal(self) -> bool:
        """Whether the game is over."""
        return self._player == TERMINAL

    def _legal_actions(self, player: int) -> list[int]:
        return [action for action, weight in enumerate(self._weights.tolist()) if weight]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """The outcomes of positive weight with their probabilities."""
        weights = self._weights.tolist()
        total = sum(weights)
        return [(outcome, weight / total) for outcome, weight in enumerate(weights) if weight]

    def _apply_action(self, action: int) -> None:
        if not 0 <= action < NUM_ACTIONS or not self._weights[action]:
            raise ValueError(f"action is {action}; allowed now: {self.legal_actions()}")
        rules, seen = self.get_game().rules, self.seen[:, self.move_number()]
        loops.play_event(self.games, rules, action, self._weights, seen)
        phase = self.games["phase"].item()
        if phase == DECISION:
            self._player = self.games["seat"].item()
        else:
            self._player = TERMINAL if phase == OVER else CHANCE_PLAYER

    def information_state_tensor(self, player: int | None = None) -> list[float]:
        """What a seat saw, as OpenSpiel's own, which writes a second one to learn the size."""
        seat = self._player if player is None else player
        if not 0 <= seat < self.num_players():
            return super().information_state_tensor(seat)  # OpenSpiel's own error
        observer = self.get_game().history_observer
        observer.set_from(self, seat)
        return observer.tensor.tolist()

    def returns(self) -> list[float]:
        """The payoffs (P5), 0 until the game is over."""
        payoffs = np.zeros((1, self.num_players()))
        if self.is_terminal():
            core.write_payoffs(self.games[0], self.get_game().rules[0], payoffs, 0)
        return [float(payoff) for payoff in payoffs[0]]

    def resample_from_infostate(self, player: int, sampler: Callable[[], float]) -> Any:
        """A state that the player cannot tell from this one.

        Every front that the player does not know is drawn anew with the probabilities of I4,
        whatever the others did. The ``sampler`` draws from [0, 1).
        """
        outcomes = self.history()
        fronts, known = self.get_game().rules["fronts"][0], self.games["known"][0, player]
        left = (fronts - known).reshape(2, MAX_HOLES)
        for event, holes in self._unknown_fronts(player):
            cheese, traps = left[:, holes - 1]
            outcomes[event] = int(sampler() * (cheese + traps) >= cheese)
            left[outcomes[event], holes - 1] -= 1
        state = self.get_game().new_initial_state()
        for outcome in outcomes:
            state.apply_action(outcome)
        return state

    def _unknown_fronts(self, player: int) -> list[tuple[int, int]]:
        """The events in which others saw a front that the player does not know, with its holes."""
        unknown, in_row = [], {}
        state = self.get_game().new_initial_state()
        games = state.games
        for event, outcome in enumerate(self.history()):
            slot = int(core.slot_of(games["action"][0]))
            if games["phase"][0] == FRONT:
                in_row[slot] = event, int(games["row"][0, slot])
            state.apply_action(outcome)
            slot = int(core.slot_of(games["action"][0]))
            if slot in in_row and self.seen[player, event, 2]:
                del in_row[slot]
            elif slot in in_row and games["front"][0, slot] == UNSEEN:  # it has left
                unknown.append(in_row.pop(slot))
        return unknown + list(in_row.values())

    def _action_to_string(self, player: int, action: int) -> str:
        if player == pyspiel.PlayerId.CHANCE:
            return event_word(self.games["phase"].item(), action)
        return describe_action(action)

    def __str__(self) -> str:
        phases = (self.seen[0, :, 0] - 1).tolist()
        return " ".join(map(event_word, phases, self.history()))


def event_word(phase: int, number: int) -> str:
    """An event in a word: "card3", "die1", "trap", "peek0"."""
    if phase == FRONT:
        return FRONTS[number]
    if phase == DECISION:
        kind, slot = decode_action(number)
        return f"{KINDS[kind]}{slot}"
    return f"{CHANCE[phase]}{number + 1}"


def seen_word(phase: int, number: int, learned: int) -> str:
    """An event as a seat saw it, and the front that it learned: "front", "front=1t", "take2=3c"."""
    word = "front" if phase - 1 == FRONT else event_word(phase - 1, number - 1)
    if learned:
        front, holes = divmod(learned - 1, MAX_HOLES)
        word += f"={holes + 1}{FRONTS[front][0]}"
    return word


class Observer:
    """OpenSpiel's observer of what a seat knows: the observation of the project.

    Attributes:
        tensor: float32, rewritten by `set_from`: what ``more`` names with its shapes, then the
            observation (253,).
        dict: the parts of the tensor by name.
    """

    def __init__(self, game: AllesKaeseGame, **more: tuple[int, ...]) -> None:
        self.variant = game.variant
        self._seat = np.zeros(1, np.int64)
        shapes = {**more, "observation": (OBSERVATION.size,)}
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        self.tensor = np.zeros(sum(sizes), np.float32)
        parts = np.split(self.tensor, np.cumsum(sizes)[:-1])
        self.dict = {
            name: part.reshape(shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }
        self._record = self.dict["observation"].view(OBSERVATION_RECORD)

    def set_from(self, state: AllesKaeseState, player: int) -> None:
        """Write what a seat knows into the tensor."""
        self._seat[0] = whole_number("player", player, 0, self.variant.num_players - 1)
        loops.observe_games(state.games, self.variant.rules, self._seat, self._record)

    def string_from(self, state: AllesKaeseState, player: int) -> str:
        """What a seat knows, in whole numbers and in the words of the rules."""
        Observer.set_from(self, state, player)
        facts = OBSERVATION.facts(self.dict["observation"], self.variant)
        lines = [
            f"{name} {'-' if value is None else whole(value).tolist()}"
            for name, value in facts.items()
            if name not in DERIVED
        ]
        return "\n".join([f"seat {player}", *lines])


class HistoryObserver(Observer):
    """OpenSpiel's observer of perfect recall: all that a seat saw.

    The tensor holds the seat, one-hot (P,); the history (events, 3); and the observation (253,).
    An event is its phase, its number and the front that the seat learned, each counted from 1 and
    scaled to at most 1; 0 stands for none.
    """

    def __init__(self, game: AllesKaeseGame) -> None:
        seats = game.variant.num_players
        super().__init__(game, player=(seats,), history=(game.max_events, 3))

    def set_from(self, state: AllesKaeseState, player: int) -> None:
        """Write what a seat saw into the tensor."""
        super().set_from(state, player)
        self.dict["player"][:] = 0
        self.dict["player"][player] = 1
        np.divide(state.seen[player], LAST_COUNTS, out=self.dict["history"])

    def string_from(self, state: AllesKaeseState, player: int) -> str:
        """The seat and the events."""
        events = state.seen[player, : state.move_number()].tolist()
        words = [seen_word(*event) for event in events]
        return " ".join([f"p{player}", *words])


if SHORT_NAME not in pyspiel.registered_names():
    pyspiel.register_game(GAME_TYPE, AllesKaeseGame)
