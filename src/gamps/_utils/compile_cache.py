"""Keep compiled programs on disk, so that the next process need not compile them again."""

import os
import stat
from pathlib import Path
from typing import Any

import jax

from gamps.errors import OutputError


def keep_compiled(folder: Path | None = None) -> Path | None:
    """Keep compiled programs from now on; call it before the first computation.

    Loading such a file runs its content, so the folder must be yours alone. It and its parent
    folder are made for their owner only, and refused if others own them or can write to them.

    Args:
      folder: where to keep them; by default `gamps/xla` in the user's cache folder
        (`XDG_CACHE_HOME`, or `~/.cache`). If `JAX_COMPILATION_CACHE_DIR` is set, JAX already keeps
        programs there and nothing changes; `JAX_ENABLE_COMPILATION_CACHE=false` switches this off.
    """
    if folder is None:
        config: Any = jax.config
        switched_on = config.jax_enable_compilation_cache
        if os.environ.get("JAX_COMPILATION_CACHE_DIR") or not switched_on:
            return None
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(home) / "gamps" / "xla"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        statuses = {path: path.stat() for path in (folder.parent, folder)}
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}. Choose another XDG_CACHE_HOME") from error
    for path, status in statuses.items():
        # In a sticky folder, such as /tmp, nobody can replace files of other users.
        sticky = path == folder.parent and status.st_mode & stat.S_ISVTX
        writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky
        foreign = hasattr(os, "getuid") and status.st_uid not in (os.getuid(), 0)
        if writable or foreign:
            raise OutputError(
                f"{path}: others can write to it, and compiled programs run unchecked. "
                "Run chmod 700 on it, or choose another XDG_CACHE_HOME"
            )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Keep small programs too: a command has dozens, each taking a fraction of a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
