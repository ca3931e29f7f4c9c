"""What Schemathesis cannot know: how to log in, how to come by coins, and which matches and rooms there are."""

import itertools
import os
import random

import requests
import schemathesis

URL = os.environ["TOUCHLINE_TEST_URL"]
HOMESERVER = os.environ["TOUCHLINE_TEST_HS_TOKEN"]
dice = random.Random(20261115)
numbers = itertools.count(dice.randrange(10_000_000))
own_rooms = []


def log_in():
    phone = f"+4479{next(numbers):08}"
    requests.post(f"{URL}/api/code/request", json={"phone": phone}, timeout=10).raise_for_status()
    log = requests.get(f"{URL}/api/logs/sms", params={"phone": phone}, timeout=10).json()
    login = {"phone": phone, "code": log["data"][0]["code"]}
    return requests.post(f"{URL}/api/code/verify", json=login, timeout=10).json()["data"]


class LoggedIn:
    def get(self, case, context):
        login = log_in()
        token, user = login["token"], login["user"]["id"]
        grant = {"user_id": user, "amount": 1_000_000, "reason": "To have some", "reference_id": "start"}
        treasury = f"{URL}/2015-03-31/functions/treasury/invocations"
        requests.post(treasury, json={"grant": grant}, timeout=10).raise_for_status()
        # A room of one's own, which nothing here leaves: there people can be invited.
        made = requests.post(
            f"{URL}/api/auth/chat-room", json={"name": "Den"}, headers={"Authorization": f"Bearer {token}"}, timeout=10
        )
        own_rooms.append(made.json()["data"]["room_id"])
        return token

    def set(self, case, data, context):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


class TheHomeserver(LoggedIn):
    def get(self, case, context):
        return HOMESERVER


# Without an interval nothing is kept: each logout ends a session of its own.
schemathesis.auth(refresh_interval=86_400).apply_to(path_regex="^/api/auth/(?!logout)")(LoggedIn)
schemathesis.auth(refresh_interval=None).apply_to(path="/api/auth/logout")(LoggedIn)
schemathesis.auth().apply_to(path_regex="^/_matrix")(TheHomeserver)

guest = log_in()
match = requests.get(
    f"{URL}/api/auth/events", params={"status": "scheduled"}, headers={"Authorization": f"Bearer {guest['token']}"}, timeout=10
).json()["data"][0]
REAL = {"event": match["id"], "chatRoom": match["chat_room_id"], "matrixRoomId": match["chat_room_id"]}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Of what is meant to be valid, half is about a match and a room that there are. And it goes without a cursor: one that is well
    formed, and of no list, is refused. What is meant not to be valid stays as it is."""
    if not (case.meta and case.meta.generation.mode.is_positive):
        return
    if case.query and "cursor" in case.query:
        del case.query["cursor"]
    if dice.random() < 0.5:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = REAL.get(name, case.path_parameters[name])
        if isinstance(case.body, dict) and "event_id" in case.body:
            case.body["event_id"] = match["id"]
        if case.operation.path.endswith("/deduct"):
            case.body = {"amount": 1, "reason": "gift"}
        if case.operation.path.endswith("/invite"):
            # The first is that of the token which all but logouts share.
            case.path_parameters["matrixRoomId"] = own_rooms[0]
            case.body = {"username": guest["user"]["username"]}


@schemathesis.hook
def after_call(context, case, response):
    if 200 <= response.status_code < 300:
        with open(os.environ["TOUCHLINE_TEST_SUCCESSES"], "a") as file:
            file.write(f"{case.operation.label}\n")
