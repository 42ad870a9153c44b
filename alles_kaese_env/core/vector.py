"""Six bytes at a time."""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from alles_kaese_env.core.jit import IS_PLAIN_PYTHON
from alles_kaese_env.core.records import MAX_SLOTS

#
# A table of six bytes (by slot or by hole count) is packed into a 64-bit word, the first byte
# lowest, and expanded into floats by vector instructions. Left to itself the compiler writes these
# loops number by number, since it cannot see that an observation and a game never overlap. For
# each helper there is a plain loop that says what it does, which runs with NUMBA_DISABLE_JIT=1.
# The two highest bytes of a word mean nothing: they are whatever follows the table in its record.

WORD_BYTES = 6
EACH_BYTE = 0x010101010101  # times a byte: a word that repeats it
FLOATS = ir.VectorType(ir.FloatType(), WORD_BYTES)


def _bytes_of(word):
    return [int(word) >> 8 * k & 255 for k in range(WORD_BYTES)]


def _word_of(numbers):
    return sum(int(number) << 8 * k for k, number in enumerate(numbers))


def _pack_bytes(source, start):
    """The six bytes source[start], source[start + 1], ... as a word."""
    return _word_of(source[start : start + WORD_BYTES])


def _equal_bytes(word, number):
    """Bit k is set where byte k of the word is this number."""
    return sum((byte == number) << k for k, byte in enumerate(_bytes_of(word)))


def _lookup_bytes(table, word):
    """The word whose byte k is that byte of ``table`` which byte k of ``word`` counts off."""
    return _word_of(int(table) >> 8 * byte & 255 for byte in _bytes_of(word))


def _one_hot_bytes(word, target, width):
    """In row k of ``target`` (6, width), 1 at place byte k - 1 and 0 elsewhere."""
    for k, byte in enumerate(_bytes_of(word)):
        for place in range(width):
            target[k, place] = byte == place + 1


def _bits_of_bytes(word, target, width):
    """In row k of ``target`` (6, width), the lowest bits of byte k."""
    for k, byte in enumerate(_bytes_of(word)):
        for place in range(width):
            target[k, place] = byte >> place & 1


def _scale_bytes(word, scales, target):
    """target[k] = byte k of the word times scales[k]."""
    for k, byte in enumerate(_bytes_of(word)):
        target[k] = np.float32(byte) * scales[k]


def _divide_bytes(word, divisors, target):
    """target[k] = byte k of the word over byte k of the divisors, over 1 where that is 0."""
    for k, (byte, divisor) in enumerate(zip(_bytes_of(word), _bytes_of(divisors), strict=True)):
        target[k] = np.float32(byte) / np.float32(max(divisor, 1))


def _spread_bits(bits, target, count):
    """target[k] = bit k, for the first ``count`` of them."""
    for k in range(count):
        target[k] = bits >> k & 1


def _address(context, builder, kind, array, as_type):
    """The first byte of an array, as the address of something else."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(data, as_type.as_pointer())


def _lanes(builder, word, places):
    """These bytes of a word (a list of places) as a vector of bytes."""
    eight = builder.bitcast(word, ir.VectorType(ir.IntType(8), 8))
    order = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
    return builder.shuffle_vector(eight, eight, order)


def _store_bits(context, builder, kind, array, bits):
    """Write a vector of bits as 1.0 and 0.0 to the beginning of an array."""
    floats = ir.VectorType(ir.FloatType(), bits.type.count)
    one, zero = (ir.Constant(floats, [number] * floats.count) for number in (1.0, 0.0))
    address = _address(context, builder, kind, array, floats)
    builder.store(builder.select(bits, one, zero), address, align=4)


def _store_rows(context, builder, kind, array, word, patterns, test):
    """For each byte of a word, its test against each pattern, as floats, row by row."""
    places = [k for k in range(WORD_BYTES) for _ in patterns]
    lanes = _lanes(builder, word, places)
    constant = ir.Constant(lanes.type, patterns * WORD_BYTES)
    _store_bits(context, builder, kind, array, test(lanes, constant))


@intrinsic
def _pack_bytes_vector(typing, source, start):
    def generate(context, builder, signature, args):
        data = context.make_array(source)(context, builder, args[0]).data
        address = builder.gep(data, [args[1]])
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)

    return types.int64(source, types.int64), generate


@intrinsic
def _equal_bytes_vector(typing, word, number):
    def generate(context, builder, signature, args):
        lanes = _lanes(builder, args[0], list(range(WORD_BYTES)))
        repeated = builder.mul(args[1], ir.Constant(ir.IntType(64), EACH_BYTE))
        wanted = _lanes(builder, repeated, list(range(WORD_BYTES)))
        is_equal = builder.icmp_unsigned("==", lanes, wanted)
        return builder.zext(builder.bitcast(is_equal, ir.IntType(WORD_BYTES)), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _lookup_bytes_vector(typing, table, word):
    def generate(context, builder, signature, args):
        wide = ir.VectorType(ir.IntType(64), 8)
        zero = ir.Constant(ir.IntType(32), 0)
        first = builder.insert_element(ir.Constant(wide, ir.Undefined), args[0], zero)
        order = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
        tables = builder.shuffle_vector(first, first, order)
        lanes = builder.zext(_lanes(builder, args[1], list(range(8))), wide)
        shifts = builder.mul(lanes, ir.Constant(wide, [8] * 8))
        found = builder.trunc(builder.lshr(tables, shifts), ir.VectorType(ir.IntType(8), 8))
        six = ir.Constant(ir.IntType(64), 255 * EACH_BYTE)
        return builder.and_(builder.bitcast(found, ir.IntType(64)), six)

    return types.int64(types.int64, types.int64), generate


@intrinsic(prefer_literal=True)
def _one_hot_bytes_vector(typing, word, target, width):
    def generate(context, builder, signature, args):
        def is_place(lanes, places):
            return builder.icmp_unsigned("==", lanes, places)

        patterns = [place + 1 for place in range(width.literal_value)]
        _store_rows(context, builder, target, args[1], args[0], patterns, is_place)

    return types.void(types.int64, target, width), generate


@intrinsic(prefer_literal=True)
def _bits_of_bytes_vector(typing, word, target, width):
    def generate(context, builder, signature, args):
        def is_set(lanes, bits):
            return builder.icmp_unsigned("!=", builder.and_(lanes, bits), lanes.type(None))

        patterns = [1 << place for place in range(width.literal_value)]
        _store_rows(context, builder, target, args[1], args[0], patterns, is_set)

    return types.void(types.int64, target, width), generate


@intrinsic
def _scale_bytes_vector(typing, word, scales, target):
    def generate(context, builder, signature, args):
        numbers = builder.uitofp(_lanes(builder, args[0], list(range(WORD_BYTES))), FLOATS)
        factors = builder.load(_address(context, builder, scales, args[1], FLOATS), align=4)
        address = _address(context, builder, target, args[2], FLOATS)
        builder.store(builder.fmul(numbers, factors), address, align=4)

    return types.void(types.int64, scales, target), generate


@intrinsic
def _divide_bytes_vector(typing, word, divisors, target):
    def generate(context, builder, signature, args):
        above, below = (_lanes(builder, one, list(range(WORD_BYTES))) for one in args[:2])
        one = ir.Constant(below.type, [1] * WORD_BYTES)
        is_zero = builder.icmp_unsigned("==", below, below.type(None))
        below = builder.select(is_zero, one, below)
        ratio = builder.fdiv(builder.uitofp(above, FLOATS), builder.uitofp(below, FLOATS))
        builder.store(ratio, _address(context, builder, target, args[2], FLOATS), align=4)

    return types.void(types.int64, types.int64, target), generate


@intrinsic(prefer_literal=True)
def _spread_bits_vector(typing, bits, target, count):
    def generate(context, builder, signature, args):
        number = count.literal_value
        # All 64 at first: LLVM cannot spread 18 bits on processors without AVX-512.
        all_bits = builder.bitcast(args[0], ir.VectorType(ir.IntType(1), 64))
        order = ir.Constant(ir.VectorType(ir.IntType(32), number), list(range(number)))
        is_set = builder.shuffle_vector(all_bits, all_bits, order)
        if target.dtype == types.float32:
            _store_bits(context, builder, target, args[1], is_set)
        else:
            small = ir.VectorType(ir.IntType(8), number)
            address = _address(context, builder, target, args[1], small)
            builder.store(builder.zext(is_set, small), address, align=1)

    return types.void(types.int64, target, count), generate


pack_bytes: Any = _pack_bytes if IS_PLAIN_PYTHON else _pack_bytes_vector
equal_bytes: Any = _equal_bytes if IS_PLAIN_PYTHON else _equal_bytes_vector
lookup_bytes: Any = _lookup_bytes if IS_PLAIN_PYTHON else _lookup_bytes_vector
one_hot_bytes: Any = _one_hot_bytes if IS_PLAIN_PYTHON else _one_hot_bytes_vector
bits_of_bytes: Any = _bits_of_bytes if IS_PLAIN_PYTHON else _bits_of_bytes_vector
scale_bytes: Any = _scale_bytes if IS_PLAIN_PYTHON else _scale_bytes_vector
divide_bytes: Any = _divide_bytes if IS_PLAIN_PYTHON else _divide_bytes_vector
spread_bits: Any = _spread_bits if IS_PLAIN_PYTHON else _spread_bits_vector

SET_BITS = np.array([bin(bits).count("1") for bits in range(1 << MAX_SLOTS)])
NTH_BIT = np.array(
    [
        ([k for k in range(MAX_SLOTS) if bits >> k & 1] + [0] * MAX_SLOTS)[:MAX_SLOTS]
        for bits in range(1 << MAX_SLOTS)
    ]
)
