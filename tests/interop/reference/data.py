"""IDX files, and the order in which a job reads them."""
import gzip
import os
import struct

import numpy as np

from . import philox

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path):
    with open(path, "rb") as file:
        raw = file.read()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    zero, kind, dims = struct.unpack(">HBB", raw[:4])
    shape = struct.unpack(f">{dims}I", raw[4 : 4 + 4 * dims])
    if zero != 0 or len(raw) != 4 + 4 * dims + int(np.prod(shape)) * np.dtype(TYPES[kind]).itemsize:
        raise ValueError(f"{path}: not one whole IDX array")
    return np.frombuffer(raw, TYPES[kind], offset=4 + 4 * dims).reshape(shape)


def write_idx(path, array):
    kind = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}[array.dtype.str[1:]]
    raw = struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.astype(TYPES[kind]).tobytes()
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wb") as file:
        file.write(raw)


class Dataset:
    def __init__(self, config, folder, data_dir=None):
        def resolve(path):
            return os.path.join(data_dir, os.path.basename(path)) if data_dir else os.path.join(folder, path)

        self.x, self.y = read_idx(resolve(config["x"])), read_idx(resolve(config["y"]))
        if len(self.x) != len(self.y):
            raise ValueError(f"{len(self.x)} samples in x, {len(self.y)} in y")
        self.scale = config.get("scale") or (1 / 255 if self.x.dtype == np.uint8 else 1.0)

    def __len__(self):
        return len(self.x)

    def gather(self, index):
        x = self.x[index].astype(np.float32) * np.float32(self.scale)  # fp32, as weir has it
        return x.astype(np.float64), self.y[index].astype(np.float32).astype(np.float64)


def permutation(n, seed, epoch, at):
    """Where the keyed permutation of [0, n) puts the positions `at`: 8 Feistel rounds over the next power of four,
    taken again until the result is below n."""
    half = 1
    while n > 1 << (2 * half):
        half += 1
    mask = np.uint64((1 << half) - 1)
    key = philox.stream(seed, philox.SHUFFLE, epoch & 0xFFFFFFFF, epoch >> 32)
    round_keys = philox.block(key, [0, 1]).reshape(-1)

    def mix(h):
        h = h.astype(np.uint32)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (h ^ (h >> np.uint32(16))).astype(np.uint64)

    def feistel(i):
        left, right = i >> np.uint64(half), i & mask
        for k in round_keys:
            left, right = right, left ^ (mix(right.astype(np.uint32) ^ k) & mask)
        return (left << np.uint64(half)) | right

    result = feistel(np.asarray(at, np.uint64))
    while (outside := result >= n).any():
        result[outside] = feistel(result[outside])
    return result.astype(np.int64)


class Walk:
    """Which samples the global batch of each step has."""

    def __init__(self, samples, batch_size, steps_per_epoch=None, shuffle=True, drop_remainder=False, seed=0):
        one_pass = -(-samples // batch_size)
        self.steps_per_epoch = steps_per_epoch or (samples // batch_size if drop_remainder else one_pass)
        self.samples, self.batch_size, self.shuffle, self.seed = samples, batch_size, shuffle, seed
        self.wraps = self.steps_per_epoch > one_pass

    def indices(self, step):
        epoch, k = divmod(step, self.steps_per_epoch)
        end = (k + 1) * self.batch_size
        position = np.arange(k * self.batch_size, end if self.wraps else min(end, self.samples))
        passes, sample = np.divmod(position, self.samples)
        if self.shuffle:
            for p in np.unique(passes):  # each pass within an epoch has an order of its own
                part = passes == p
                sample[part] = permutation(self.samples, self.seed, epoch | int(p) << 32, sample[part])
        return sample
