"""Levels, labels and the three label modes. TRUSTED; standard library only; imports nobody here.

`SPECIFICATION.md` beside this file defines every operation with right and wrong examples.
"""

from security_lattice.errors import (
    Denied,
    LabelSyntaxError,
    LabelTooLarge,
    LatticeError,
    OrderError,
    PolicyError,
    UnknownObject,
)
from security_lattice.lattice import Lattice, Level, Order
from security_lattice.mls import MlsMode
from security_lattice.mode import LabelMode, LabelRange
from security_lattice.ownership import Grant, Kind, Ownership, Permission, Session
from security_lattice.oxrbac import OxrbacMode, Rights, Semantics, SourceSet
from security_lattice.principals import Principal, level_principals, principal_as, principal_at, role_principals
from security_lattice.rbac import RbacMode, RoleExpression, RoleSet
from security_lattice.text import is_name, read_roles

__all__ = [
    "Denied", "Grant", "Kind", "LabelMode", "LabelRange", "LabelSyntaxError", "LabelTooLarge", "Lattice",
    "LatticeError", "Level", "MlsMode", "Order", "OrderError", "Ownership", "OxrbacMode", "Permission",
    "PolicyError", "Principal", "RbacMode", "Rights", "RoleExpression", "RoleSet", "Semantics", "Session",
    "SourceSet", "UnknownObject", "is_name", "level_principals", "principal_as", "principal_at", "read_roles",
    "role_principals",
]  # fmt: skip
