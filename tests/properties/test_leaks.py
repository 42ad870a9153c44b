"""No seat is told what it may not know, and each is told all that it may (I1 to I4)."""

from __future__ import annotations

from dataclasses import asdict

import gymnasium
import numpy as np
import pytest
from builders import PLAYERS, all_variants, bytes_of, mixed_states, name_of, playing, random_legal
from reference.lockstep import Reference, random_deal

from alles_kaese_env import OBSERVATION, GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.core.records import (
    CARD,
    CHEESE,
    DIE,
    DISCARD,
    FRONT,
    GAME,
    GAME_FIELDS,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NUM_FACES,
    OVER,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.viewer.text import text_of
from alles_kaese_env.viewer.view import view_of_observation

for_all_variants = pytest.mark.parametrize("variant", all_variants(), ids=name_of)
for_variants_with_traps = pytest.mark.parametrize(
    "variant", [variant for variant in all_variants() if any(variant.traps)], ids=name_of
)
WHO = {name: who for name, _, _, who, _ in GAME_FIELDS}


# --- Other records that look the same to a seat ------------------------------------------------


def hidden_part(games, seat, name):
    """Where a field of the records must not be seen by a seat, as a mask of its shape."""
    values = games[name]
    if WHO[name] == "nobody":
        return np.ones(values.shape, bool)
    if WHO[name] == "owner" and values.shape[1:] == (MAX_SLOTS,):  # of a card in the row
        return (games["peeked"] >> seat & 1) == 0
    if WHO[name] == "owner" and values.shape[1] == MAX_PLAYERS:  # of a table by seat
        hidden = np.ones(values.shape, bool)
        hidden[:, seat] = False
        return hidden
    assert WHO[name] == "all"
    return np.zeros(values.shape, bool)


def garbled(games, seat, name, rng):
    """The records with nonsense in the part of a field that a seat must not see.

    How many fronts of each hole count a seat knows is public (T3), so these sums stay.
    """
    others = games.copy()
    noise = rng.integers(0, 256, games[name].shape)
    if name == "front":
        noise = rng.integers(UNSEEN, TRAP + 1, games[name].shape)
    if name == "known":
        both = games[name][..., :MAX_HOLES] + games[name][..., MAX_HOLES:]
        cheese = rng.integers(0, both + 1)
        noise = np.concatenate([cheese, both - cheese], axis=-1)
    others[name] = np.where(hidden_part(games, seat, name), noise, games[name])
    return others


def in_any_phase(games, rng):
    """The records, some of them in a phase of chance."""
    games = games.copy()
    for phase in (CARD, DIE, FRONT):
        games["phase"][rng.random(len(games)) < 0.1] = phase
    return games


def set_games(batch, games):
    """Put records into a batch, also such as `set_state` refuses."""
    batch.games[:] = games
    batch.look(np.arange(len(batch)))


def shown(batch, seat):
    """All that a batch tells a seat."""
    parts = (batch.observe(seat), batch.masks, batch.seats, batch.over, batch.payoffs)
    return b"".join(part.tobytes() for part in parts)


PRIVATE = [name for name, who in WHO.items() if who != "all"]


def test_every_field_says_who_may_see_it():
    assert [field[0] for field in GAME_FIELDS] == list(GAME.names)
    assert set(WHO.values()) == {"all", "owner", "nobody"}
    assert PRIVATE == ["front", "known", "drawn"]


@for_all_variants
@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_field_of_the_record_reaches_nobody_but_its_owner(variant, name):
    """For every seat, in 400 states of each variant: 30,000 states times seats."""
    rng = np.random.default_rng(1)
    batch = mixed_states(variant, 400, seed=1)
    games = in_any_phase(batch.games, rng)
    has_changed = False
    for seat in range(variant.num_players):
        set_games(batch, games)
        before = shown(batch, seat)
        others = garbled(games, seat, name, rng)
        has_changed |= (others != games).any()
        set_games(batch, others)
        assert shown(batch, seat) == before
    assert has_changed


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("name", ["front", "known"])
def test_a_private_field_does_reach_its_owner(players, name):
    """So the test above can fail: the same change is seen by those who own it."""
    variant = Variant(num_players=players)
    rng = np.random.default_rng(2)
    batch = mixed_states(variant, 400, seed=2)
    before = [batch.observe(seat) for seat in range(players)]
    set_games(batch, garbled(batch.games, 0, name, rng))
    after = [batch.observe(seat) for seat in range(players)]
    assert before[0].tobytes() == after[0].tobytes()
    for seat in range(1, players):
        assert (before[seat] != after[seat]).any(axis=1).mean() > 0.05


def swapped(games, seat, rng):
    """Records in which fronts that a seat has not seen are of the other kind, as far as can be.

    Who peeked at such a card has the other kind among what it knows.
    """
    others = games.copy()
    for record in others:
        for slot in rng.permutation(MAX_SLOTS):
            holes, front, peeked = (int(record[name][slot]) for name in ("row", "front", "peeked"))
            if front == UNSEEN or peeked >> seat & 1 or rng.random() < 0.3:
                continue
            old = (front - CHEESE) * MAX_HOLES + holes - 1
            new = (old + MAX_HOLES) % NUM_FACES
            record["front"][slot] = CHEESE + TRAP - front
            for table in [record["known"][k] for k in range(MAX_PLAYERS) if peeked >> k & 1]:
                table[old] -= 1
                table[new] += 1
            record["drawn"][old] -= 1
            record["drawn"][new] += 1
    return others


def swap_states(variant, seed):
    """Pairs of records for every seat: they differ in what that seat has not seen."""
    rng = np.random.default_rng(seed)
    games = mixed_states(variant, 60, seed).games
    fronts = variant.rules["fronts"][0]
    for seat in range(variant.num_players):
        others = swapped(games, seat, rng)
        # Only states that may occur: no more fronts of a kind are seen than there are.
        differs = (others["drawn"] <= fronts).all(axis=1) & (others != games)
        yield seat, games[differs], others[differs]


@for_variants_with_traps
def test_a_peek_of_others_is_told_to_nobody_else_by_a_batch(variant):
    pairs = 0
    for seat, games, others in swap_states(variant, 3):
        if not len(games):
            continue
        pairs += len(games)
        batch = GameBatch(len(games), variant, seed=0)
        set_games(batch, games)
        before = shown(batch, seat)
        set_games(batch, others)
        assert shown(batch, seat) == before
    assert pairs > 0


def shown_by_gymnasium(env, seat, games):
    face = env.unwrapped
    inner = face._games
    inner.seats[:] = seat
    set_games(inner.batch, games)
    inner.batch.look(np.zeros(1, np.int64), inner.seats)
    info = face._info()
    assert info.keys() == {"action_mask", "illegal_action"}
    told = {name: value.tobytes() for name, value in info.items()}
    masks = told, face.action_masks().tobytes()
    return face._observation().tobytes(), masks, env.render(), repr(inner.batch), str(env)


def shown_by_pettingzoo(env, seat, games):
    set_games(env._batch, games)
    seen = env.observe(f"player_{seat}")
    mover = int(env._batch.seats[0])
    text = env.render() if mover == seat else ""
    assert not any(env.infos.values())
    return seen["observation"].tobytes(), seen["action_mask"].tobytes(), text, str(env)


def shown_by_stable_baselines3(env, seat, games):
    inner = env.games
    inner.seats[:] = seat
    set_games(inner.batch, games)
    inner.batch.look(np.zeros(1, np.int64), inner.seats)
    return inner.batch.observations.tobytes(), env.action_masks().tobytes()


def shown_by_vector_env(env, seat, games):
    face = env.unwrapped
    face._games.seats[:] = seat
    set_games(face._games.batch, games)
    face._games.batch.look(np.zeros(1, np.int64), face._games.seats)
    infos = face._infos(np.ones(1, bool))
    names = {"action_mask", "illegal_action"}
    assert infos.keys() == names | {f"_{name}" for name in names}
    return face._observations().tobytes(), infos["action_mask"].tobytes(), str(infos)


@for_variants_with_traps
def test_a_peek_of_others_is_told_to_nobody_else_by_a_face(variant):
    """Observation, mask, info, text and name of every face of the base install."""
    fields = asdict(variant)
    gym_env = gymnasium.make("AllesKaese-v0", render_mode="ansi", **fields)
    aec = alles_kaese_v0.raw_env(render_mode="ansi", **fields)
    sb3 = AllesKaeseVecEnv(1, **fields)
    vector = gymnasium.make_vec(
        "AllesKaese-v0", num_envs=1, vectorization_mode="vector_entry_point", **fields
    )
    for env in (gym_env, aec, vector):
        env.reset(seed=0)
    sb3.reset()
    faces = [
        (shown_by_gymnasium, gym_env),
        (shown_by_pettingzoo, aec),
        (shown_by_stable_baselines3, sb3),
        (shown_by_vector_env, vector),
    ]
    pairs = 0
    for seat, games, others in swap_states(variant, 4):
        for k in range(len(games)):
            for look, env in faces:
                one, other = games[k : k + 1], others[k : k + 1]
                assert look(env, seat, one) == look(env, seat, other)
            pairs += 1
    assert pairs > 0


# --- Other cards under the same backs, played again from the start -----------------------------


class PlayBack:
    """An opponent that plays moves from a list, whatever it is shown."""

    def __init__(self, actions):
        self.actions = list(actions)

    def act(self, observations, masks, rng):
        return np.array([self.actions.pop(0)])


def random_history(variant, seat, rng):
    """A game on the reference up to a decision of a seat or the end: deck, dice, actions."""
    deck, dice = random_deal(variant, rng)
    game = Reference(variant, deck, dice)
    actions, length = [], int(rng.integers(1, 60))
    while not game.over and (len(actions) < length or game.seat != seat):
        action = int(rng.choice(np.flatnonzero(game.mask())))
        actions.append((game.seat, action))
        game.play_action(action)
    return game, actions


def other_deal(game, seat, rng):
    """Deck and dice that a seat cannot tell from those of the game at this point.

    The cards below the top of the reserve lie in another order, and cards with the same back whose
    fronts the seat has not seen have changed their fronts, wherever they are. Dice not yet rolled
    are others.
    """
    deck = [(card.holes, card.is_trap) for card in game.cards]
    below = game.reserve_ids[1:]
    for card_id, other in zip(below, rng.permutation(below), strict=True):
        deck[card_id] = (game.cards[other].holes, game.cards[other].is_trap)
    known = game.known_ids(seat)
    for holes in range(1, game.sides + 1):
        hidden = [k for k, card in enumerate(deck) if card[0] == holes and k not in known]
        fronts = [deck[k][1] for k in hidden]
        for k, other in zip(hidden, rng.permutation(len(hidden)), strict=True):
            deck[k] = (holes, fronts[other])
    rolled = game.turns + (not game.over)
    later = rng.integers(1, game.sides + 1, len(game.dice) - rolled).tolist()
    return deck, game.dice[:rolled] + later


def told_by_batch(variant, seat, deck, dice, actions):
    batch = GameBatch(1, variant, seed=0)
    batch.reset(script=ScriptedDeal(variant, deck, dice))
    told = [shown(batch, seat)]
    for _, action in actions:
        batch.step([action])
        told.append(shown(batch, seat))
    return told


def told_by_pettingzoo(variant, seat, deck, dice, actions):
    env = alles_kaese_v0.raw_env(render_mode="ansi", **asdict(variant))
    env.reset(seed=0, options={"deck": deck, "dice": dice})
    agent = f"player_{seat}"
    told = []
    for mover, action in [*actions, (None, None)]:
        seen = env.observe(agent)
        told.append((seen["observation"].tobytes(), seen["action_mask"].tobytes()))
        told.append((env.rewards[agent], env.terminations[agent], env.infos[agent]))
        if mover == seat:
            told.append(env.render())
        if action is not None:
            env.step(action)
    return told


def told_by_gymnasium(variant, seat, deck, dice, actions):
    own = [action for mover, action in actions if mover == seat]
    opponents = PlayBack([action for mover, action in actions if mover != seat])
    env = gymnasium.make(
        "AllesKaese-v0", opponents=opponents, seat=seat, render_mode="ansi", **asdict(variant)
    )
    observation, info = env.reset(seed=0, options={"deck": deck, "dice": dice})
    told = [(observation.tobytes(), str(info), env.render())]
    for action in own:
        observation, *rest = env.step(action)
        told.append((observation.tobytes(), str(rest), env.render()))
    assert not opponents.actions
    return told


def told_by_open_spiel(variant, seat, deck, dice, actions):
    """What a seat is told at every node, those of chance among them."""
    pytest.importorskip("pyspiel", reason="OpenSpiel is not installed (extra openspiel)")
    from alles_kaese_env.envs.open_spiel import AllesKaeseGame, parameters_of

    state = AllesKaeseGame(parameters_of(variant)).new_initial_state()
    game = Reference(variant, deck, dice)
    cards, rolls, front, told = iter(deck), iter(dice), None, []
    for _, action in [*actions, (None, None)]:
        while state.is_chance_node():
            told.append(told_by_state(state, seat))
            phase = state.games["phase"][0]
            if phase == FRONT:
                state.apply_action(int(front))
            else:
                state.apply_action((next(cards)[0] if phase == CARD else next(rolls)) - 1)
        told.append(told_by_state(state, seat))
        if action is not None:
            front = game.row[action % MAX_SLOTS].is_trap
            game.play_action(action)
            state.apply_action(action)
    return told


def told_by_state(state, seat):
    """All that a state of OpenSpiel tells a seat; what chance may do is asked by nobody at play."""
    tensors = state.information_state_tensor(seat), state.observation_tensor(seat)
    strings = state.information_state_string(seat), state.observation_string(seat)
    legal = None if state.is_chance_node() else state.legal_actions(seat)
    return tensors, strings, state.current_player(), legal, state.returns()


@pytest.mark.parametrize(
    "tell", [told_by_batch, told_by_pettingzoo, told_by_gymnasium, told_by_open_spiel]
)
@for_all_variants
def test_other_cards_under_the_same_backs_are_the_same_game_to_a_seat(variant, tell):
    """Every face, every moment: also what others know of cards that were discarded since."""
    rng = np.random.default_rng(5)
    changed_what_others_saw = 0
    for number in range(8):
        seat = 0 if len(variant.deck) < 36 else number % variant.num_players
        game, actions = random_history(variant, seat, rng)
        deck, dice = other_deal(game, seat, rng)
        original = [(card.holes, card.is_trap) for card in game.cards]
        seen = set().union(*(game.known_ids(other) for other in range(variant.num_players)))
        changed_what_others_saw += any(deck[k] != original[k] for k in seen)
        one = tell(variant, seat, original, game.dice, actions)
        assert one == tell(variant, seat, deck, dice, actions)
    if len(variant.deck) == 36:
        assert changed_what_others_saw > 0


# --- All that is public, and all that is one's own ---------------------------------------------


def facts_of_record(record, seat, variant):
    """What a seat may know of a record, in the words of `OBSERVATION.facts`."""
    players = variant.num_players
    order = (seat + np.arange(players)) % players
    peeked = np.array([record["peeked"] >> other & 1 for other in order]).astype(bool)
    known = record["known"].reshape(MAX_PLAYERS, 2, MAX_HOLES)
    over = record["phase"] == OVER
    return {
        "row": record["row"],
        "front": np.where(peeked[0], record["front"], UNSEEN),
        "opponent_peeks": peeked[1:].T,
        "die": record["die"],
        "match": (record["row"] == record["die"]).any(),
        "top": record["top"],
        "reserve": record["reserve"],
        "num_players": players,
        "turn": None if over else (int(record["seat"]) - seat) % players,
        "gone": record["gone"],
        "known": known[seat],
        "traps": record["traps"][order],
        "points": record["points"][order],
        "cheese": record["cheese"][order],
        "taken": record["taken"][order].reshape(players, 2, MAX_HOLES),
        "opponent_fronts": known[order[1:]].sum(axis=1),
    }


@for_all_variants
def test_every_public_fact_and_own_peek_is_read_back_from_the_observation(variant):
    """I1, I2: nothing is lost and nothing rounded, for every seat."""
    batch = mixed_states(variant, 40, seed=6)
    for seat in range(variant.num_players):
        for record, observation in zip(batch.games, batch.observe(seat), strict=True):
            facts = OBSERVATION.facts(observation, variant)
            expected = facts_of_record(record, seat, variant)
            assert facts.keys() >= expected.keys()
            for name, value in expected.items():
                assert np.array_equal(facts[name], value), name


@for_all_variants
def test_the_text_shows_what_the_observation_says(variant):
    """The render of a seat is drawn from its observation; in lines of at most 80 columns."""
    batch = mixed_states(variant, 30, seed=7)
    for seat in range(variant.num_players):
        for record, observation in zip(batch.games, batch.observe(seat), strict=True):
            lines = text_of(view_of_observation(observation, variant, seat)).splitlines()
            assert max(map(len, lines)) <= 80
            assert f"reserve {record['reserve']} cards" in lines[0]
            holes = next(line for line in lines if line.startswith("holes")).split()[1:]
            row = record["row"][: variant.row_size]
            assert holes == [str(number) if number else "-" for number in row]
            assert sum("(you)" in line for line in lines) == 1


# --- The layout --------------------------------------------------------------------------------


def test_fields_tile_the_vector_without_gaps():
    place = 0
    for field in OBSERVATION.fields:
        assert field.start == place
        assert field.stop - field.start == int(np.prod(field.shape, dtype=int))
        place = field.stop
    assert place == OBSERVATION.size


def test_every_field_has_a_meaning():
    names = [field.name for field in OBSERVATION.fields]
    assert len(set(names)) == len(names)
    for field in OBSERVATION.fields:
        assert field.meaning
        assert f"| `{field.name}` | {field.start} to {field.stop - 1} |" in OBSERVATION.table()


def test_decode_gives_every_number_once_and_in_place():
    vectors = np.arange(3 * OBSERVATION.size, dtype=np.float32).reshape(3, OBSERVATION.size)
    parts = OBSERVATION.decode(vectors)
    flat = [parts[field.name].reshape(3, -1) for field in OBSERVATION.fields]
    assert np.concatenate(flat, axis=1).tobytes() == vectors.tobytes()
    parts["row"][:] = -1
    assert vectors[0, 0] == 0


@pytest.mark.parametrize("players", PLAYERS)
def test_observations_stay_in_their_space_over_a_million_plies(players):
    """All five cases together; up to the end of each game."""
    variant = Variant(num_players=players)
    space = OBSERVATION.space()
    rng = np.random.default_rng(8)
    batch = GameBatch(6000, variant, seed=8)
    while len(rows := playing(batch)):
        batch.step(random_legal(batch.masks[rows], rng), rows)
        observations = batch.observations[rows]
        assert observations.dtype == np.float32
        assert observations.min() >= 0
        assert observations.max() <= 1
        assert space.contains(observations[0])
    assert batch.observations.max(axis=0)[OBSERVATION["traps"].start] == 1  # some have lost


@for_all_variants
def test_observations_of_every_seat_are_in_the_space_and_padded_with_zeros(variant):
    players, size, sides = variant.num_players, variant.row_size, variant.num_holes
    batch = mixed_states(variant, 300, seed=9)
    space = OBSERVATION.space()
    for seat in range(players):
        observations = batch.observe(seat)
        assert observations.min() >= 0
        assert observations.max() <= 1
        assert all(space.contains(observation) for observation in observations)
        parts = OBSERVATION.decode(observations)
        for name in ("turn", "traps", "points", "cheese", "taken"):
            assert not parts[name][:, players:].any()
        assert not parts["opponent_peeks"][..., players - 1 :].any()
        assert not parts["opponent_fronts"][:, players - 1 :].any()
        for name in ("row", "own_peeks", "opponent_peeks", "trap_probability"):
            assert not parts[name][:, size:].any()
        for name in ("die", "top", "trap_share", "gone"):
            assert not parts[name][:, sides:].any()
        for name in ("taken", "known", "opponent_fronts", "row"):
            table = parts[name].reshape(-1, MAX_HOLES)
            assert not table[:, sides:].any()


def test_what_an_agent_is_handed_leads_back_to_no_game():
    """Observations and masks own their numbers: no base, and writing to them changes nothing."""
    seen = []

    class Keeper:
        def act(self, observations, masks, rng):
            seen.append((observations, masks))
            actions = masks.argmax(axis=1)
            observations[:] = 7
            masks[:] = False
            return actions

    env = gymnasium.make("AllesKaese-v0", opponents=Keeper(), seat=1, num_players=3)
    observation, info = env.reset(seed=0)
    for _ in range(5):
        assert observation.base is None
        assert observation.max() <= 1
        assert info["action_mask"].base is None
        observation, _, _, _, info = env.step(int(info["action_mask"].argmax()))
    assert seen
    for array in (array for pair in seen for array in pair):
        assert array.base is None


# --- No foresight ------------------------------------------------------------------------------


def test_the_record_has_no_room_for_the_order_of_the_reserve():
    """I3: beside its top, the reserve is counts by holes, and there is no card in the record."""
    assert GAME["below"].shape == (MAX_HOLES,)
    by_card = [name for name in GAME.names if max(GAME[name].shape, default=1) > NUM_FACES]
    assert by_card == []
    tables = {name for name in GAME.names if len(GAME[name].shape) == 2}
    assert tables == {"taken", "known"}


@for_all_variants
def test_a_front_is_drawn_when_somebody_looks_and_not_before(variant):
    """I3, I4: over whole games, fronts are unseen where nobody peeked, and looks are counted."""
    batch = GameBatch(200, variant, seed=10)
    rng = np.random.default_rng(10)
    looks = np.zeros(200, int)
    fronts = variant.rules["fronts"][0]
    for _ in range(60):
        games = batch.games
        assert ((games["front"] == UNSEEN) == (games["peeked"] == 0)).all()
        assert (games["drawn"].sum(axis=1) == looks).all()
        assert (games["drawn"] <= fronts).all()
        assert (games["known"] <= games["drawn"][:, None]).all()
        left = games["below"].sum(axis=1) + (games["top"] > 0)
        assert (left == games["reserve"]).all()
        rows = playing(batch)
        actions = random_legal(batch.masks[rows], rng)
        kinds, slots = np.divmod(actions, MAX_SLOTS)
        looks[rows] += (kinds != DISCARD) & (games["front"][rows, slots] == UNSEEN)
        batch.step(actions, rows)


def forked(batch, seed):
    """A copy of a batch that goes on with other streams."""
    other = GameBatch(len(batch), batch.variant, seed=seed)
    state = batch.get_state()
    state["streams"] = other.streams.copy()
    other.set_state(state)
    return other


@pytest.mark.parametrize("players", PLAYERS)
def test_a_copy_with_another_stream_sees_other_dice_cards_and_fronts(players):
    """The dice agree in a sixth of some thousand positions, cards and fronts as chance has it."""
    batch = mixed_states(Variant(num_players=players), 4000, seed=11)
    copy = forked(batch, seed=12)
    rows = playing(batch)
    actions = random_legal(batch.masks[rows], np.random.default_rng(13))
    batch.step(actions, rows)
    copy.step(actions, rows)
    both = np.intersect1d(playing(batch), playing(copy))
    agreement = (batch.games["die"] == copy.games["die"])[both].mean()
    assert abs(agreement - 1 / 6) < 4.5 * (5 / 36 / len(both)) ** 0.5
    drew = rows[np.isin(rows, both) & (actions >= MAX_SLOTS)]
    assert 0.1 < (batch.games["top"] == copy.games["top"])[drew].mean() < 0.3
    looked = batch.games["front"][both] != UNSEEN
    differs = batch.games["front"][both] != copy.games["front"][both]
    assert 0 < differs[looked].mean() < 0.5


def test_the_random_stream_is_no_part_of_a_record():
    """The same record, other streams: the same bytes are shown to everybody."""
    batch = mixed_states(Variant(num_players=3), 200, seed=14)
    copy = forked(batch, seed=15)
    assert bytes_of(batch.games) == bytes_of(copy.games)
    assert batch.streams.tobytes() != copy.streams.tobytes()
    for seat in range(3):
        assert shown(batch, seat) == shown(copy, seat)
    assert not {"stream", "counter", "seed"} & set(GAME.names)
