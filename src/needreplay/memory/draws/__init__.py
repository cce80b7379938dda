"""Ways to draw from a memory, one interface (``base.Draw``), one file each."""
