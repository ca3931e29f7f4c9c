"use strict";
// The matchday console: the app on the left, developer tools on the right. No framework, no build step.

const $ = (selector, within = document) => within.querySelector(selector);

/**
 * Creates an element: `h("button", { class: "primary", onclick: go }, "Go")`.
 * Strings become text nodes, so text from users cannot inject HTML.
 */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

const state = {
  token: sessionStorage.getItem("token"),
  user: JSON.parse(sessionStorage.getItem("user") ?? "null"),
  tab: "matches",
  filter: "scheduled",
  /** What the table shows: "global", "tournament 12" or "room !abc:example.org". */
  scope: "global",
  period: "all",
  isAroundMe: false,
  /** The match that was opened last. The controls change this match, even while the app shows another screen. */
  match: null,
  isMatchShown: false,
};

// Requests to the local stack

/** An error response of the API. */
class ApiError extends Error {
  constructor(status, body) {
    super(body.message);
    Object.assign(this, { status, code: body.code });
  }
}

async function call(method, path, body, { token = state.token, headers = {} } = {}) {
  const request = fetch(path, {
    method,
    headers: {
      ...headers,
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { "content-type": "application/json" }),
    },
    body: body && JSON.stringify(body),
  });
  const response = await request.catch(() => {
    throw new Error("The local stack does not respond. Start it again with cargo run, then retry.");
  });
  const json = await response.json();
  if (response.ok) return json;
  if (response.status === 401 && token && token === state.token) endSession();
  throw new ApiError(response.status, json);
}

/** Invokes a Lambda function that has no HTTP route, as `aws lambda invoke` does. */
async function invoke(name, payload) {
  const result = await call("POST", `/2015-03-31/functions/${name}/invocations`, payload, { token: null });
  // Lambda responds with 200 even if the function fails. The error is in the body.
  if (result?.errorType) throw new Error(`${name} failed: ${result.errorMessage}`);
  return result;
}

let noticeTimer;

/** Shows a message. It leaves after some seconds: errors stay longer, because they say what to do. */
function showNotice(text, isBad = false) {
  const notice = $("#notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { notice.textContent = ""; }, isBad ? 12_000 : 6_000);
}

/** Returns a number with its noun: `1 request`, `2 requests`. */
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

const busy = new Set();

/** Returns an event handler that runs `action`. The button is disabled during the action. Errors appear as notices. */
const handler = (action) => async (event) => {
  event.preventDefault();
  const element = event.currentTarget;
  const button = event.submitter ?? element;
  if (busy.has(element)) return;
  busy.add(element);
  button.disabled = true;
  try {
    await action(element, event);
  } catch (error) {
    showNotice(error.message, true);
  } finally {
    busy.delete(element);
    button.disabled = false;
    drawControls();
  }
};

// Login

function saveLogin(login) {
  state.token = login.token;
  state.user = login.user;
  sessionStorage.setItem("token", state.token);
  sessionStorage.setItem("user", JSON.stringify(state.user));
}

function endSession() {
  state.token = state.user = state.match = null;
  sessionStorage.clear();
  location.reload();
}

function prepareLoginForm() {
  const form = $("#login");
  form.addEventListener("submit", handler(async () => {
    const phone = form.phone.value;
    await call("POST", "/api/code/request", { phone });
    showNotice("Your code is in the SMS inbox.");
    enterCode(phone);
  }));
}

function enterCode(phone) {
  show(
    h("form", {
      class: "card welcome",
      onsubmit: handler(async (form) => {
        const { data, message } = await call("POST", "/api/code/verify", { phone, code: form.code.value });
        saveLogin(data);
        showNotice(message ?? `Welcome, ${data.user.username}.`);
        const isNew = Date.now() - Date.parse(data.user.created_at) < 60_000;
        await (isNew ? chooseUsername() : openTab("matches"));
      }),
    },
      h("h2", {}, "Enter the code"),
      h("p", {}, `Sent to ${phone}.`),
      h("label", { for: "code" }, "Code"),
      h("input", {
        id: "code", name: "code", inputmode: "numeric", autocomplete: "one-time-code", maxlength: 6, required: true,
      }),
      h("button", { class: "primary" }, "Log in"),
      h("div", { class: "chips" },
        h("button", {
          type: "button",
          onclick: handler(async () => {
            await call("POST", "/api/code/request", { phone });
            showNotice("A new code is in the SMS inbox.");
          }),
        }, "Send a new code"),
        h("button", { type: "button", onclick: () => location.reload() }, "Change the number")),
    ),
  );
  drawInbox().catch(() => {});
}

async function chooseUsername() {
  const { suggestions } = await call("POST", "/api/auth/username/generate", { base: state.user.username });
  const availability = h("p", { class: "hint", role: "status", id: "availability" }, "3 to 30 characters: letters, digits, _ and .");
  const input = h("input", {
    id: "username", name: "username", value: state.user.username, autocomplete: "username",
    "aria-describedby": "availability", required: true,
  });
  let timer;
  const check = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try {
        const { message } = await call("POST", "/api/auth/username/check", { username: input.value });
        availability.textContent = message;
      } catch (error) {
        availability.textContent = error.message;
      }
    }, 250);
  };
  input.addEventListener("input", check);
  show(
    h("form", {
      class: "card welcome",
      onsubmit: handler(async () => {
        if (input.value !== state.user.username) {
          await call("POST", "/api/auth/update-user-info", { username: input.value });
          const { data } = await call("GET", "/api/auth/me");
          saveLogin({ token: state.token, user: data });
        }
        showNotice(`Your username is ${state.user.username}.`);
        await openTab("matches");
      }),
    },
      h("h2", {}, "Choose a username"),
      h("label", { for: "username" }, "Username"),
      input,
      availability,
      h("div", { class: "chips", role: "group", "aria-label": "Suggestions" }, suggestions.map((name) =>
        h("button", { type: "button", onclick: () => { input.value = name; check(); } }, name))),
      h("button", { class: "primary" }, "Save username"),
    ),
  );
}

// The app's screens

const TABS = { matches, predictions, standings, coins, teams, me };
const TITLES = { matches: "Matches", predictions: "My picks", standings: "Table", coins: "Coins", teams: "Teams", me: "Profile" };

/** Counts navigations. A screen does not draw if the count has changed while it loaded: the user has moved on. */
let navigations = 0;

/**
 * Shows a screen. A new screen starts at the top and takes the focus. An updated screen keeps its scroll position
 * and focus.
 */
function show(...children) {
  const screen = $("#screen");
  const [shownBefore, scrollTop] = [screen.dataset.shown, screen.scrollTop];
  const label = (element) => element.getAttribute("aria-label") ?? element.textContent;
  const focused = screen.contains(document.activeElement) && label(document.activeElement);
  const shown = `${state.tab} ${state.isMatchShown ? state.match.id : ""} ${children[0]?.className ?? ""}`;
  screen.replaceChildren(...children.filter(Boolean));
  screen.dataset.shown = shown;
  if (shownBefore === shown) {
    screen.scrollTop = scrollTop;
    if (focused) [...screen.querySelectorAll("button")].find((button) => label(button) === focused)?.focus({ preventScroll: true });
    return;
  }
  screen.scrollTop = 0;
  const title = $("h2, h3", screen);
  const first = $("form.welcome input", screen) ?? title ?? $("#app");
  if (first === title) title.tabIndex = -1;
  first.focus({ preventScroll: true });
}

async function openTab(tab) {
  navigations += 1;
  state.tab = tab;
  state.isMatchShown = false;
  const tabs = $("#tabs");
  tabs.hidden = false;
  tabs.replaceChildren(...Object.keys(TABS).map((name) =>
    h("button", {
      type: "button", "aria-current": name === tab ? "page" : null,
      onclick: handler(() => { showNotice(""); return openTab(name); }),
    }, TITLES[name])));
  await TABS[tab]();
}

const timeFormat = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const scoreText = (match) => match.home_score == null ? "–" : `${match.home_score} : ${match.away_score}`;
const STATUSES = {
  scheduled: "Kick-off", live: "Live", finished: "Full time", postponed: "Postponed", cancelled: "Cancelled", abandoned: "Abandoned",
};
const statusName = ({ status }) => STATUSES[status] ?? status;
const statusText = (match) =>
  match.status === "live" ? h("span", { class: "live" }, "● Live") : `${statusName(match)} · ${timeFormat.format(new Date(match.start_time))}`;

async function matches() {
  const navigation = navigations;
  const { data } = await call("GET", `/api/auth/events?status=${state.filter}&per_page=20`);
  if (navigation !== navigations) return;
  const filters = { live: "Live", scheduled: "Upcoming", finished: "Finished" };
  show(
    h("h2", {}, "Matches"),
    h("div", { class: "chips", role: "group", "aria-label": "Status of the matches" }, Object.entries(filters).map(([name, title]) =>
      h("button", {
        type: "button", "aria-pressed": String(name === state.filter),
        onclick: handler(() => { state.filter = name; return matches(); }),
      }, title))),
    h("ul", { class: "list" }, data.map((match) =>
      h("li", {}, h("button", { type: "button", class: "match", onclick: handler(() => openMatch(match.id)) },
        h("span", {}, h("b", {}, match.home_team.name), h("b", {}, match.away_team.name),
          h("small", {}, match.tournament.name, " · ", statusText(match))),
        h("span", { class: "score" }, scoreText(match)))))),
    data.length === 0 && h("p", { class: "hint" }, "No matches."),
  );
}

async function openMatch(id) {
  const navigation = (navigations += 1);
  const [{ data: match }, everyone, mine, { data: rooms }] = await Promise.all([
    call("GET", `/api/auth/events/${id}`),
    call("GET", `/api/auth/events/${id}/predictions?per_page=10`),
    call("GET", `/api/auth/events/${id}/predictions?user_id=${state.user.id}`),
    call("GET", `/api/auth/chat-rooms?joined=true&event_id=${id}`),
  ]);
  if (navigation !== navigations) return;
  state.match = match;
  state.isMatchShown = true;
  drawControls();
  const own = mine.data[0];
  show(
    h("button", { type: "button", class: "back", onclick: handler(() => openTab("matches")) }, "← Matches"),
    h("div", { class: "versus" },
      h("h3", {}, match.home_team.name), h("span", { class: "score" }, scoreText(match)), h("h3", {}, match.away_team.name)),
    h("p", { class: "hint" }, match.tournament.name, " · ", statusText(match), match.venue ? ` · ${match.venue}` : ""),
    match.status === "scheduled" ? predictForm(match, own) : predictionOutcome(own, match),
    predictionShares(everyone.meta, match),
    joinButton(match, rooms.find(({ room_id }) => room_id === match.chat_room_id)),
    everyone.data.length > 0 && h("section", { class: "card", "aria-label": "Predictions" },
      h("h3", {}, "Predictions by fans"),
      h("ul", { class: "list" }, everyone.data.map((row) => h("li", { class: "between" },
        h("span", {}, row.user.username, h("small", {}, ` ${pickText(row, match)} · ${row.confidence} % sure`)),
        row.points_earned != null && h("span", { class: "points" }, `${row.points_earned} pts`))))),
  );
}

/** Names the pick of a prediction: the team that wins, or a draw, and the score. */
const pickText = ({ prediction, score_prediction: score }, match) =>
  ({ home: match.home_team.name, draw: "Draw", away: match.away_team.name })[prediction] + (score ? ` ${score.home} : ${score.away}` : "");

function predictionOutcome(own, match) {
  if (!own) return h("p", { class: "card" }, "You did not predict this match.");
  return h("section", { class: "card", id: "outcome", "aria-label": "Your prediction" },
    h("p", {}, "You predicted ", h("b", {}, pickText(own, match)), ` and were ${own.confidence} % sure.`),
    own.points_earned == null
      ? h("p", { class: "hint" }, "You get your points after the match.")
      : h("p", { class: "big points" }, count(own.points_earned, "point")));
}

function predictForm(match, own) {
  const pick = (value, title) => h("label", {},
    h("input", { type: "radio", name: "prediction", value, required: true, checked: own?.prediction === value }), title);
  const goals = (side, team) => h("label", {}, team,
    h("input", { type: "number", name: side, min: 0, max: 99, inputmode: "numeric", value: own?.score_prediction?.[side] ?? "" }));
  const confidenceText = h("output", { for: "confidence" }, `${own?.confidence ?? 50} %`);
  return h("form", {
    class: "card", id: "predict",
    onsubmit: handler(async (form) => {
      const { prediction, home, away, confidence } = Object.fromEntries(new FormData(form));
      const body = { event_id: match.id, prediction, confidence: Number(confidence) };
      if ((home === "") !== (away === "")) throw new Error("Enter the goals of both teams, or of none.");
      if (home !== "") body.score_prediction = { home: Number(home), away: Number(away) };
      const { message } = await call("POST", "/api/auth/predictions", body);
      showNotice(message);
      await openMatch(match.id);
    }),
  },
    h("fieldset", {}, h("legend", {}, "Who wins?"),
      h("div", { class: "picks" }, pick("home", match.home_team.name), pick("draw", "Draw"), pick("away", match.away_team.name))),
    h("fieldset", {}, h("legend", {}, "Exact score (optional)"),
      h("div", { class: "goals" }, goals("home", "Home"), goals("away", "Away"))),
    h("div", { class: "between" }, h("label", { for: "confidence" }, "How sure are you?"), confidenceText),
    h("input", {
      id: "confidence", name: "confidence", type: "range", min: 0, max: 100, step: 5, value: own?.confidence ?? 50,
      oninput: (event) => { confidenceText.textContent = `${event.target.value} %`; },
    }),
    h("button", { class: "primary" }, own ? "Change my prediction" : "Predict"),
  );
}

function predictionShares(meta, match) {
  const total = meta.total_predictions;
  const names = { home: match.home_team.name, draw: "Draw", away: match.away_team.name };
  return h("section", { class: "card", "aria-labelledby": "shares" },
    h("h3", { id: "shares" }, "What fans predict ", h("small", {}, total ? `${count(total, "prediction")} · ${Math.round(meta.average_confidence)} % sure on average` : "Nobody has predicted yet.")),
    h("dl", { class: "bars" }, Object.entries(names).flatMap(([side, name]) => {
      const share = total ? Math.round(100 * meta.prediction_distribution[side] / total) : 0;
      const bar = h("i");
      bar.style.cssText = `width: ${share}%; --hue: var(--${side})`;
      return [h("dt", {}, name), h("dd", { class: "track", "aria-hidden": "true" }, bar), h("dd", {}, `${share} %`)];
    })));
}

function joinButton(match, joined) {
  if (joined) return h("p", { class: "hint", id: "join" }, `You are in the chat room of this match · ${count(joined.member_count, "member")}`);
  return h("button", { type: "button", id: "join", onclick: handler(() => join(match)) }, "Join the chat room");
}

async function join(match) {
  try {
    await call("POST", `/api/auth/chat-rooms/${encodeURIComponent(match.chat_room_id)}/join`, {});
    showNotice("You joined the chat room.");
  } catch (error) {
    if (error.code !== "already_a_member") throw error;
    showNotice("You are already in the chat room.");
  }
  const { data } = await call("GET", `/api/auth/chat-rooms/${encodeURIComponent(match.chat_room_id)}/member-stats`);
  $("#join").replaceWith(joinButton(match, { member_count: data.total_members }));
}

async function predictions() {
  const navigation = navigations;
  const { data } = await call("GET", "/api/auth/predictions");
  if (navigation !== navigations) return;
  show(
    h("h2", {}, "My predictions"),
    h("ul", { class: "list" }, data.map((row) =>
      h("li", {}, h("button", { type: "button", class: "match", onclick: handler(() => openMatch(row.event_id)) },
        h("span", {}, h("b", {}, `${row.event.home_team.name} – ${row.event.away_team.name}`),
          h("small", {}, `${pickText(row, row.event)} · ${row.confidence} % sure · `, statusText(row.event), ` ${scoreText(row.event)}`)),
        h("span", { class: "score" }, row.points_earned == null ? "…" : `${row.points_earned} pts`))))),
    data.length === 0 && h("p", { class: "hint" }, "No predictions yet. Open an upcoming match to make one."),
  );
}

const PERIODS = { all: "All time", season: "Season", month: "Month", matchday: "Matchday" };

async function standings() {
  const navigation = navigations;
  const [{ data: tournaments }, { data: rooms }] = await Promise.all([
    call("GET", "/api/auth/tournaments?per_page=50"),
    call("GET", "/api/auth/chat-rooms?joined=true&per_page=50"),
  ]);
  const room = rooms.find(({ room_id }) => state.scope === `room ${room_id}`);
  // The table of one match has no periods.
  const hasPeriods = room?.league !== "match";
  const [scope, id] = state.scope.split(" ");
  const query = new URLSearchParams({ scope, period: hasPeriods ? state.period : "all" });
  if (id) query.set("id", id);
  if (state.isAroundMe) query.set("around", "me");
  const page = await call("GET", `/api/auth/leaderboards?${query}`);
  if (navigation !== navigations) return;
  const choose = (change) => handler(() => { Object.assign(state, change); return standings(); });
  const option = (value, text) => h("option", { value, selected: value === state.scope }, text);
  const list = h("ol", { class: "list standings" }, page.data.map(standingsRow));
  const { me, total, as_of } = page.meta;
  const isAway = me && !page.data.some(({ user }) => user.id === me.user.id);
  show(
    h("h2", {}, "Table"),
    h("label", { for: "scope" }, "Who and which matches"),
    h("select", { id: "scope", onchange: handler((select) => { state.scope = select.value; return standings(); }) },
      option("global", "All fans, all matches"),
      tournaments.length > 0 && h("optgroup", { label: "Tournaments" }, tournaments.map(({ id, name }) => option(`tournament ${id}`, name))),
      rooms.length > 0 && h("optgroup", { label: "My rooms" }, rooms.map(({ room_id, name }) => option(`room ${room_id}`, name)))),
    hasPeriods && h("div", { class: "chips", role: "group", "aria-label": "Period" }, Object.entries(PERIODS).map(([name, title]) =>
      h("button", { type: "button", "aria-pressed": String(name === state.period), onclick: choose({ period: name }) }, title))),
    h("div", { class: "chips", role: "group", "aria-label": "Rows" },
      h("button", { type: "button", "aria-pressed": String(!state.isAroundMe), onclick: choose({ isAroundMe: false }) }, "From the top"),
      h("button", { type: "button", "aria-pressed": String(state.isAroundMe), onclick: choose({ isAroundMe: true }) }, "Around me")),
    list,
    page.meta.next_cursor && moreButton(query, list, page.meta.next_cursor),
    isAway && h("ol", { class: "list standings", "aria-label": "Me" }, standingsRow(me)),
    page.data.length === 0 && h("p", { class: "hint" }, state.isAroundMe && total > 0
      ? "You are not in this table yet: none of your predictions has points."
      : "Nobody is in this table yet. It shows a match within a minute after its points were calculated."),
    as_of && h("p", { class: "hint" }, `${count(total, "fan")} · as of ${timeFormat.format(new Date(as_of))}`),
  );
}

function standingsRow({ rank, user, points, correct, settled, exact, moved }) {
  const places = Math.abs(moved ?? 0) === 1 ? "place" : "places";
  const move = moved > 0 ? ["▲", `up ${moved} ${places}`, "up"] : moved < 0 ? ["▼", `down ${-moved} ${places}`, "down"] : null;
  return h("li", { class: "between", "aria-current": user.id === state.user.id ? "true" : null },
    h("b", { class: "rank" }, String(rank)),
    h("span", { class: "fan" }, h("b", {}, user.username),
      h("small", {}, settled ? ` ${correct} of ${settled} right · ${exact} exact` : " no results yet")),
    move && h("span", { class: `moved ${move[2]}` }, h("span", { "aria-hidden": "true" }, `${move[0]} ${Math.abs(moved)}`), h("span", { class: "hidden" }, move[1])),
    h("span", { class: "points" }, `${points} pts`));
}

/** A button that adds the next page of a table to its list. */
function moreButton(query, list, cursor) {
  return h("button", {
    type: "button",
    onclick: handler(async (button) => {
      query.set("cursor", cursor);
      const { data, meta } = await call("GET", `/api/auth/leaderboards?${query}`);
      list.append(...data.map(standingsRow));
      cursor = meta.next_cursor;
      button.hidden = !cursor;
    }),
  }, "Show more");
}

/**
 * Returns a unique reference for a deduction. Does not use `crypto.randomUUID`, because that needs HTTPS or
 * localhost, and a phone opens this page by IP address over HTTP.
 */
const newReferenceId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const REASONS = { gift: "Gift", purchase: "Purchase", bet: "Bet" };

/** Names an entry of the coin history. */
function entryText({ type, reason }) {
  if (type === "daily") return "Daily bonus";
  if (type === "grant") return reason ? `Received · ${reason}` : "Received";
  return REASONS[reason] ?? reason ?? "Spent";
}

async function coins() {
  const navigation = navigations;
  const { data } = await call("GET", "/api/auth/coins");
  if (navigation !== navigations) return;
  const isReady = Date.parse(data.next_claim_at) <= Date.now();
  show(
    h("h2", {}, "Coins"),
    h("section", { class: "card", "aria-label": "Balance" },
      h("p", { class: "big" }, count(data.balance, "coin")),
      h("p", {}, `Streak: ${count(data.streak_days, "day")}`),
      h("p", { class: "hint" }, isReady ? "Today's bonus is ready." : `Next bonus: ${timeFormat.format(new Date(data.next_claim_at))}`)),
    h("button", {
      type: "button", class: "primary", disabled: !isReady,
      onclick: handler(async () => {
        const { data: claimed } = await call("POST", "/api/auth/daily-coins", {});
        showNotice(`You received ${claimed.coins_awarded} coins for day ${claimed.streak_days} of your streak.`);
        await coins();
      }),
    }, "Claim today's coins"),
    h("button", {
      type: "button",
      onclick: handler(async () => {
        const deduction = { amount: 5, reason: "gift", reference_id: newReferenceId() };
        const { data: spent } = await call("POST", "/api/auth/coins/deduct", deduction);
        showNotice(`You gave away 5 coins. ${spent.new_balance} left.`);
        await coins();
      }),
    }, "Give away 5 coins"),
    h("section", { class: "card", "aria-label": "History" }, h("h3", {}, "History"),
      data.entries.length === 0 && h("p", { class: "hint" }, "No entries yet."),
      h("ul", { class: "list" }, data.entries.map((entry) => h("li", { class: "between" },
        h("span", {}, entryText(entry), h("small", {}, ` ${timeFormat.format(new Date(entry.created_at))}`)),
        h("b", {}, `${entry.amount > 0 ? "+" : ""}${entry.amount}`))))),
  );
}

async function teams() {
  const navigation = navigations;
  const { data: user } = await call("GET", "/api/auth/me");
  if (navigation !== navigations) return;
  const others = new Map(user.other_teams.map((team) => [team.id, team]));
  const list = h("ul", { class: "list" });
  let latestSearch = 0;
  const load = async (search) => {
    const query = search ? `&search=${encodeURIComponent(search)}` : "";
    const thisSearch = (latestSearch += 1);
    const { data } = await call("GET", `/api/auth/teams?per_page=30${query}`);
    if (thisSearch !== latestSearch) return;
    if (data.length === 0) {
      list.replaceChildren(h("li", { class: "hint" }, `No team matches “${search}”.`));
      return;
    }
    list.replaceChildren(...data.map((team) => h("li", { class: "card between" },
      h("span", {}, h("b", {}, team.name), h("small", {}, ` ${[team.sport.name, team.country].filter(Boolean).join(" · ")}`)),
      h("span", { class: "chips" },
        h("button", {
          type: "button", "aria-pressed": String(user.primary_team?.id === team.id), "aria-label": `My team: ${team.name}`,
          onclick: handler(async () => {
            const { message } = await call("POST", "/api/auth/teams/primary", { team_id: team.id });
            user.primary_team = team;
            showNotice(message);
            await load(search);
          }),
        }, "My team"),
        h("button", {
          type: "button", "aria-pressed": String(others.has(team.id)), "aria-label": `Follow ${team.name}`,
          onclick: handler(async () => {
            const selected = new Map(others);
            if (!selected.delete(team.id)) selected.set(team.id, team);
            const { message } = await call("POST", "/api/auth/teams/other", { team_ids: [...selected.keys()] });
            others.clear();
            selected.forEach((value, id) => others.set(id, value));
            showNotice(message);
            await load(search);
          }),
        }, "Follow")))));
  };
  let timer;
  show(
    h("h2", {}, "Teams"),
    h("label", { for: "search" }, "Search"),
    h("input", {
      id: "search", type: "search",
      oninput: (event) => { clearTimeout(timer); timer = setTimeout(() => load(event.target.value.trim()).catch((error) => showNotice(error.message, true)), 200); },
    }),
    list,
  );
  await load("");
}

async function me() {
  const navigation = navigations;
  const { data } = await call("GET", "/api/auth/me");
  if (navigation !== navigations) return;
  show(
    h("h2", {}, data.username),
    h("section", { class: "card", "aria-label": "My profile" },
      h("p", {}, data.phone),
      h("p", {}, data.primary_team ? `Team: ${data.primary_team.name}` : "No team yet."),
      h("p", {}, data.other_teams.length ? `Follows ${data.other_teams.map((team) => team.name).join(", ")}` : "Follows no other teams.")),
    h("button", { type: "button", onclick: handler(chooseUsername) }, "Change my username"),
    h("button", {
      type: "button",
      onclick: handler(async () => { await call("POST", "/api/auth/logout", {}); endSession(); }),
    }, "Log out"),
  );
}

// Developer tools: the match controls

function drawControls() {
  const match = state.match;
  $("#controls").hidden = !match;
  // Only the next legal steps: a finished match cannot kick off again, and only its result can be corrected.
  const legal = {
    scheduled: ["kick-off", "fans"], live: ["home", "away", "finish"], finished: ["correct", "points"],
  }[match?.status] ?? [];
  for (const control of document.querySelectorAll("[data-do]")) {
    const isLegal = legal.includes(control.dataset.do);
    for (const button of control.tagName === "FORM" ? control.elements : [control]) button.disabled = !isLegal;
  }
  $("#controls-match").textContent = match
    ? `${match.home_team.name} – ${match.away_team.name} · ${statusName(match)} · ${scoreText(match)}`
    : "Open a match in the app to control it here.";
}

/** Reloads the match and the screen that the app shows. */
async function refresh() {
  const { id } = state.match;
  if (state.isMatchShown) return openMatch(id);
  state.match = (await call("GET", `/api/auth/events/${id}`)).data;
  drawControls();
  return TABS[state.tab]();
}

/** Sends a change of the match to `feed`, as a results service would. */
async function report(change) {
  const { id, tournament_id, home_team, away_team, start_time, status, home_score, away_score } = state.match;
  const event = {
    id, tournament_id, home_team_id: home_team.id, away_team_id: away_team.id, start_time, status,
    ...(home_score != null && { home_score, away_score }), ...change,
  };
  const result = await invoke("feed", { format: "touchline", events: [event] });
  if (result.rejected) throw new Error(`feed rejected the change: ${result.reasons.map((reason) => reason.reason ?? JSON.stringify(reason)).join("; ")}`);
  await refresh();
}

const addGoal = (side) => {
  const { home_score, away_score } = state.match;
  const next = { home_score: home_score ?? 0, away_score: away_score ?? 0, status: "live" };
  next[`${side}_score`] += 1;
  return next;
};
/** The start time, or now if the match has not started: a match cannot be live before its start. */
const startTime = () => {
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  return state.match.start_time > now ? now : state.match.start_time;
};

const CONTROLS = {
  "kick-off": async () => { await report({ status: "live", start_time: startTime(), home_score: 0, away_score: 0 }); showNotice("Kick-off. Predictions are closed."); },
  home: () => report({ ...addGoal("home"), start_time: startTime() }),
  away: () => report({ ...addGoal("away"), start_time: startTime() }),
  finish: async () => {
    const { home_score, away_score } = state.match;
    await report({ status: "finished", start_time: startTime(), home_score: home_score ?? 0, away_score: away_score ?? 0 });
    showNotice("Full time.");
  },
  correct: async (form) => {
    const result = { home_score: Number(form.home.value), away_score: Number(form.away.value) };
    await report({ status: "finished", start_time: startTime(), ...result });
    showNotice(`Result corrected to ${result.home_score} : ${result.away_score}. Calculate the points again.`);
  },
  points: async () => {
    const { matches: [settled] } = await invoke("points", { event_id: state.match.id });
    await refresh();
    if (state.match.status !== "finished") throw new Error("Finish the match first.");
    showNotice(`Points calculated for ${settled.scored} predictions.`);
  },
  fans: async () => {
    const { id } = state.match;
    const picks = ["home", "home", "home", "draw", "away", "away"];
    for (let fan = 0; fan < 12; fan += 1) {
      const phone = `+4479${String(Math.floor(Math.random() * 1e8)).padStart(8, "0")}`;
      await call("POST", "/api/code/request", { phone }, { token: null });
      const { data: [sms] } = await smsLog(`?phone=${encodeURIComponent(phone)}`);
      const { data } = await call("POST", "/api/code/verify", { phone, code: sms.code }, { token: null });
      const body = { event_id: id, prediction: picks[fan % picks.length], confidence: 30 + 5 * fan };
      await call("POST", "/api/auth/predictions", body, { token: data.token });
      showNotice(`${fan + 1} of 12 fans added.`);
    }
    await refresh();
  },
};
for (const element of document.querySelectorAll("[data-do]")) {
  element.addEventListener(element.tagName === "FORM" ? "submit" : "click", handler(async (control) => {
    // Only one control runs at a time, because each control starts from the score that the previous control set.
    $("#controls").inert = true;
    try {
      await CONTROLS[control.dataset.do](control);
    } finally {
      $("#controls").inert = false;
    }
  }));
}

// Developer tools: the SMS inbox and the traffic

const smsLog = (query) => call("GET", `/api/logs/sms${query}`, null, { token: null, headers: { "x-touchline-console": "inbox" } });

async function drawInbox() {
  const { data } = await smsLog("?per_page=5");
  const enter = (code) => () => {
    const input = $("#code");
    if (!input) return;
    input.value = code;
    input.form.requestSubmit($("button.primary", input.form));
  };
  const items = data.map(({ phone, code }) => h("li", {},
    h("span", {}, h("small", {}, phone), h("br"), h("b", {}, code)),
    // Only the code step of the app can use a code.
    $("#code") && h("button", { type: "button", onclick: enter(code) }, "Use", h("span", { class: "hidden" }, ` the code ${code}`))));
  if (items.length) $("#inbox").replaceChildren(...items);
}

const totals = { requests: 0, rcu: 0, wcu: 0 };
const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

function drawRequest({ method, path, status, ms, cost, request, response, calls }) {
  const kind = status < 400 ? "ok" : status < 500 ? "rejected" : "failed";
  totals.requests += 1;
  totals.rcu += cost?.rcu ?? 0;
  totals.wcu += cost?.wcu ?? 0;
  $("#totals").textContent = `${count(totals.requests, "request")} · ${totals.rcu} RCU · ${totals.wcu} WCU`;
  const costText = cost ? `${count(cost.calls, "call")} · ${cost.rcu} RCU · ${cost.wcu} WCU · ${ms} ms`
    : calls?.length ? `${count(calls.length, "call")} · ${ms} ms` : `${ms} ms`;
  const list = $("#traffic");
  $(".empty", list)?.remove();
  list.prepend(h("li", {}, h("details", {},
    h("summary", {}, h("span", { class: kind }, String(status)), h("b", {}, method), h("code", {}, path), h("span", { class: "cost" }, costText)),
    calls?.length ? h("pre", { "aria-label": "DynamoDB calls" }, calls.join("\n")) : null,
    request ? h("pre", { "aria-label": "Request" }, pretty(request)) : null,
    h("pre", { "aria-label": "Response" }, pretty(response)))));
  while (list.children.length > 200) list.lastChild.remove();
}

function watchTraffic() {
  const traffic = new EventSource("/_console/traffic");
  const title = $("#traffic-title");
  traffic.onopen = () => { title.removeAttribute("data-offline"); drawInbox().catch(() => {}); };
  traffic.onerror = () => title.setAttribute("data-offline", "");
  traffic.onmessage = ({ data }) => {
    const entry = JSON.parse(data);
    drawRequest(entry);
    if (/code|verify-phone/.test(entry.path) && entry.method === "POST") drawInbox().catch(() => {});
  };
}

// The page

for (const button of document.querySelectorAll(".views button")) {
  button.addEventListener("click", () => {
    $("#panels").dataset.view = button.dataset.view;
    for (const other of document.querySelectorAll(".views button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  });
}
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
$("#theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const next = isDark ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
});

watchTraffic();
prepareLoginForm();
if (state.token) openTab("matches").catch((error) => showNotice(error.message, true));
