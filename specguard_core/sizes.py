"""Amounts of memory in words."""


def size_text(n_bytes: int) -> str:
    """`1.2 MiB`."""
    size, units = float(n_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}" if units[0] != "B" else f"{n_bytes} B"
