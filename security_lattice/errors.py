"""Every error of this package.

LatticeError
├── OrderError         a declared order is not a lattice
├── LabelSyntaxError   a text is not a label; has the offset of the fault
├── LabelTooLarge      a label would outgrow its limits
└── PolicyError        an ownership change or request is refused
    ├── UnknownObject  the object is absent, or the session may not see it: nobody can tell which
    └── Denied         the session lacks a permission on an object it may see
"""


class LatticeError(ValueError):
    """Base of all errors of this package; messages are one line."""


class OrderError(LatticeError):
    """A declared order has a cycle, lacks a bound or a least level, or holds a bad name."""


class LabelSyntaxError(LatticeError):
    """A text is not a label; `offset` counts characters from 0 to the first one at fault."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class LabelTooLarge(LatticeError):
    """A combination would exceed the limits on labels (SPECIFICATION.md section 2)."""


class PolicyError(LatticeError):
    """An ownership change or request is refused."""


class UnknownObject(PolicyError):
    """The object is absent or invisible; the text is the same either way."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown object `{name}`")


class Denied(PolicyError):
    """A permission is missing on an object that the session may see."""
