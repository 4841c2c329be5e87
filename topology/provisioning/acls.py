"""ACLs on a cluster, as plain numbers: a kind that this client does not know must not hide the rest."""

from collections.abc import Iterable
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from topology.errors import ProvisionError
from topology.provisioning.drift import Binding

_ANY = 1  # Kafka's number for "any" in filters
_DENY, _ALLOW = 2, 3
_WITH_USERS = 3  # the version of the requests from which ACLs on users are part


def stored_bindings(admin: KafkaAdminClient) -> frozenset[Binding]:
    """Every ACL that the cluster holds."""
    response = _send(
        admin,
        DescribeAclsRequest(
            min_version=_WITH_USERS, resource_type_filter=_ANY, resource_name_filter=None, pattern_type_filter=_ANY,
            principal_filter=None, host_filter=None, operation=_ANY, permission_type=_ANY,
        ),
    )  # fmt: skip
    _check(response.error_code, response.error_message)
    return frozenset(
        Binding(
            acl.principal, acl.host, acl.operation, acl.permission_type == _ALLOW,
            resource.resource_type, resource.resource_name, resource.pattern_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )  # fmt: skip


def plant(admin: KafkaAdminClient, bindings: Iterable[Binding]) -> None:
    """Create ACLs."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=b.resource_type, resource_name=b.resource_name, resource_pattern_type=b.pattern_type,
            principal=b.principal, host=b.host, operation=b.operation, permission_type=_ALLOW if b.allow else _DENY,
        )
        for b in bindings
    ]  # fmt: skip
    for result in _send(admin, CreateAclsRequest(min_version=_WITH_USERS, creations=creations)).results:
        _check(result.error_code, result.error_message)


def uproot(admin: KafkaAdminClient, bindings: Iterable[Binding]) -> None:
    """Delete ACLs."""
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=b.resource_type, resource_name_filter=b.resource_name,
            pattern_type_filter=b.pattern_type, principal_filter=b.principal, host_filter=b.host,
            operation=b.operation, permission_type=_ALLOW if b.allow else _DENY,
        )
        for b in bindings
    ]  # fmt: skip
    for result in _send(admin, DeleteAclsRequest(min_version=_WITH_USERS, filters=filters)).filter_results:
        _check(result.error_code, result.error_message)


def _send(admin: KafkaAdminClient, request: Any) -> Any:
    # The client's own methods turn every number into an enumeration, and fail on one that is newer than they are.
    manager = admin._manager  # noqa: SLF001
    return manager.run(manager.send, request)


def _check(code: int, message: str | None) -> None:
    error = kafka_errors.for_code(code)
    if code and issubclass(error, (kafka_errors.ClusterAuthorizationFailedError, kafka_errors.SecurityDisabledError)):
        raise error
    if code:
        raise ProvisionError(f"the cluster refused an ACL request: {error.__name__} {message or ''}".rstrip())
