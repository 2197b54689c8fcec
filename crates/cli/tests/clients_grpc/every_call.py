"""Every call of keymill.v1 as grpcio makes it, from the .proto file alone.

Arguments: the server's address, and the folder of the .proto files.
"""

import sys
import threading

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

address, protos = sys.argv[1:]
sys.path.insert(0, protos)
pb, services = grpc.protos_and_services("keymill/v1/keymill.proto")

channel = grpc.insecure_channel(address)
keymill = services.KeymillStub(channel)
WITHIN = 20  # seconds; no call takes that long


def refused(status, code, call, request, **options):
    """Whoever is refused learns the status, the code and the next step."""
    try:
        answer = call(request, **{"timeout": WITHIN, **options})
        list(answer) if hasattr(answer, "__next__") else None
    except grpc.RpcError as error:
        trailers = dict(error.trailing_metadata())
        assert error.code() == status, (error.code(), error.details())
        assert trailers.get("keymill-code") == code, (trailers, error.details())
        assert error.details(), code
        assert ("retry-after" in trailers) == (status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)), trailers
        return error.details()
    raise AssertionError(f"{code}: it was not refused")


def takes():
    seen = set()
    for keyspace, count in [("links", 0), ("links", 1), ("links", 10_000), ("tickets", 3), ("events", 3), ("uuids", 3)]:
        keys = keymill.Take(pb.TakeRequest(keyspace=keyspace, count=count), timeout=WITHIN).keys
        assert len(keys) == max(count, 1), (keyspace, len(keys))
        assert len(set(keys)) == len(keys) and seen.isdisjoint((keyspace, key) for key in keys)
        seen.update((keyspace, key) for key in keys)
    return seen


def in_batches(batches):
    """The keys of a stream as text, whatever form they came in."""
    for batch in batches:
        form = batch.WhichOneof("keys")
        if form == "text":
            text, stride = batch.text.joined.decode(), batch.text.stride
            assert stride > 0 and len(text) % stride == 0
            yield form, [text[at : at + stride] for at in range(0, len(text), stride)]
        elif form == "numbers":
            yield form, [str(value) for value in batch.numbers.values]
        else:
            run = batch.run
            yield form, [str(run.first + n * run.step) for n in range(run.count)]


def streams(seen):
    for keyspace, form in [("links", "text"), ("tickets", "run"), ("events", "numbers"), ("uuids", "text"), ("invoices", "text")]:
        request = pb.StreamRequest(keyspace=keyspace, count=2500, batch=400)
        keys = []
        for came, batch in in_batches(keymill.Stream(request, timeout=WITHIN)):
            assert came in (form, "numbers"), (keyspace, came)
            assert len(batch) <= 400
            keys += batch
        assert len(keys) == len(set(keys)) == 2500, (keyspace, len(keys), len(set(keys)))
        assert seen.isdisjoint((keyspace, key) for key in keys)
        if keyspace in ("tickets", "events"):
            assert keys == sorted(keys, key=int), f"{keyspace} rise"
        seen.update((keyspace, key) for key in keys)

    endless = keymill.Stream(pb.StreamRequest(keyspace="links"))
    sizes = [len(batch) for (_, batch), _ in zip(in_batches(endless), range(5))]
    endless.cancel()
    assert sizes == [1000] * 5, sizes

    # The caller's deadline ends an endless stream.
    ended = keymill.Stream(pb.StreamRequest(keyspace="tickets", batch=10), timeout=0.3)
    try:
        for _ in ended:
            pass
        raise AssertionError("an endless stream came to an end")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error


def inspects():
    key = keymill.Take(pb.TakeRequest(keyspace="links")).keys[0]
    found = keymill.Inspect(pb.InspectRequest(keyspace="links", key=key), timeout=WITHIN)
    assert (found.keyspace, found.key, found.state) == ("links", key, "issued"), found
    assert found.number.isdigit() and found.node and found.reserved_at.endswith("Z"), found
    uuid = keymill.Take(pb.TakeRequest(keyspace="uuids")).keys[0]
    found = keymill.Inspect(pb.InspectRequest(keyspace="uuids", key=uuid), timeout=WITHIN)
    assert (found.state, found.number, found.node) == ("untracked", "", ""), found


def refusals():
    C = grpc.StatusCode
    take, stream, inspect = keymill.Take, keymill.Stream, keymill.Inspect
    refused(C.NOT_FOUND, "keyspace_not_found", take, pb.TakeRequest(keyspace="nowhere"))
    refused(C.NOT_FOUND, "keyspace_not_found", take, pb.TakeRequest())
    refused(C.NOT_FOUND, "keyspace_not_found", stream, pb.StreamRequest(keyspace="NOT A NAME \N{SNOWMAN}"))
    refused(C.NOT_FOUND, "key_not_found", inspect, pb.InspectRequest(keyspace="links", key="no key"))
    refused(C.NOT_FOUND, "key_not_found", inspect, pb.InspectRequest(keyspace="links", key="\N{SNOWMAN}" * 5000))
    refused(C.OUT_OF_RANGE, "retired", take, pb.TakeRequest(keyspace="gone"))
    refused(C.OUT_OF_RANGE, "retired", stream, pb.StreamRequest(keyspace="gone"))
    detail = refused(C.INVALID_ARGUMENT, "count_out_of_range", take, pb.TakeRequest(keyspace="links", count=10_001))
    assert "limits.count_max" in detail, detail
    refused(C.INVALID_ARGUMENT, "count_out_of_range", take, pb.TakeRequest(keyspace="links", count=2**32 - 1))
    refused(C.INVALID_ARGUMENT, "count_out_of_range", stream, pb.StreamRequest(keyspace="links", batch=10_001))
    detail = refused(C.INVALID_ARGUMENT, "body_too_large", take, pb.TakeRequest(keyspace="x" * 100_000))
    assert "limits.body_bytes" in detail, detail
    refused(C.FAILED_PRECONDITION, "wrong_scheme", keymill.LeaseWorker, pb.LeaseWorkerRequest(keyspace="links", holder="me"))
    # A tiny pool: the last keys, then none ever again.
    left = list(keymill.Take(pb.TakeRequest(keyspace="tiny", count=90), timeout=WITHIN).keys)
    refused(C.OUT_OF_RANGE, "exhausted", take, pb.TakeRequest(keyspace="tiny", count=20))
    left += keymill.Take(pb.TakeRequest(keyspace="tiny", count=10), timeout=WITHIN).keys
    assert len(set(left)) == 100, left
    refused(C.OUT_OF_RANGE, "exhausted", take, pb.TakeRequest(keyspace="tiny"))
    refused(C.OUT_OF_RANGE, "exhausted", stream, pb.StreamRequest(keyspace="tiny"))
    # A message that is not one, and a call that is none.
    raw = channel.unary_unary("/keymill.v1.Keymill/Take", request_serializer=bytes, response_deserializer=bytes)
    refused(C.INVALID_ARGUMENT, "invalid_request", raw, b"\x0a\xff\xff\xff")
    unknown = channel.unary_unary("/keymill.v1.Keymill/Give", request_serializer=bytes, response_deserializer=bytes)
    refused(C.UNIMPLEMENTED, "route_not_found", unknown, b"")
    elsewhere = channel.unary_unary("/other.v1.Other/Take", request_serializer=bytes, response_deserializer=bytes)
    refused(C.UNIMPLEMENTED, "route_not_found", elsewhere, b"")


def leases():
    C = grpc.StatusCode
    ask = pb.LeaseWorkerRequest(keyspace="events", holder="python", window_ms=2000)
    first = keymill.LeaseWorker(ask, timeout=WITHIN)
    second = keymill.LeaseWorker(ask, timeout=WITHIN)
    assert first.worker != second.worker and first.lease_id != second.lease_id
    assert (first.layout, first.tick_ms, first.region, first.ttl_ms) == ("time:41 worker:10 sequence:12", 1, 0, 15_000), first
    assert first.epoch_ms == 1_767_225_600_000, first  # 2026-01-01
    assert first.window_end - first.window_start == 2000, first
    again = lambda lease, **other: pb.RenewWorkerRequest(**{"keyspace": "events", "worker": lease.worker, "lease_id": lease.lease_id, **other})
    renewed = keymill.RenewWorker(again(first), timeout=WITHIN)
    assert (renewed.worker, renewed.lease_id) == (first.worker, first.lease_id)
    assert renewed.window_start >= first.window_end, "the next window lies above the last"
    refused(C.INVALID_ARGUMENT, "invalid_field", keymill.RenewWorker, again(first, lease_id=second.lease_id))
    refused(C.INVALID_ARGUMENT, "invalid_field", keymill.RenewWorker, again(first, lease_id="0-1-00000000"))
    refused(C.INVALID_ARGUMENT, "invalid_field", keymill.RenewWorker, again(first, window_ms=2**31))
    refused(C.INVALID_ARGUMENT, "invalid_field", keymill.LeaseWorker, pb.LeaseWorkerRequest(keyspace="events"))
    refused(C.INVALID_ARGUMENT, "invalid_field", keymill.LeaseWorker, pb.LeaseWorkerRequest(keyspace="events", holder="x" * 64))
    release = pb.ReleaseWorkerRequest(keyspace="events", worker=first.worker, lease_id=first.lease_id)
    keymill.ReleaseWorker(release, timeout=WITHIN)
    refused(C.FAILED_PRECONDITION, "lease_lost", keymill.RenewWorker, again(first))
    refused(C.FAILED_PRECONDITION, "lease_lost", keymill.ReleaseWorker, release)
    # An ID of a window that was lent: nobody here can know whether it was made.
    made = first.window_start << 22 | first.worker << 12
    found = keymill.Inspect(pb.InspectRequest(keyspace="events", key=str(made)), timeout=WITHIN)
    assert (found.state, found.number) == ("uncertain", str(first.window_start)), found


def many_at_once(seen):
    """Threads on one connection: no two get the same key."""
    lists = [[] for _ in range(8)]

    def work(keys):
        for _ in range(50):
            keys += keymill.Take(pb.TakeRequest(keyspace="links", count=20), timeout=WITHIN).keys

    threads = [threading.Thread(target=work, args=(keys,)) for keys in lists]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    keys = [("links", key) for keys in lists for key in keys]
    assert len(set(keys)) == len(keys) == 8000 and seen.isdisjoint(keys)


def about_itself():
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "keymill.v1.Keymill"):
        status = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WITHIN).status
        assert status == health_pb2.HealthCheckResponse.SERVING, status
    try:
        health.Check(health_pb2.HealthCheckRequest(service="other"), timeout=WITHIN)
        raise AssertionError("it knows a service it does not have")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error

    reflection = ProtoReflectionDescriptorDatabase(channel)
    assert {"keymill.v1.Keymill", "grpc.health.v1.Health"} <= set(reflection.get_services()), reflection.get_services()
    service = descriptor_pool.DescriptorPool(reflection).FindServiceByName("keymill.v1.Keymill")
    assert service.FindMethodByName("Stream").output_type.full_name == "keymill.v1.KeyBatch"


seen = takes()
streams(seen)
inspects()
refusals()
leases()
many_at_once(seen)
about_itself()
print("every call was answered")
