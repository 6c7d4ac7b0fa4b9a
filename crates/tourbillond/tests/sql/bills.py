"""Pays bills in transactions of psycopg. `programs.rs` beside it starts this, and kills it."""

import sys
from datetime import datetime, timezone

import psycopg

PAYMENT = [
    "UPDATE bill SET paid = true WHERE number = %(number)s",
    "SELECT tourbillon.cancel(%(remind)s)",
    "SELECT tourbillon.reschedule(%(collect)s, %(later)s)",
    "SELECT tourbillon.once('bill', 'infinity', name => %(thank)s)",
    "SELECT tourbillon.complete(t.id, t.attempt, t.node, t.epoch)"
    " FROM tourbillon.timer AS t WHERE t.name = %(check)s",
    "SELECT tourbillond.call_shop(%(ship)s, %(url)s, NULL, now(), 'GET')",
]

address, url = sys.stdin.readline().split()
with psycopg.connect(address) as connection:
    for line in sys.stdin:
        number, end = line.split()
        values = {"number": int(number), "url": url}
        values["later"] = datetime(2199, 1, 1, tzinfo=timezone.utc)
        for name in ["remind", "collect", "thank", "check", "ship"]:
            values[name] = f"{name}-{number}"
        with connection.transaction():
            for sql in PAYMENT:
                connection.execute(sql, values)
            print("open", flush=True)
            if end == "wait":
                sys.stdin.read()
            if end == "rollback":
                raise psycopg.Rollback
        print("ended", flush=True)
