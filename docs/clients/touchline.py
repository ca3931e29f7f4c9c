"""A client of Touchline's API that needs only Python's standard library. docs/for-apps.md explains it."""

import gzip
import http.client
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 15  # Seconds. The service times out after 8.
ATTEMPTS = 4
LONGEST_WAIT = 10  # Seconds. If the service asks for more, the user should know and decide.


class TouchlineError(Exception):
    """An error response. Show `message` to the user; decide by `code`."""

    def __init__(self, status, body):
        self.status, self.code, self.errors = status, body.get("code", ""), body.get("errors", {})
        self.message = body.get("message", "Something went wrong.")
        self.retry_after = body.get("retry_after", 0)
        super().__init__(f"{status} {self.code}: {self.message}")


class Touchline:
    def __init__(self, url, token=None):
        self.url, self.token = url, token
        self.cache = {}  # The ETag and the body of each GET.

    def request_code(self, phone):
        # A repeated request would send a second SMS and invalidate the first code.
        return self.call("POST", "/api/code/request", {"phone": phone}, repeatable=False)["data"]

    def verify(self, phone, code, **details):
        login = self.call("POST", "/api/code/verify", {"phone": phone, "code": code, **details})["data"]
        self.token, self.cache = login["token"], {}
        return login

    def choose_username(self, username):
        return self.call("POST", "/api/auth/update-user-info", {"username": username})

    def matches(self, **query):
        return self.call("GET", "/api/auth/events", include="my_prediction,picks", **query)

    def match(self, event_id):
        return self.call("GET", f"/api/auth/events/{event_id}", include="my_prediction,picks")["data"]

    def predict(self, event_id, prediction, home=None, away=None):
        score = None if home is None else {"home": home, "away": away}
        body = {"event_id": event_id, "prediction": prediction, "score_prediction": score}
        return self.call("POST", "/api/auth/predictions", body)["data"]

    def wait_for_points(self, event_id, every=30):
        """Returns the caller's prediction when it is settled. A void match is settled without points."""
        while (prediction := self.match(event_id)["my_prediction"]) and not prediction["reason"]:
            time.sleep(every)
        return prediction

    def leaderboard_around_me(self, **query):
        return self.call("GET", "/api/auth/leaderboards", around="me", **query)

    def accept_invite_link(self, code):
        return self.call("POST", f"/api/auth/invite-links/{urllib.parse.quote(code, safe='')}/accept")["data"]

    def call(self, method, path, body=None, repeatable=True, **query):
        """Sends a request. Repeats it after a temporary error, if that is harmless."""
        url = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        for attempt in range(ATTEMPTS):
            final = attempt == ATTEMPTS - 1 or not repeatable
            try:
                return self.send(method, url, body)
            except TouchlineError as error:
                if error.code.startswith("token_"):
                    self.token = None  # Show the login.
                is_temporary = error.status in (429, 500, 502, 503, 504)
                if final or not is_temporary or error.retry_after > LONGEST_WAIT:
                    raise
                wait = error.retry_after
            except (OSError, http.client.HTTPException, ValueError):  # No response, or not one of Touchline.
                if final:
                    raise
                wait = 0
            time.sleep(wait + random.uniform(0, 0.5 * 2**attempt))

    def send(self, method, url, body):
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        etag, cached = self.cache.get(url, (None, None)) if method == "GET" else (None, None)
        if etag:
            headers["If-None-Match"] = etag
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                result = decode(response)
                if method == "GET" and response.headers["ETag"]:
                    self.cache[url] = (response.headers["ETag"], result)
                return result
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:
                    return cached
                raise TouchlineError(error.code, decode(error)) from None


def decode(response):
    body = response.read()
    if response.headers["Content-Encoding"] == "gzip":
        body = gzip.decompress(body)
    return json.loads(body)
