"""Philox4x32-10 and weir's keyed streams of random numbers, vectorised (Salmon et al., SC 2011)."""
import numpy as np

INIT, SHUFFLE, DROPOUT = 1, 2, 3
MASK = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def block(key, low, high=0):
    """The four words of each 128-bit counter (low, high), arrays of 64-bit numbers: shape (n, 4), uint32."""
    low, high = np.broadcast_arrays(np.atleast_1d(np.asarray(low, np.uint64)), np.asarray(high, np.uint64))
    c = [low & MASK, low >> SHIFT, high & MASK, high >> SHIFT]
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> SHIFT) ^ c[1] ^ np.uint64(k0), p1 & MASK, (p0 >> SHIFT) ^ c[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=-1).astype(np.uint32)


def stream(seed, purpose, a=0, b=0):
    """The key of the stream (seed, purpose, a, b)."""
    words = block((seed & 0xFFFFFFFF, seed >> 32), (purpose << 32) | a, b)[0]
    return int(words[0]), int(words[1])


def words(key, count, high=0):
    """Words 0 to count - 1 of a stream: word i is word i % 4 of block i // 4."""
    return block(key, np.arange((count + 3) // 4), high).reshape(-1)[:count]


def unit(word):
    """[0, 1), fp32."""
    return (np.asarray(word, np.uint32) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
