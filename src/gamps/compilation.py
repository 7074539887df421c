"""Compiled programs kept on disk, so that the second process need not compile again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import jax

from gamps.errors import OutputError


def keep_compiled(folder: Path | None = None) -> Path:
    """Keep compiled programs from now on; call it before the first computation.

    Loading such a file runs what is in it, so the folder must be yours alone: it is made readable
    and writable by its owner only, and refused if it belongs to or can be written by others.

    Args:
      folder: where; by default what `JAX_COMPILATION_CACHE_DIR` says, else `gamps/xla` in the
        user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`). `JAX_ENABLE_COMPILATION_CACHE=false`
        in the environment switches keeping off.

    Returns:
      The folder.

    Raises:
      OutputError: if the folder cannot be trusted or made.
    """
    if folder is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
        folder = Path(given) if given else Path(home) / "gamps" / "xla"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}. Choose another XDG_CACHE_HOME") from error
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        raise OutputError(
            f"{folder}: others can write to it, and compiled programs are run unchecked. "
            "Do chmod 700, or choose another XDG_CACHE_HOME"
        )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Small programs too: a command consists of dozens, each a fraction of a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
