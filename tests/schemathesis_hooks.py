"""Logs in for Schemathesis: once for all, and anew for each logout, which ends what it is given."""

import itertools
import os
import random

import requests
import schemathesis

URL = os.environ["TOUCHLINE_TEST_URL"]
numbers = itertools.count(random.Random(20261115).randrange(10_000_000))


def log_in():
    phone = f"+4479{next(numbers):08}"
    requests.post(f"{URL}/api/code/request", json={"phone": phone}, timeout=10).raise_for_status()
    log = requests.get(f"{URL}/api/logs/sms", params={"phone": phone}, timeout=10).json()
    login = {"phone": phone, "code": log["data"][0]["code"]}
    return requests.post(f"{URL}/api/code/verify", json=login, timeout=10).json()["data"]["token"]


class LoggedIn:
    def get(self, case, context):
        return log_in()

    def set(self, case, data, context):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


schemathesis.auth(refresh_interval=None).apply_to(path_regex="^/api/auth/(?!logout)")(LoggedIn)
schemathesis.auth(refresh_interval=0).apply_to(path="/api/auth/logout")(LoggedIn)
