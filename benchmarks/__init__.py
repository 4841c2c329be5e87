"""Measurements: what a part costs, always as a ratio to something simpler that ran beside it."""
