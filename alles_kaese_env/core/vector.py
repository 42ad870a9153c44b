"""Six bytes at a time.

A table of six bytes (by slot or by hole count) is packed into a 64-bit word, the first byte lowest,
and expanded into floats. Each helper is a plain loop. For some of them the compiler finds no vector
instructions by itself; their decorator names a function that writes these, and the loop then runs
only with ``NUMBA_DISABLE_JIT=1``. The two highest bytes of a word mean nothing: they are whatever
follows the table in its record.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import inspect

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from alles_kaese_env.core.jit import IS_PLAIN_PYTHON, jit
from alles_kaese_env.core.records import MAX_SLOTS

WORD_BYTES = 6
EACH_BYTE = 0x010101010101  # times a byte: a word that repeats it
SIX = list(range(WORD_BYTES))
WORD = ir.IntType(64)
FLOATS = ir.VectorType(ir.FloatType(), WORD_BYTES)

# --- LLVM instructions ---------------------------------------------------------------------


def emitted_by(emit, returns=types.void):
    """Compile a helper into what ``emit(builder, *arguments)`` writes.

    It gets an array as the address of its first element, and a whole number as a 64-bit word,
    which is an `ir.Constant` where the caller names a constant.
    """

    def decorate(plain):
        if IS_PLAIN_PYTHON:
            return plain

        def typed(typing, *kinds):
            kinds = [types.int64 if _is_whole_number(kind) else kind for kind in kinds]

            def generate(context, builder, signature, args):
                pairs = zip(signature.args, args, strict=True)
                return emit(builder, *(_argument(context, builder, *pair) for pair in pairs))

            return returns(*kinds), generate

        first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(plain).parameters.values()
        typed.__signature__ = inspect.Signature([first, *parameters])
        typed.__name__ = plain.__name__
        return intrinsic(prefer_literal=True)(typed)

    return decorate


def _is_whole_number(kind):
    return isinstance(kind, types.Integer) and not isinstance(kind, types.Literal)


def _argument(context, builder, kind, value):
    """What ``emit`` gets for an argument."""
    if isinstance(kind, types.Literal):
        return ir.Constant(WORD, kind.literal_value)
    is_array = isinstance(kind, types.Array)
    return context.make_array(kind)(context, builder, value).data if is_array else value


def _lanes(builder, word, places=SIX):
    """These bytes of a word (a list of places) as a vector of bytes."""
    eight = builder.bitcast(word, ir.VectorType(ir.IntType(8), 8))
    order = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
    return builder.shuffle_vector(eight, eight, order)


def _beside(builder, word, patterns):
    """Two vectors of bytes: each byte of a word beside each of the patterns."""
    repeated = _lanes(builder, word, [k for k in SIX for _ in patterns])
    return repeated, ir.Constant(repeated.type, patterns * WORD_BYTES)


def _store(builder, vector, target, align=4):
    """Write a vector to the beginning of an array."""
    builder.store(vector, builder.bitcast(target, vector.type.as_pointer()), align=align)


def _store_bits(builder, bits, target):
    """Write a vector of bits as 1.0 and 0.0 to the beginning of an array."""
    floats = ir.VectorType(ir.FloatType(), bits.type.count)
    one, zero = (ir.Constant(floats, [number] * floats.count) for number in (1.0, 0.0))
    _store(builder, builder.select(bits, one, zero), target)


def _emit_pack(builder, source, start):
    first = builder.bitcast(builder.gep(source, [start]), WORD.as_pointer())
    return builder.load(first, align=1)


def _emit_one_hot(builder, word, target, width):
    numbers, places = _beside(builder, word, [place + 1 for place in range(width.constant)])
    _store_bits(builder, builder.icmp_unsigned("==", numbers, places), target)


def _emit_bits(builder, word, target, width):
    numbers, bits = _beside(builder, word, [1 << place for place in range(width.constant)])
    is_set = builder.icmp_unsigned("!=", builder.and_(numbers, bits), bits.type(None))
    _store_bits(builder, is_set, target)


def _emit_scale(builder, word, scales, target):
    factors = builder.load(builder.bitcast(scales, FLOATS.as_pointer()), align=4)
    _store(builder, builder.fmul(builder.uitofp(_lanes(builder, word), FLOATS), factors), target)


def _emit_divide(builder, word, divisors, target):
    below = _lanes(builder, divisors)
    is_zero = builder.icmp_unsigned("==", below, below.type(None))
    below = builder.select(is_zero, ir.Constant(below.type, [1] * WORD_BYTES), below)
    above = builder.uitofp(_lanes(builder, word), FLOATS)
    _store(builder, builder.fdiv(above, builder.uitofp(below, FLOATS)), target)


def _emit_equal(builder, word, number):
    repeated = builder.mul(number, ir.Constant(WORD, EACH_BYTE))
    is_equal = builder.icmp_unsigned("==", _lanes(builder, word), _lanes(builder, repeated))
    return builder.zext(builder.bitcast(is_equal, ir.IntType(WORD_BYTES)), WORD)


def _emit_spread(builder, bits, target, count):
    number = count.constant
    # All 64 at first: LLVM cannot spread 18 bits on processors without AVX-512.
    all_bits = builder.bitcast(bits, ir.VectorType(ir.IntType(1), 64))
    order = ir.Constant(ir.VectorType(ir.IntType(32), number), list(range(number)))
    is_set = builder.shuffle_vector(all_bits, all_bits, order)
    if target.type.pointee == ir.FloatType():
        _store_bits(builder, is_set, target)
    else:
        _store(builder, builder.zext(is_set, ir.VectorType(ir.IntType(8), number)), target, align=1)


# --- The helpers ---------------------------------------------------------------------------


def _bytes_of(word):
    return [int(word) >> 8 * k & 255 for k in SIX]


def _word_of(numbers):
    return sum(int(number) << 8 * k for k, number in enumerate(numbers))


@emitted_by(_emit_pack, returns=types.int64)
def pack_bytes(source, start):
    """The six bytes source[start], source[start + 1], ... as a word."""
    return _word_of(source[start : start + WORD_BYTES])


@emitted_by(_emit_equal, returns=types.int64)
def equal_bytes(word, number):
    """Bit k is set where byte k of the word is this number."""
    return sum((byte == number) << k for k, byte in enumerate(_bytes_of(word)))


@jit
def lookup_bytes(table, word):
    """The word whose byte k is that byte of ``table`` which byte k of ``word`` counts off."""
    found = 0
    for k in range(WORD_BYTES):
        found |= (table >> 8 * (word >> 8 * k & 255) & 255) << 8 * k
    return found


@emitted_by(_emit_one_hot)
def one_hot_bytes(word, target, width):
    """In row k of ``target`` (6, width), 1 at place byte k - 1 and 0 elsewhere."""
    for k, byte in enumerate(_bytes_of(word)):
        for place in range(width):
            target[k, place] = byte == place + 1


@emitted_by(_emit_bits)
def bits_of_bytes(word, target, width):
    """In row k of ``target`` (6, width), the lowest bits of byte k."""
    for k, byte in enumerate(_bytes_of(word)):
        for place in range(width):
            target[k, place] = byte >> place & 1


@emitted_by(_emit_scale)
def scale_bytes(word, scales, target):
    """target[k] = byte k of the word times scales[k]."""
    for k, byte in enumerate(_bytes_of(word)):
        target[k] = np.float32(byte) * scales[k]


@emitted_by(_emit_divide)
def divide_bytes(word, divisors, target):
    """target[k] = byte k of the word over byte k of the divisors, over 1 where that is 0."""
    for k, (byte, divisor) in enumerate(zip(_bytes_of(word), _bytes_of(divisors), strict=True)):
        target[k] = np.float32(byte) / np.float32(max(divisor, 1))


@emitted_by(_emit_spread)
def spread_bits(bits, target, count):
    """target[k] = bit k, for the first ``count`` of them."""
    for k in range(count):
        target[k] = bits >> k & 1


SET_BITS = np.array([bin(bits).count("1") for bits in range(1 << MAX_SLOTS)], np.int64)
NTH_BIT = np.array(
    [
        ([k for k in range(MAX_SLOTS) if bits >> k & 1] + [0] * MAX_SLOTS)[:MAX_SLOTS]
        for bits in range(1 << MAX_SLOTS)
    ],
    np.int64,
)
