"""What an application does that popped its keys from Redis, with redis-py."""

import sys
import redis

port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, decode_responses=True, client_name="shop")
    assert client.ping() is True
    key = client.lpop("links")
    assert len(key) == 7, key
    assert len(set(client.lpop("links", 100))) == 100
    assert len(client.spop("links", 5)) == 5
    assert len(client.rpop("links")) == 7
    first = client.incr("tickets")
    assert client.incr("tickets") == first + 1
    assert client.incrby("tickets", 10) == first + 11
    assert client.llen("links") > 1_000_000_000
    assert client.scard("links") > 1_000_000_000
    assert client.type("links") == "list"
    assert client.type("tickets") == "string"
    assert client.exists("links", "nothing") == 1
    assert client.client_getname() == "shop"
    assert client.client_id() > 0
    assert client.echo("hi") == "hi"
    info = client.info()
    assert info["redis_version"] == "7.0.0" and info["loading"] == 0, info
    assert "keymill_version" in info
    with client.pipeline(transaction=False) as pipe:
        for _ in range(500):
            pipe.lpop("links")
        assert len(set(pipe.execute())) == 500
    for command, expected in [
        (lambda: client.lpop("nothing"), "there is no keyspace"),
        (lambda: client.incr("links"), "is no sequence"),
        (lambda: client.flushall(), "unknown command"),
        (lambda: client.lpop("links", 10001), "limits.count_max"),
    ]:
        try:
            command()
        except redis.ResponseError as error:
            assert expected in str(error), error
        else:
            raise AssertionError(expected)
    client.close()
# A password that nobody asked for is a misunderstanding; a user without a password may have any.
redis.Redis(port=port, username="any", password="token").ping()
try:
    redis.Redis(port=port, password="token", protocol=2).ping()
except redis.AuthenticationError as error:
    assert "without any password configured" in str(error), error
else:
    raise AssertionError("a password that is not configured was taken")
print("ok")
