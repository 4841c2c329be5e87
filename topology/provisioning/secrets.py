"""The passwords that provisioning gives out, and the record of what it made."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from topology.embedded.private_files import read_secret, write_private
from topology.errors import ProvisionError
from topology.kafka_plan import SiteRecord
from topology.provisioning.drift import Record


@dataclass(frozen=True)
class Secrets:
    """The passwords that provisioning gave out, and the record of what it made."""

    directory: Path

    def password_file(self, principal: str) -> Path:
        """Where a principal's password is."""
        return self.directory / f"{principal}.password"

    def password(self, principal: str) -> str:
        """A principal's password."""
        return read_secret(self.password_file(principal))

    def at_hand(self, principals: Iterable[str]) -> frozenset[str]:
        """The principals whose password is here."""
        return frozenset(name for name in principals if self.password_file(name).exists())

    def record(self) -> Record:
        """What was made so far."""
        path = self.directory / "provisioned.json"
        if not path.exists():
            return Record()
        try:
            data = json.loads(path.read_text())
            sites = {n: SiteRecord(part["subject"], frozenset(part["holds"])) for n, part in data["sites"].items()}
            topics, users = frozenset(data["topics"]), frozenset(data["users"])
            return Record(data["cluster_id"], data["topology"], topics, users, sites)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProvisionError(f"`{path}` is damaged: restore it, or remove it and use `--adopt`") from None

    def write_record(self, record: Record) -> None:
        """Keep what was made."""
        data = {
            "cluster_id": record.cluster_id,
            "topology": record.topology,
            "topics": sorted(record.topics),
            "users": sorted(record.users),
            "sites": {n: {"subject": s.subject, "holds": sorted(s.holds)} for n, s in record.sites.items()},
        }
        write_private(self.directory / "provisioned.json", json.dumps(data, indent=1) + "\n")
