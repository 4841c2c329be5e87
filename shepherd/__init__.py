"""TRUSTED: the only code that sees more than one level. Lanes copy tuples to the level logs that may have them."""
