"""Compiled programs kept on disk, so that the second process need not compile again."""

import os
import stat
from pathlib import Path
from typing import Any

import jax

from gamps.errors import OutputError


def keep_compiled(folder: Path | None = None) -> Path | None:
    """Keep compiled programs from now on; call it before the first computation.

    Loading such a file runs what is in it, so the folder must be yours alone: it and the folder
    around it are made for their owner only, and refused if others own or can write to them.

    Args:
      folder: where; by default `gamps/xla` in the user's cache folder (`XDG_CACHE_HOME`, or
        `~/.cache`). If `JAX_COMPILATION_CACHE_DIR` is set, JAX keeps programs there already and
        nothing is changed; `JAX_ENABLE_COMPILATION_CACHE=false` switches keeping off.
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
        # A sticky folder, as /tmp is, lets nobody replace what is another's.
        sticky = path == folder.parent and status.st_mode & stat.S_ISVTX
        writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky
        foreign = hasattr(os, "getuid") and status.st_uid not in (os.getuid(), 0)
        if writable or foreign:
            raise OutputError(
                f"{path}: others can write to it, and compiled programs are run unchecked. "
                "Do chmod 700, or choose another XDG_CACHE_HOME"
            )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Small programs too: a command consists of dozens, each a fraction of a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
