"""Clients and servers of the protocols' gRPC services, made from their descriptors."""

from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass


def stub(messages: ModuleType, service: str, channel: Any) -> Any:
    """Return an object with a method for each RPC of the service, which calls the server of the channel."""
    return SimpleNamespace(
        **{
            method.name: (channel.unary_stream if method.server_streaming else channel.unary_unary)(
                f"/{method.containing_service.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            for method in _methods(messages, service)
        }
    )


def serve(messages: ModuleType, service: str, servicer: Any, server: Any) -> None:
    """Add the service to a server. gRPC answers RPCs for which the servicer has no method with Unimplemented."""
    handlers = {}
    for method in _methods(messages, service):
        if not hasattr(servicer, method.name):
            continue
        handler = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = handler(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    name = messages.DESCRIPTOR.services_by_name[service].full_name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))


def _methods(messages: ModuleType, service: str) -> Any:
    return messages.DESCRIPTOR.services_by_name[service].methods
