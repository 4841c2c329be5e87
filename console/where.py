"""Where a cluster is and where its files are: the options that commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from console.broker import DEFAULT_DATA, broker_directory
from topology import InputError
from topology.embedded.home import Home
from topology.provisioning.connection import Connection
from topology.provisioning.secrets import Secrets


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """The embedded cluster of a directory, or another one with its files in that directory."""

    data: Annotated[Path, Parameter(name=["--data", "-d"], help="The directory that holds the cluster's files.")] = (
        DEFAULT_DATA
    )
    bootstrap: Annotated[str | None, Parameter(help="`host:port` of a cluster that is not the embedded one.")] = None
    ca: Annotated[Path | None, Parameter(help="The certificate authority of that cluster, a PEM file.")] = None
    secrets: Annotated[Path | None, Parameter(help="Where the principals' passwords are; with --bootstrap.")] = None

    def door(self, principal: str) -> Connection:
        """How a principal reaches the cluster."""
        if self.bootstrap is None:
            if self.ca or self.secrets:
                raise InputError("`--ca` and `--secrets` go with `--bootstrap`")
            home = Home(broker_directory(self.data).resolve())
            connection, kept = home.connection(), Secrets(home.secrets / "principals")
            return Connection(connection.bootstrap, connection.authority, principal, kept.password(principal))
        if self.ca is None or self.secrets is None:
            raise InputError("`--bootstrap` needs `--ca` and `--secrets` too")
        return Connection(self.bootstrap, self.ca, principal, Secrets(self.secrets).password(principal))

    @property
    def authority_key(self) -> Path:
        """The key that signs policy changes; the login authority's alone."""
        return self.data / "authority" / "private.key"

    @property
    def authority(self) -> Path:
        """The public half, which every lane holds."""
        return self.data / "authority" / "public.key"

    def hmac_secret(self, key_id: str) -> Path:
        """An HMAC secret as lanes find it."""
        return self.data / "hmac" / f"{key_id}.secret"

    def source_keys(self, source: str) -> Path:
        """The keys of a source, as its client finds them."""
        return self.data / "sources" / f"{source}.json"


HERE = Where()
