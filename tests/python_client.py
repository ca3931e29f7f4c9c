"""Runs the Python client of docs/clients through a match, against the local stack at the given URL.

A proxy between the two records the responses. It can drop a response after the stack has sent it, as a mobile network does, or
respond in the stack's place.
"""

import http.server
import json
import pathlib
import sys
import threading
import time
import types
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "docs" / "clients"))
import touchline
from touchline import Touchline, TouchlineError

STACK = sys.argv[1]
DEADLINE = time.monotonic() + 600

waits = []


def no_sleep(seconds):
    """Records a wait of the client instead of waiting."""
    assert time.monotonic() < DEADLINE, "the client waits for too long"
    waits.append(seconds)


touchline.time = types.SimpleNamespace(sleep=no_sleep)


class Proxy(http.server.BaseHTTPRequestHandler):
    responses = []  # Of the stack: the method, the path, the status and the encoding.
    drop_next = False
    respond_next = None  # A status and a body.

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        if Proxy.respond_next:
            status, text = Proxy.respond_next
            Proxy.respond_next = None
            return self.reply(status, {}, json.dumps(text).encode())
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        request = urllib.request.Request(STACK + self.path, body, headers, method=self.command)
        try:
            response = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            content = response.read()
        path = self.path.split("?")[0]
        Proxy.responses.append((self.command, path, response.status, response.headers["Content-Encoding"]))
        if Proxy.drop_next:
            Proxy.drop_next = False
            self.close_connection = True
            return None
        return self.reply(response.status, response.headers, content)

    def reply(self, status, headers, content):
        self.send_response(status)
        for name in ("ETag", "Content-Type", "Content-Encoding"):
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = forward

    def log_message(self, *_):
        pass


proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{proxy.server_address[1]}"


def step(text):
    Proxy.responses.clear()
    waits.clear()
    print(f"- {text}", flush=True)


def statuses(path):
    return [status for _, at, status, _ in Proxy.responses if at == path]


def invoke(function, payload):
    request = urllib.request.Request(f"{STACK}/2015-03-31/functions/{function}/invocations", json.dumps(payload).encode())
    with urllib.request.urlopen(request) as response:
        result = json.load(response)
        assert response.headers["x-amz-function-error"] is None, result
    return result


def rejected(call):
    try:
        call()
    except TouchlineError as error:
        return error
    raise AssertionError("the request succeeded")


def equal(found, expected):
    assert found == expected, f"expected {expected}, found {found}"


def codes(client, phone):
    return [entry["code"] for entry in client.call("GET", "/api/logs/sms", phone=phone)["data"]]


def logged_in(phone, username):
    client = Touchline(URL)
    equal(client.request_code(phone), {"expires_in": 300})
    login = client.verify(phone, codes(client, phone)[0], device_name="Python")
    assert client.token == login["token"]
    client.choose_username(username)
    return client


step("a user logs in with the code from the SMS and chooses a username")
alice = logged_in("+447700900411", "python_alice")
equal(alice.call("GET", "/api/auth/me")["data"]["username"], "python_alice")
# The chat credentials of the login have the generated username.
assert alice.call("POST", "/api/auth/chat/credentials")["data"]["user_id"].startswith("@python_alice:")

step("a request for a code is not repeated after a lost response")
Proxy.drop_next = True
try:
    alice.request_code("+447700900412")
except OSError:
    equal(statuses("/api/code/request"), [200])
else:
    raise AssertionError("the lost response was not reported")
equal(len(codes(alice, "+447700900412")), 1)

step("an unchanged list is 304, and long lists are compressed")
teams = alice.call("GET", "/api/auth/teams")
equal(alice.call("GET", "/api/auth/teams"), teams)
equal([response[2:] for response in Proxy.responses], [(200, "gzip"), (304, None)])
assert teams["data"], teams

step("the user predicts a match, and the response is lost")
# The first match may start during the test.
match = next(match for match in alice.matches(status="scheduled")["data"][1:] if match["my_prediction"] is None)
assert "picks" in match, match
Proxy.drop_next = True
prediction = alice.predict(match["id"], "home", 2, 1)
equal(statuses("/api/auth/predictions"), [201, 200])
equal((prediction["prediction"], prediction["score_prediction"]), ("home", {"home": 2, "away": 1}))
assert len(waits) == 1 and 0 <= waits[0] <= 0.5, waits
equal([row["event_id"] for row in alice.call("GET", "/api/auth/predictions")["data"]], [match["id"]])
equal(alice.match(match["id"])["my_prediction"]["id"], prediction["id"])

step("after a temporary error the client waits for retry_after and retries, and a long wait raises the error")
Proxy.respond_next = (503, {"message": "Busy.", "code": "busy", "retry_after": 3})
equal(alice.predict(match["id"], "home", 2, 1)["id"], prediction["id"])
assert len(waits) == 1 and 3 <= waits[0] <= 3.5, waits
Proxy.respond_next = (429, {"message": "Wait.", "code": "rate_limited", "retry_after": 60})
equal(rejected(lambda: alice.predict(match["id"], "home", 2, 1)).retry_after, 60)
equal((len(waits), statuses("/api/auth/predictions")), (1, [200]))

step("an invalid prediction is rejected with a sentence, and not repeated")
error = rejected(lambda: alice.predict(match["id"], "home", 0, 3))
equal((error.status, error.code, list(error.errors)), (422, "validation_error", ["score_prediction"]))
assert match["home_team"]["name"] in error.message, error.message
equal((statuses("/api/auth/predictions"), waits), ([422], []))

step("the match ends, and the user gets the points")
# The kick-off stays in the future: a prediction that was made after the kick-off earns no points.
result = {
    "id": match["id"], "tournament_id": match["tournament_id"], "home_team_id": match["home_team"]["id"],
    "away_team_id": match["away_team"]["id"], "start_time": match["start_time"],
    "status": "finished", "home_score": 2, "away_score": 1,
}
equal(invoke("feed", {"format": "touchline", "events": [result]})["rejected"], 0)
invoke("points", {"event_id": match["id"]})
settled = alice.wait_for_points(match["id"])
equal((settled["reason"], settled["points_earned"]), ("exact", 4))
equal(rejected(lambda: alice.predict(match["id"], "away")).code, "event_started")

step("the user sees the rows around their own row of the leaderboard")
while True:
    assert time.monotonic() < DEADLINE, "the leaderboard does not have the user"
    invoke("standings", {})
    board = alice.leaderboard_around_me()
    own = [row for row in board["data"] if row["user"]["username"] == "python_alice"]
    if own:
        break
equal((own[0]["points"], own[0]["exact"], own[0]), (4, 1, board["meta"]["me"]))

step("a second user joins a private room with an invite link, and the response is lost")
bob = logged_in("+447700900413", "python_bob")
room = alice.call("POST", "/api/auth/chat-room", {"name": "Python league", "is_private": True})["data"]["room_id"]
link = alice.call("POST", f"/api/auth/chat-rooms/{room}/invite-link")["data"]
Proxy.drop_next = True
equal(bob.accept_invite_link(link["code"].lower()), {"room_id": room, "membership": "join"})
equal([status for _, path, status, _ in Proxy.responses if path.endswith("/accept")], [200, 200])
equal([row["room_id"] for row in bob.call("GET", "/api/auth/chat-rooms", joined="true")["data"]], [room])
equal(rejected(lambda: bob.accept_invite_link("AAAAAAAAAAAA")).code, "invite_link_not_found")

step("a retry after a lost response neither pays nor deducts coins twice")
Proxy.drop_next = True
equal(rejected(lambda: bob.call("POST", "/api/auth/daily-coins")).code, "already_claimed")
Proxy.drop_next = True
spent = bob.call("POST", "/api/auth/coins/deduct", {"amount": 4, "reason": "gift", "reference_id": "a-gift"})["data"]
equal((spent["previous_balance"], spent["new_balance"]), (10, 6))
equal(statuses("/api/auth/coins/deduct"), [200, 200])
equal([entry["amount"] for entry in bob.call("GET", "/api/auth/coins")["data"]["entries"]], [-4, 10])

step("after the end of the session, the client has no token")
other = Touchline(URL, bob.token)
bob.call("POST", "/api/auth/logout")
equal((rejected(lambda: other.matches()).code, other.token), ("token_invalid", None))
