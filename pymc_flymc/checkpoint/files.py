"""Files that hold either what was written last or what was written before, whatever happens."""

import os
import pickle
from hashlib import blake2b
from pathlib import Path
from typing import Any

_SIZE = 16


def write_object(path: Path, content: Any) -> None:
    """Write an object to a file: a kill, or a power cut if ``fsync`` works, leaves the old one."""
    pickled = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(blake2b(pickled, digest_size=_SIZE).digest())
        file.write(pickled)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    if os.name == "posix":  # the name is part of the folder, which is another file
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_object(path: Path) -> Any:
    """Return the object in a file; None if there is no file, or a damaged one."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, pickled = content[:_SIZE], content[_SIZE:]
    # This comes before unpickling: a truncated file could be taken for another object.
    if blake2b(pickled, digest_size=_SIZE).digest() != digest:
        return None
    return pickle.loads(pickled)
