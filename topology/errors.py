"""Every error of this package; messages are one line and say what would be right.

TopologyError
├── DeclarationError    `bellwether.yaml` is wrong, with the place in the file
├── InputError          an argument or a file that was named is wrong
├── UnknownName         a site or example that is not there (or not for the asker)
├── JarError            a jar is missing, corrupt or cannot be fetched
├── BrokerError         the embedded broker cannot start, run or stop
└── ClusterError        a Kafka cluster refuses us or cannot be reached
    ├── LoginRefused    the user or its password is not accepted
    └── ProvisionError  the cluster cannot be brought in line with the topology
"""


class TopologyError(Exception):
    """Base of all errors of this package."""


class DeclarationError(TopologyError):
    """A declared topology is wrong; `place` is `file:line:column` and `path` the keys that lead there."""

    def __init__(self, place: str, path: str, message: str) -> None:
        super().__init__(f"{place}: {path}: {message}" if path else f"{place}: {message}")
        self.place = place
        self.path = path
        self.message = message


class InputError(TopologyError):
    """An argument, or a file that an argument names, is wrong; nothing was done."""


class UnknownName(TopologyError):
    """A name is unknown, or not visible to who asks: the text is the same either way."""


class JarError(TopologyError):
    """A jar is missing, does not match its locked sum, or cannot be fetched."""


class BrokerError(TopologyError):
    """The embedded broker cannot start, run or stop."""


class ClusterError(TopologyError):
    """A Kafka cluster cannot be reached, or does not accept who we say we are."""


class LoginRefused(ClusterError):
    """A cluster was reached, and does not accept the user with this password."""


class ProvisionError(ClusterError):
    """A cluster cannot be brought in line with the topology."""
