"""Hooks that let Schemathesis reach the logic of the endpoints: they log in, grant coins, and insert ids that exist."""

import itertools
import os
import random

import requests
import schemathesis

URL = os.environ["TOUCHLINE_TEST_URL"]
HS_TOKEN = os.environ["TOUCHLINE_TEST_HS_TOKEN"]
# Seconds. Generous, because a busy machine can be slow to respond.
TIMEOUT = 60
rng = random.Random(int(os.environ["TOUCHLINE_TEST_SEED"]))
phone_numbers = itertools.count(rng.randrange(10_000_000))
# Maps the token of each login to the room that the login created. There can be several logins, because Schemathesis
# logs in again after some 401 responses.
rooms_by_token = {}
# The phone number of each login, by its token.
phones_by_token = {}


def log_in(phone=None):
    phone = phone or f"+4479{next(phone_numbers):08}"
    requests.post(f"{URL}/api/code/request", json={"phone": phone}, timeout=TIMEOUT).raise_for_status()
    log = requests.get(f"{URL}/api/logs/sms", params={"phone": phone}, timeout=TIMEOUT).json()
    login = {"phone": phone, "code": log["data"][0]["code"]}
    return requests.post(f"{URL}/api/code/verify", json=login, timeout=TIMEOUT).json()["data"]


class UserAuth:
    """Authenticates as a new user who has coins to spend and a room to invite others to."""

    def get(self, case, context):
        login = log_in()
        token, user = login["token"], login["user"]["id"]
        phones_by_token[token] = login["user"]["phone"]
        grant = {"user_id": user, "amount": 1_000_000, "reason": "Test balance", "reference_id": "start"}
        treasury = f"{URL}/2015-03-31/functions/treasury/invocations"
        requests.post(treasury, json={"grant": grant}, timeout=TIMEOUT).raise_for_status()
        room = requests.post(
            f"{URL}/api/auth/chat-room", json={"name": "Den"}, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT
        )
        rooms_by_token[token] = room.json()["data"]["room_id"]
        return token

    def set(self, case, data, context):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


class HomeserverAuth(UserAuth):
    def get(self, case, context):
        return HS_TOKEN


# The endpoints under /api/auth share one login, except two. Logout revokes its token, and the request for a deletion uses up
# the codes of its phone, so each of their requests gets a new login.
schemathesis.auth(refresh_interval=86_400).apply_to(path_regex="^/api/auth/(?!logout|account/delete$)")(UserAuth)
schemathesis.auth(refresh_interval=None).apply_to(path_regex="^/api/auth/(logout|account/delete)$")(UserAuth)
schemathesis.auth().apply_to(path_regex="^/_matrix")(HomeserverAuth)

guest = log_in()
match = requests.get(
    f"{URL}/api/auth/events", params={"status": "scheduled"}, headers={"Authorization": f"Bearer {guest['token']}"}, timeout=TIMEOUT
).json()["data"][1]  # The first one may kick off during the run.
room = f"{URL}/api/auth/chat-rooms/{match['chat_room_id']}"
as_guest = {"Authorization": f"Bearer {guest['token']}"}
requests.post(f"{room}/join", headers=as_guest, timeout=TIMEOUT).raise_for_status()
link = requests.post(f"{room}/invite-link", json={}, headers=as_guest, timeout=TIMEOUT).json()["data"]
EXISTING_IDS = {
    "event": match["id"],
    "chatRoom": match["chat_room_id"],
    "matrixRoomId": match["chat_room_id"],
    "userId": guest["matrix_credentials"]["user_id"],
    "user": guest["user"]["id"],
    "code": link["code"],
}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Changes valid requests so that they can succeed. All of them lose their cursor, because the API rejects a
    well-formed cursor that does not belong to the list, and a Matrix id that Schemathesis took from another response as the
    number `user_id`. Half of them also get ids that exist and, for three endpoints, a body that can succeed. Invalid
    requests stay as they are."""
    if not (case.meta and case.meta.generation.mode.is_positive):
        return
    if case.query and "cursor" in case.query:
        del case.query["cursor"]
    if case.query and str(case.query.get("user_id", "")).startswith("@"):
        del case.query["user_id"]
    if rng.random() < 0.5:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = EXISTING_IDS.get(name, case.path_parameters[name])
        # A profile has a text in its path, and the other endpoints have the id of the user as a number.
        if case.operation.path == "/api/auth/users/{user}":
            case.path_parameters["user"] = guest["user"]["username"]
        if isinstance(case.body, dict) and "event_id" in case.body:
            case.body["event_id"] = match["id"]
        if case.operation.path.endswith("/deduct"):
            case.body = {"amount": 1, "reason": "gift"}
        if case.operation.path.endswith("/reports"):
            case.body = {"user_id": guest["user"]["id"], "reason": "spam"}
        token = (case.headers or {}).get("Authorization", "").removeprefix("Bearer ")
        # Once for each login, because a phone gets few codes.
        if case.operation.path.endswith("/revoke") and token in phones_by_token:
            session = log_in(phones_by_token.pop(token))["matrix_credentials"]["device_id"]
            case.path_parameters["session"] = session
        if case.operation.path.endswith("/invite-link"):
            case.path_parameters["chatRoom"] = rooms_by_token.get(token, match["chat_room_id"])
        if case.operation.path.endswith("/invite"):
            case.path_parameters["matrixRoomId"] = rooms_by_token.get(token, match["chat_room_id"])
            case.body = {"username": guest["user"]["username"]}


@schemathesis.hook
def after_call(context, case, response):
    if 200 <= response.status_code < 300:
        with open(os.environ["TOUCHLINE_TEST_SUCCESSES"], "a") as file:
            file.write(f"{case.operation.label}\n")
