"""`bellwether source`: keys of sources, made and revoked by signed changes of the policy."""

import json
import secrets
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cyclopts import App, Parameter
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from console.label import DEFAULT_TOPOLOGY, TopologyOption
from console.output import Format, print_json, say, wants_json
from console.speaker import SourceKey
from console.where import HERE, Where
from shepherd.policy import History, PolicyError, encode_change, signed_part
from shepherd.says import KEY_ID_BYTES, PROOFS, Proof
from topology import ClusterError, InputError, UnknownName, load
from topology.document import Proof as ProofName
from topology.embedded.private_files import private_directory, read_secret, write_private
from topology.kafka_plan import LOGIN_AUTHORITY
from topology.provisioning.connection import Connection
from topology.provisioning.knock import knock

app = App(name="source", help="Give sources keys, and revoke them.")
WAIT_SECONDS = 30


@app.command
def key(
    source: str,
    /,
    *,
    proof: Annotated[ProofName | None, Parameter(help="By default the strongest that its streams ask for.")] = None,
    topology: TopologyOption = DEFAULT_TOPOLOGY,
    where: Where = HERE,
    output: Format = None,
) -> None:
    """Make a key for a source and tell the lanes; earlier keys stay valid until they are revoked.

    Parameters
    ----------
    source
        The name of the source.
    """
    shape = load(topology)
    if source not in shape.sources:
        raise UnknownName(f"unknown source `{source}`")
    asked = max(PROOFS[shape.streams[stream].proof] for stream in shape.sources[source].streams)
    kind = PROOFS[proof] if proof else asked
    if kind is Proof.NONE:
        raise InputError("the proof `none` needs no key")
    name = next(text for text, number in PROOFS.items() if number is kind)
    key_id, secret = secrets.token_hex(KEY_ID_BYTES), secrets.token_bytes(32)
    public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw() if kind > Proof.HMAC else b""
    path = where.source_keys(source)
    private_directory(path.parent)
    if path.exists():
        SourceKey.read(path)  # or say that it is damaged
    kept = json.loads(path.read_text()) if path.exists() else []
    # Files first: a lane that hears of a key must find its secret.
    if kind is Proof.HMAC:
        private_directory(where.hmac_secret(key_id).parent)
        write_private(where.hmac_secret(key_id), secret.hex() + "\n")
    change = {"type": "key", "source": source, "key_id": key_id, "proof": name, "public": public.hex()}
    number = _change(where, change)
    write_private(path, json.dumps([*kept, {"proof": name, "key_id": key_id, "secret": secret.hex()}]) + "\n")
    if wants_json(output):
        print_json({"source": source, "proof": name, "key_id": key_id, "number": number, "file": str(path)})
    else:
        say(f"key {key_id} ({name}) of {source} is policy change {number}; the source's part is in {path}")


@app.command
def revoke_key(key_id: str, /, *, where: Where = HERE, output: Format = None) -> None:
    """Revoke one key: what is proven with it from now on is refused.

    Parameters
    ----------
    key_id
        The key's id, 16 hex digits.
    """
    _print_change(_change(where, {"type": "revoke-key", "key_id": key_id}), output)


@app.command
def revoke(
    source: str, /, *, topology: TopologyOption = DEFAULT_TOPOLOGY, where: Where = HERE, output: Format = None
) -> None:
    """Revoke a source: nothing that it says from now on is admitted.

    Parameters
    ----------
    source
        The name of the source.
    """
    if source not in load(topology).sources:
        raise UnknownName(f"unknown source `{source}`")
    _print_change(_change(where, {"type": "revoke-source", "source": source}), output)


def _print_change(number: int, output: Format) -> None:
    if wants_json(output):
        print_json({"number": number})
    else:
        say(f"policy change {number} is written; it holds for whatever is appended after it")


def authority(where: Where) -> Ed25519PrivateKey:
    """The key that signs policy changes; made at first use."""
    if not where.authority_key.exists():
        private_directory(where.authority_key.parent)
        made = Ed25519PrivateKey.generate()
        write_private(where.authority_key, made.private_bytes_raw().hex() + "\n")
        write_private(where.authority, made.public_key().public_bytes_raw().hex() + "\n")
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(read_secret(where.authority_key)))
    except ValueError:
        raise InputError(f"`{where.authority_key}` is damaged: it should hold 64 hex digits") from None


def _change(where: Where, change: dict[str, str]) -> int:
    """Number, sign and write a change; refused here if the lanes would ignore it."""
    door, signer = where.door(LOGIN_AUTHORITY), authority(where)
    knock(door)
    public = signer.public_key().public_bytes_raw()
    try:
        policy = _current(door, public)
        if change["type"] == "revoke-key" and not policy.knows_key(change["key_id"]):
            raise InputError(f"there is no key `{change['key_id']}`")
        number = policy.number + 1
        written = encode_change(number, change)
        record = signer.sign(signed_part(written)) + written
        policy.add(0, record)
        producer = KafkaProducer(**door.client_settings(), acks="all", enable_idempotence=False)
        try:
            producer.send("policy", record).get(timeout=WAIT_SECONDS)
        finally:
            producer.close()
    except PolicyError as error:
        raise InputError(f"such a change {error}") from None
    except KafkaError as error:
        raise ClusterError(f"the change is not written: {type(error).__name__}: {error}") from None
    return number


def _current(door: Connection, public: bytes) -> History:
    policy, place = History(public), TopicPartition("policy", 0)
    consumer = KafkaConsumer(
        **door.client_settings(), group_id=None, enable_auto_commit=False, isolation_level="read_committed"
    )
    try:
        consumer.assign([place])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for record in consumer.poll(timeout_ms=500).get(place, []):
                try:
                    policy.add(record.timestamp, record.value or b"")
                except PolicyError:
                    continue
        return policy
    finally:
        consumer.close()
