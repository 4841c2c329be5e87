"""A certificate authority of the cluster's own, and the broker's certificate."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from topology.embedded.private_files import write_private
from topology.errors import BrokerError

AUTHORITY_DAYS = 3650
BROKER_DAYS = 365
RENEW_DAYS = 30  # a broker started this close to the end gets a new certificate
_SKEW = datetime.timedelta(minutes=5)  # between the clocks of whoever issues and whoever checks


@dataclass(frozen=True)
class Certificates:
    """The files of one cluster's certificates."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, which clients must trust."""
        return self.directory / "ca.crt"

    @property
    def _authority_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def keystore(self) -> Path:
        """The broker's key and certificate chain in one PEM file, as Kafka reads it."""
        return self.directory / "broker.pem"

    def ensure(self, hosts: list[str], days: int = BROKER_DAYS) -> bool:
        """Make what is missing or about to expire; say whether the broker's certificate is new."""
        if self.authority.exists() != self._authority_key.exists():
            lost = self._authority_key if self.authority.exists() else self.authority
            raise BrokerError(f"`{lost}` is missing: restore it, or remove the other half too for a new authority")
        if not self.authority.exists():
            key, certificate = _new_authority()
            write_private(self._authority_key, _pem(key))
            write_private(self.authority, certificate.public_bytes(serialization.Encoding.PEM))
            self.keystore.unlink(missing_ok=True)
        if self.keystore.exists() and self.expiry() > _now() + datetime.timedelta(days=RENEW_DAYS):
            return False
        self.issue(hosts, _now() + datetime.timedelta(days=days))
        return True

    def issue(self, hosts: list[str], until: datetime.datetime) -> None:
        """Give the broker a new key and certificate for these host names and addresses."""
        try:
            authority_key = serialization.load_pem_private_key(self._authority_key.read_bytes(), password=None)
            authority = x509.load_pem_x509_certificate(self.authority.read_bytes())
        except ValueError:
            raise BrokerError(f"`{self._authority_key}` or its certificate is damaged: restore them") from None
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name("bellwether broker"))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(_now(), until) - _SKEW)
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        chain = b"".join(part.public_bytes(serialization.Encoding.PEM) for part in (certificate, authority))
        write_private(self.keystore, _pem(key) + chain)

    def expiry(self) -> datetime.datetime:
        """When the broker's certificate expires."""
        try:
            return x509.load_pem_x509_certificates(self.keystore.read_bytes())[0].not_valid_after_utc
        except (ValueError, IndexError):
            raise BrokerError(f"`{self.keystore}` is damaged: remove it, the next start makes it anew") from None


def _new_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("bellwether cluster authority")
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - _SKEW)
        .not_valid_after(_now() + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
