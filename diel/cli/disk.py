"""What a directory takes on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def size_of(root: Path) -> tuple[int, int]:
    """Bytes on disk and number of files below a directory; what vanishes meanwhile is left out."""
    size = files = 0
    folders = [str(root)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        else:
                            files += 1
                            size += entry.stat(follow_symlinks=False).st_size
                    except OSError:
                        continue
        except OSError:
            continue
    return size, files
