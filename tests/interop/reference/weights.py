"""safetensors files, and the digest of a model's weights."""
import hashlib
import json
import struct

import numpy as np

TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2"}


def read(path):
    """{name: array}"""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header.pop("__metadata__", None)
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        if first != end or last > len(data):
            raise ValueError(f"{path}: {name}: bytes {first} to {last} leave a gap, or are not there")
        tensors[name] = np.frombuffer(data[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
        end = last
    if end != len(data):
        raise ValueError(f"{path}: {len(data) - end} bytes belong to no tensor")
    return tensors


def write(path, tensors):
    header, at, parts = {}, 0, []
    for name, array in tensors.items():
        part = np.ascontiguousarray(array, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(np.shape(array)), "data_offsets": [at, at + len(part)]}
        at += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def digest(arrays):
    """SHA-256 over the weights as little-endian fp32, in the order given."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array, "<f4").tobytes())
    return sha.hexdigest()
