"""``show map``: what every byte of a file is for - its figures, its lines for a terminal, and an SVG."""
