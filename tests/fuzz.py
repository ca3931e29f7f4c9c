"""Looks for requests that a client alone can turn into a 5xx: changed cursors, and concurrent calls of one user.

Usage: fuzz.py URL SEED MINUTES. Schemathesis sends one request after another, and only cursors that it makes up, so it finds
neither. Prints how many responses had each status, and every response of 500 or more. Ends with status 1 if there is one.
"""

import http.client
import json
import random
import sys
import threading
import time
import urllib.parse
from collections import Counter

ADDRESS = urllib.parse.urlsplit(sys.argv[1]).netloc
SEED, UNTIL = int(sys.argv[2]), time.monotonic() + 60 * float(sys.argv[3])
USERS, THREADS, LARGEST_BURST = 6, 8, 30
local = threading.local()
statuses, failures, lock = Counter(), [], threading.Lock()


def call(method, path, token="", body=None, headers=()):
    """Returns the status and the JSON body of a response, and notes a 5xx."""
    if not hasattr(local, "connection"):
        local.connection = http.client.HTTPConnection(ADDRESS, timeout=60)
    sent = {"authorization": f"Bearer {token}", "content-type": "application/json", **dict(headers)}
    try:
        local.connection.request(method, path, body=json.dumps(body) if body is not None else None, headers=sent)
        response = local.connection.getresponse()
        status, text = response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        del local.connection
        status, text = 599, repr(error).encode()
    with lock:
        statuses[status] += 1
        if status >= 500:
            failures.append(f"{status} {method} {path} {json.dumps(body)}: {text[:200]!r}")
    try:
        return status, json.loads(text)
    except ValueError:
        return status, {}


class User:
    def __init__(self, number):
        self.phone = f"+44770090{SEED % 100:02}{number:02}"
        call("POST", "/api/code/request", body={"phone": self.phone})
        logged = call("GET", f"/api/logs/sms?per_page=1&phone={urllib.parse.quote(self.phone)}")[1]["data"]
        verify = {"phone": self.phone, "code": logged[0]["code"]}
        data = call("POST", "/api/code/verify", body=verify)[1]["data"]
        self.token, self.id, self.name = data["token"], data["user"]["id"], data["user"]["username"]

    def get(self, path):
        return call("GET", path, self.token)

    def post(self, path, body=None, headers=()):
        return call("POST", path, self.token, body, headers)


users = [User(number) for number in range(USERS)]
matches = users[0].get("/api/auth/events?status=scheduled&per_page=50")[1]["data"][1:]
rooms = []
for user in users:
    for number in range(3):
        body = {"name": f"Stand {number}", "event_id": matches[number]["id"], "is_private": number == 0}
        rooms.append(user.post("/api/auth/chat-room", body)[1]["data"]["room_id"])
    for match in matches[:4]:
        user.post("/api/auth/predictions", {"event_id": match["id"], "prediction": "home"})
for user in users:
    for room in rooms + [match["chat_room_id"] for match in matches[:3]]:
        user.post(f"/api/auth/chat-rooms/{room}/join")
    user.post("/api/auth/daily-coins")
    user.post(f"/api/auth/users/{random.choice(users).id}/block")


def lists():
    """The lists with cursors, with arguments that give them rows."""
    return [
        "users?search=fa", "users?search=us", "leaderboards?period=all", "leaderboards?period=matchday&date=2026-02-30",
        f"leaderboards?scope=room&id={rooms[1]}", "leaderboards?scope=tournament&id=1000001", "predictions?", "coins?",
        f"events/{matches[0]['id']}/predictions?", f"chat-rooms/{rooms[1]}/predictions?", "chat-rooms?", "blocks?",
        "chat-rooms?joined=true", "chat-rooms?search=st", f"chat-rooms?event_id={matches[0]['id']}",
    ]


WORDS = ["", "0", "-1", "+7", "07", "4294967295", "4294967296", "18446744073709551616", "9" * 40, "zz", "a", "~", "#", "é", "\0",
         "0000000000000-00000000", "9999999999999-ffffffff", " ", "false", "null", "1e9", "!a:b", "\U0001f3c6", "x" * 1000]


def mutated(rng, cursor):
    """Changes a cursor: its list, or its position, which is a text in hexadecimal digits."""
    try:
        of_list, position = cursor[:8], bytes.fromhex(cursor[8:]).decode()
    except ValueError:
        return cursor[:-1]
    parts = position.split(" ")
    match rng.randrange(6):
        case 0:
            return rng.choice([cursor[:-1], cursor.upper(), cursor + "0" * 4_000, "", cursor[:8], "é", "%00", cursor[8:]])
        case 1:
            parts[rng.randrange(len(parts))] = rng.choice(WORDS)
        case 2:
            parts[rng.randrange(len(parts))] += rng.choice(WORDS)
        case 3:
            parts = [rng.choice(WORDS) for _ in range(rng.randrange(1, 6))]
        case 4:
            at = rng.randrange(len(position) + 1)
            parts = [position[:at] + chr(rng.randrange(1, 0x250)) + position[at + rng.randrange(2):]]
        case 5:
            parts = ["".join(rng.choice("0123456789abcdef-# ") for _ in position)]
    return of_list + " ".join(parts).encode().hex()


def walk_with_changed_cursors(rng, user):
    path = f"/api/auth/{rng.choice(lists())}"
    cursor = user.get(f"{path}&per_page=1")[1].get("meta", {}).get("next_cursor") or "00000000" + "31".rjust(2, "0")
    for _ in range(5):
        sent = rng.choice(users) if rng.random() < 0.2 else user
        to = f"/api/auth/{rng.choice(lists())}" if rng.random() < 0.2 else path
        sent.get(f"{to}&per_page={rng.choice([1, 2, 100])}&cursor={urllib.parse.quote(mutated(rng, cursor))}")


def calls(rng, user):
    """Returns calls of one kind, of which any number can be sent at the same time."""
    room, other, match = rng.choice(rooms), rng.choice(users), rng.choice(matches)
    key, word = str(rng.randrange(3)), f"f{rng.randrange(10**9)}"
    at = f"/api/auth/chat-rooms/{room}"
    score = {"home": rng.randrange(4), "away": 0}
    return rng.choice([
        [("update-user-info", {"username": f"{word}{n}"}) for n in range(LARGEST_BURST)],
        [("update-user-info", {"name": word}), ("update-user-info", {"date_of_birth": "1990-05-17"})],
        [("predictions", {"event_id": match["id"], "prediction": pick}) for pick in ("home", "draw", "away")],
        [("predictions", {"event_id": match["id"], "prediction": "home", "score_prediction": score})],
        [("coins/deduct", {"amount": 1, "reason": "gift", "reference_id": key}), ("coins/deduct", {"amount": 1, "reason": "gift"})],
        [("daily-coins", None)],
        [("chat-room", {"name": word}, {"idempotency-key": key}.items()), ("chat-room", {"name": word})],
        [(f"{at}/join", None), (f"{at}/leave", None)],
        [(f"{at}/invite", {"user_id": other.id}), (f"{at}/leave", None)],
        [(f"{at}/invite-link", {}), (f"{at}/invite-link", {"expires_in_hours": 2})],
        [(f"users/{other.id}/block", None), (f"users/{other.id}/unblock", None)],
        [("reports", {"user_id": other.id, "reason": "spam", "text": word})],
        [("teams/primary", {"team_id": match["home_team"]["id"]}), ("teams/primary", {"team_id": match["away_team"]["id"]})],
        [("teams/other", {"team_ids": [match["home_team"]["id"]]}), ("teams/other", {"team_ids": []})],
        [("chat/credentials", None)],
        [("account/export", None), ("me", None), ("sessions", None), (f"leaderboards?scope=room&id={room}", None)],
    ])


def burst(rng, user):
    kinds = calls(rng, user)
    is_read = kinds[0][0].startswith(("account", "leader"))

    def one(number):
        path, body, *headers = kinds[number % len(kinds)]
        path = path if path.startswith("/") else f"/api/auth/{path}"
        call("GET" if is_read else "POST", path, user.token, body, *headers)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(rng.randrange(2, LARGEST_BURST + 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def work(number):
    rng = random.Random(f"{SEED} {number}")
    while time.monotonic() < UNTIL:
        user = rng.choice(users)
        burst(rng, user) if rng.random() < 0.3 else walk_with_changed_cursors(rng, user)


workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(f"seed {SEED}: {sum(statuses.values())} responses, {dict(sorted(statuses.items()))}")
print("\n".join(failures[:50]))
sys.exit(1 if failures else 0)
