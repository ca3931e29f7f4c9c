"use strict";
// The matchday console: an app on the left, what happens behind it on the right. No framework, no build step.

const $ = (selector, within = document) => within.querySelector(selector);

/** Makes an element: `h("button", { class: "primary", onclick: go }, "Go")`. Text stays text, whoever wrote it. */
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
  /** The match that was opened last: the controls are about it, whatever the app shows meanwhile. */
  match: null,
  isMatchShown: false,
};

// Talking to the stack

/** A refusal of the API's, in its own words. */
class Refused extends Error {
  constructor(status, body) {
    const reasons = Object.entries(body.errors ?? {}).map(([field, faults]) => `${field} ${faults[0]}`);
    super(reasons.length && body.code === "validation_error" ? reasons.join("; ") : body.message);
    Object.assign(this, { status, code: body.code });
  }
}

async function call(method, path, body, { token = state.token, headers = {} } = {}) {
  const answer = await fetch(path, {
    method,
    headers: {
      ...headers,
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { "content-type": "application/json" }),
    },
    body: body && JSON.stringify(body),
  });
  const json = await answer.json();
  if (answer.ok) return json;
  if (answer.status === 401 && token && token === state.token) leave();
  throw new Refused(answer.status, json);
}

/** Runs one of the functions that have no route, as `aws lambda invoke` does. */
async function invoke(name, payload) {
  const said = await call("POST", `/2015-03-31/functions/${name}/invocations`, payload, { token: null });
  // A function that fails is a success to whoever invoked it.
  if (said?.errorType) throw new Error(`${name} failed: ${said.errorMessage}`);
  return said;
}

function say(text, isBad = false) {
  const notice = $("#notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
}

const busy = new Set();

/** Wraps what a button does: it is off meanwhile, and what goes wrong is said. */
const doing = (action) => async (event) => {
  event.preventDefault();
  const element = event.currentTarget;
  const button = event.submitter ?? element;
  if (busy.has(element)) return;
  busy.add(element);
  button.disabled = true;
  try {
    await action(element, event);
  } catch (error) {
    say(error.message, true);
  } finally {
    busy.delete(element);
    button.disabled = false;
  }
};

// Logging in

function keep(login) {
  state.token = login.token;
  state.user = login.user;
  sessionStorage.setItem("token", state.token);
  sessionStorage.setItem("user", JSON.stringify(state.user));
}

function leave() {
  state.token = state.user = state.match = null;
  sessionStorage.clear();
  location.reload();
}

function askForCode() {
  const form = $("#ask-code");
  form.addEventListener("submit", doing(async () => {
    const phone = form.phone.value;
    await call("POST", "/api/code/request", { phone });
    say("The code is in the inbox.");
    enterCode(phone);
  }));
}

function enterCode(phone) {
  show(
    h("form", {
      class: "card welcome",
      onsubmit: doing(async (form) => {
        const { data, message } = await call("POST", "/api/code/verify", { phone, code: form.code.value });
        keep(data);
        say(message ?? `Welcome, ${data.user.username}.`);
        const isNew = Date.now() - Date.parse(data.user.created_at) < 60_000;
        await (isNew ? pickName() : open("matches"));
      }),
    },
      h("h2", {}, "Enter the code"),
      h("p", {}, `It was sent to ${phone}.`),
      h("label", { for: "code" }, "Code"),
      h("input", {
        id: "code", name: "code", inputmode: "numeric", autocomplete: "one-time-code", maxlength: 6, required: true,
      }),
      h("button", { class: "primary" }, "Log in"),
    ),
  );
}

async function pickName() {
  const { suggestions } = await call("POST", "/api/auth/username/generate", { base: state.user.username });
  const answer = h("p", { class: "hint", role: "status", id: "name-answer" }, "3 to 30 letters, digits, _ and .");
  const input = h("input", {
    id: "username", name: "username", value: state.user.username, autocomplete: "username",
    "aria-describedby": "name-answer", required: true,
  });
  let waiting;
  const check = () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      try {
        const { message } = await call("POST", "/api/auth/username/check", { username: input.value });
        answer.textContent = message;
      } catch (error) {
        answer.textContent = error.message;
      }
    }, 250);
  };
  input.addEventListener("input", check);
  show(
    h("form", {
      class: "card welcome",
      onsubmit: doing(async () => {
        if (input.value !== state.user.username) {
          await call("POST", "/api/auth/update-user-info", { username: input.value });
          const { data } = await call("GET", "/api/auth/me");
          keep({ token: state.token, user: data });
        }
        say(`You are ${state.user.username}.`);
        await open("matches");
      }),
    },
      h("h2", {}, "Pick a username"),
      h("label", { for: "username" }, "Username"),
      input,
      answer,
      h("div", { class: "chips", role: "group", "aria-label": "Suggestions" }, suggestions.map((name) =>
        h("button", { type: "button", onclick: () => { input.value = name; check(); } }, name))),
      h("button", { class: "primary" }, "That is me"),
    ),
  );
}

// The app's screens

const TABS = { matches, predictions, coins, teams, me };
const TITLES = { matches: "Matches", predictions: "Mine", coins: "Coins", teams: "Teams", me: "Me" };

/** Raised by whoever goes somewhere: an answer that comes after that is not shown any more. */
let turn = 0;

/** Puts a screen up. Where somebody went there, they are moved to it; where it only changed, they stay where they are. */
function show(...children) {
  const screen = $("#screen");
  const [place, kept] = [screen.dataset.place, screen.scrollTop];
  const named = (element) => element.getAttribute("aria-label") ?? element.textContent;
  const held = screen.contains(document.activeElement) && named(document.activeElement);
  const where = `${state.tab} ${state.isMatchShown ? state.match.id : ""} ${children[0]?.className ?? ""}`;
  screen.replaceChildren(...children.filter(Boolean));
  screen.dataset.place = where;
  if (place === where) {
    screen.scrollTop = kept;
    if (held) [...screen.querySelectorAll("button")].find((one) => named(one) === held)?.focus({ preventScroll: true });
    return;
  }
  screen.scrollTop = 0;
  const title = $("h2, h3", screen);
  const first = $("form.welcome input", screen) ?? title ?? $("#app");
  if (first === title) title.tabIndex = -1;
  first.focus({ preventScroll: true });
}

async function open(tab) {
  turn += 1;
  state.tab = tab;
  state.isMatchShown = false;
  const tabs = $("#tabs");
  tabs.hidden = false;
  tabs.replaceChildren(...Object.keys(TABS).map((name) =>
    h("button", {
      type: "button", "aria-current": name === tab ? "page" : null,
      onclick: doing(() => { say(""); return open(name); }),
    }, TITLES[name])));
  await TABS[tab]();
}

const clock = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const score = (match) => match.home_score == null ? "–" : `${match.home_score} : ${match.away_score}`;
const when = (match) =>
  match.status === "live" ? h("span", { class: "live" }, "● live") : `${match.status} · ${clock.format(new Date(match.start_time))}`;

async function matches() {
  const mine = turn;
  const { data } = await call("GET", `/api/auth/events?status=${state.filter}&per_page=20`);
  if (mine !== turn) return;
  const filters = { live: "Live", scheduled: "Upcoming", finished: "Finished" };
  show(
    h("h2", {}, "Matches"),
    h("div", { class: "chips", role: "group", "aria-label": "Which matches" }, Object.entries(filters).map(([name, title]) =>
      h("button", {
        type: "button", "aria-pressed": String(name === state.filter),
        onclick: doing(() => { state.filter = name; return matches(); }),
      }, title))),
    h("ul", { class: "list" }, data.map((match) =>
      h("li", {}, h("button", { type: "button", class: "match", onclick: doing(() => openMatch(match.id)) },
        h("span", {}, h("b", {}, match.home_team.name), h("b", {}, match.away_team.name),
          h("small", {}, match.tournament.name, " · ", when(match))),
        h("span", { class: "score" }, score(match)))))),
    data.length === 0 && h("p", { class: "hint" }, "None at the moment."),
  );
}

async function openMatch(id) {
  const asked = (turn += 1);
  const [{ data: match }, crowd, mine] = await Promise.all([
    call("GET", `/api/auth/events/${id}`),
    call("GET", `/api/auth/events/${id}/predictions?per_page=10`),
    call("GET", `/api/auth/events/${id}/predictions?user_id=${state.user.id}`),
  ]);
  if (asked !== turn) return;
  state.match = match;
  state.isMatchShown = true;
  drawControls();
  const own = mine.data[0];
  show(
    h("button", { type: "button", class: "back", onclick: doing(() => open("matches")) }, "← Matches"),
    h("div", { class: "versus" },
      h("h3", {}, match.home_team.name), h("span", { class: "score" }, score(match)), h("h3", {}, match.away_team.name)),
    h("p", { class: "hint" }, match.tournament.name, " · ", when(match), match.venue ? ` · ${match.venue}` : ""),
    match.status === "scheduled" ? predictForm(match, own) : verdict(own),
    crowdBars(crowd.meta, match),
    h("button", { type: "button", id: "join", onclick: doing(() => join(match)) }, "Join the match's room"),
    crowd.data.length > 0 && h("section", { class: "card", "aria-label": "Predictions" },
      h("h3", {}, "What fans say"),
      h("ul", { class: "list" }, crowd.data.map((row) => h("li", { class: "between" },
        h("span", {}, row.user.username, h("small", {}, ` ${told(row)} · ${row.confidence} %`)),
        row.points_earned != null && h("span", { class: "points" }, `${row.points_earned} pts`))))),
  );
}

const told = (row) =>
  row.prediction + (row.score_prediction ? ` ${row.score_prediction.home}:${row.score_prediction.away}` : "");

function verdict(own) {
  if (!own) return h("p", { class: "card" }, "You did not predict this match.");
  return h("section", { class: "card", id: "verdict", "aria-label": "Your prediction" },
    h("p", {}, "You said ", h("b", {}, told(own)), ` with ${own.confidence} % confidence.`),
    own.points_earned == null
      ? h("p", { class: "hint" }, "Points come after the match.")
      : h("p", { class: "big points" }, `${own.points_earned} points`));
}

function predictForm(match, own) {
  const pick = (value, title) => h("label", {},
    h("input", { type: "radio", name: "prediction", value, required: true, checked: own?.prediction === value }), title);
  const goals = (side, team) => h("label", {}, team,
    h("input", { type: "number", name: side, min: 0, max: 99, inputmode: "numeric", value: own?.score_prediction?.[side] ?? "" }));
  const sure = h("output", { for: "confidence" }, `${own?.confidence ?? 50} %`);
  return h("form", {
    class: "card", id: "predict",
    onsubmit: doing(async (form) => {
      const { prediction, home, away, confidence } = Object.fromEntries(new FormData(form));
      const body = { event_id: match.id, prediction, confidence: Number(confidence) };
      if (home !== "" && away !== "") body.score_prediction = { home: Number(home), away: Number(away) };
      const { message } = await call("POST", "/api/auth/predictions", body);
      say(message);
      await openMatch(match.id);
    }),
  },
    h("fieldset", {}, h("legend", {}, "Who wins?"),
      h("div", { class: "picks" }, pick("home", match.home_team.name), pick("draw", "Draw"), pick("away", match.away_team.name))),
    h("fieldset", {}, h("legend", {}, "The score, if you dare"),
      h("div", { class: "goals" }, goals("home", "Home"), goals("away", "Away"))),
    h("div", { class: "between" }, h("label", { for: "confidence" }, "How sure are you?"), sure),
    h("input", {
      id: "confidence", name: "confidence", type: "range", min: 0, max: 100, step: 5, value: own?.confidence ?? 50,
      oninput: (event) => { sure.textContent = `${event.target.value} %`; },
    }),
    h("button", { class: "primary" }, own ? "Change my prediction" : "Predict"),
  );
}

function crowdBars(meta, match) {
  const total = meta.total_predictions;
  const names = { home: match.home_team.name, draw: "Draw", away: match.away_team.name };
  return h("section", { class: "card", "aria-labelledby": "crowd" },
    h("h3", { id: "crowd" }, "The crowd ", h("small", {}, `${total} predictions · ${Math.round(meta.average_confidence)} % sure`)),
    h("dl", { class: "bars" }, Object.entries(names).flatMap(([side, name]) => {
      const share = total ? Math.round(100 * meta.prediction_distribution[side] / total) : 0;
      const bar = h("i");
      bar.style.cssText = `width: ${share}%; --hue: var(--${side})`;
      return [h("dt", {}, name), h("dd", { class: "track", "aria-hidden": "true" }, bar), h("dd", {}, `${share} %`)];
    })));
}

async function join(match) {
  try {
    await call("POST", `/api/auth/chat-rooms/${encodeURIComponent(match.chat_room_id)}/join`, {});
    say("You are in the room.");
  } catch (error) {
    if (error.code !== "already_a_member") throw error;
    say("You are in the room already.");
  }
  const { data } = await call("GET", `/api/auth/chat-rooms/${encodeURIComponent(match.chat_room_id)}/member-stats`);
  $("#join").textContent = `In the room, with ${data.total_members} in all`;
}

async function predictions() {
  const mine = turn;
  const { data } = await call("GET", "/api/auth/predictions");
  if (mine !== turn) return;
  show(
    h("h2", {}, "My predictions"),
    h("ul", { class: "list" }, data.map((row) =>
      h("li", {}, h("button", { type: "button", class: "match", onclick: doing(() => openMatch(row.event_id)) },
        h("span", {}, h("b", {}, `${row.event.home_team.name} – ${row.event.away_team.name}`),
          h("small", {}, `${told(row)} · ${row.confidence} % · `, when(row.event), ` ${score(row.event)}`)),
        h("span", { class: "score" }, row.points_earned == null ? "…" : `${row.points_earned} pts`))))),
    data.length === 0 && h("p", { class: "hint" }, "None yet. Open a match that has not started."),
  );
}

/** A name for a purchase that no other has. `randomUUID` is for secure pages alone, and a phone sees this one by its address. */
const name = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

async function coins() {
  const mine = turn;
  const { data } = await call("GET", "/api/auth/coins");
  if (mine !== turn) return;
  show(
    h("h2", {}, "Coins"),
    h("section", { class: "card", "aria-label": "Balance" },
      h("p", { class: "big" }, `${data.balance} coins`),
      h("p", {}, `Streak: ${data.streak_days} ${data.streak_days === 1 ? "day" : "days"}`),
      h("p", { class: "hint" }, `Next bonus ${clock.format(new Date(data.next_claim_at))}`)),
    h("button", {
      type: "button", class: "primary",
      onclick: doing(async () => {
        const { data: claimed } = await call("POST", "/api/auth/daily-coins", {});
        say(`${claimed.coins_awarded} coins, day ${claimed.streak_days} of your streak.`);
        await coins();
      }),
    }, "Claim today's coins"),
    h("button", {
      type: "button",
      onclick: doing(async () => {
        const order = { amount: 5, reason: "gift", reference_id: name() };
        const { data: spent } = await call("POST", "/api/auth/coins/deduct", order);
        say(`5 coins given away; ${spent.new_balance} left.`);
        await coins();
      }),
    }, "Give 5 coins away"),
    h("section", { class: "card", "aria-label": "History" }, h("h3", {}, "History"),
      data.entries.length === 0 && h("p", { class: "hint" }, "Nothing yet."),
      h("ul", { class: "list" }, data.entries.map((entry) => h("li", { class: "between" },
        h("span", {}, entry.type, entry.reason ? ` · ${entry.reason}` : "", h("small", {}, ` ${clock.format(new Date(entry.created_at))}`)),
        h("b", {}, `${entry.amount > 0 ? "+" : ""}${entry.amount}`))))),
  );
}

async function teams() {
  const mine = turn;
  const { data: user } = await call("GET", "/api/auth/me");
  if (mine !== turn) return;
  const others = new Map(user.other_teams.map((team) => [team.id, team]));
  const list = h("ul", { class: "list" });
  let asked = 0;
  const fill = async (search) => {
    const query = search ? `&search=${encodeURIComponent(search)}` : "";
    const number = (asked += 1);
    const { data } = await call("GET", `/api/auth/teams?per_page=30${query}`);
    if (number !== asked) return;
    list.replaceChildren(...data.map((team) => h("li", { class: "card between" },
      h("span", {}, h("b", {}, team.name), h("small", {}, ` ${team.sport.name} · ${team.country ?? ""}`)),
      h("span", { class: "chips" },
        h("button", {
          type: "button", "aria-pressed": String(user.primary_team?.id === team.id), "aria-label": `My team: ${team.name}`,
          onclick: doing(async () => {
            const { message } = await call("POST", "/api/auth/teams/primary", { team_id: team.id });
            user.primary_team = team;
            say(message);
            await fill(search);
          }),
        }, "Mine"),
        h("button", {
          type: "button", "aria-pressed": String(others.has(team.id)), "aria-label": `Follow ${team.name}`,
          onclick: doing(async () => {
            const wanted = new Map(others);
            if (!wanted.delete(team.id)) wanted.set(team.id, team);
            const { message } = await call("POST", "/api/auth/teams/other", { team_ids: [...wanted.keys()] });
            others.clear();
            wanted.forEach((value, id) => others.set(id, value));
            say(message);
            await fill(search);
          }),
        }, "Follow")))));
  };
  let waiting;
  show(
    h("h2", {}, "Teams"),
    h("label", { for: "search" }, "Search"),
    h("input", {
      id: "search", type: "search",
      oninput: (event) => { clearTimeout(waiting); waiting = setTimeout(() => fill(event.target.value.trim()).catch((error) => say(error.message, true)), 200); },
    }),
    list,
  );
  await fill("");
}

async function me() {
  const mine = turn;
  const { data } = await call("GET", "/api/auth/me");
  if (mine !== turn) return;
  show(
    h("h2", {}, data.username),
    h("section", { class: "card", "aria-label": "My record" },
      h("p", {}, data.phone),
      h("p", {}, data.primary_team ? `Team: ${data.primary_team.name}` : "No team yet."),
      h("p", {}, data.other_teams.length ? `Follows ${data.other_teams.map((team) => team.name).join(", ")}` : "Follows nobody else.")),
    h("button", { type: "button", onclick: doing(pickName) }, "Change my username"),
    h("button", {
      type: "button",
      onclick: doing(async () => { await call("POST", "/api/auth/logout", {}); leave(); }),
    }, "Log out"),
  );
}

// Behind the app: the match controls

function drawControls() {
  const match = state.match;
  $("#controls").hidden = !match;
  $("#controls-match").textContent = match
    ? `${match.home_team.name} – ${match.away_team.name}, ${match.status}, ${score(match)}`
    : "Open a match in the app, and run it from here.";
}

/** Shows what came of it, wherever the app is. */
async function refresh() {
  const { id } = state.match;
  if (state.isMatchShown) return openMatch(id);
  state.match = (await call("GET", `/api/auth/events/${id}`)).data;
  drawControls();
  return TABS[state.tab]();
}

/** Tells `feed` what a results service would. */
async function report(change) {
  const { id, tournament_id, home_team, away_team, start_time, status, home_score, away_score } = state.match;
  const event = {
    id, tournament_id, home_team_id: home_team.id, away_team_id: away_team.id, start_time, status,
    ...(home_score != null && { home_score, away_score }), ...change,
  };
  const said = await invoke("feed", { format: "touchline", events: [event] });
  if (said.rejected) throw new Error(`feed: ${said.reasons.map((reason) => reason.reason ?? JSON.stringify(reason)).join("; ")}`);
  await refresh();
}

const goals = (side) => {
  const { home_score, away_score } = state.match;
  const next = { home_score: home_score ?? 0, away_score: away_score ?? 0, status: "live" };
  next[`${side}_score`] += 1;
  return next;
};
const started = () => {
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  return state.match.start_time > now ? now : state.match.start_time;
};

const CONTROLS = {
  "kick-off": async () => { await report({ status: "live", start_time: started(), home_score: 0, away_score: 0 }); say("Kick-off. Predictions are closed."); },
  home: () => report({ ...goals("home"), start_time: started() }),
  away: () => report({ ...goals("away"), start_time: started() }),
  finish: async () => {
    const { home_score, away_score } = state.match;
    await report({ status: "finished", start_time: started(), home_score: home_score ?? 0, away_score: away_score ?? 0 });
    say("Full time.");
  },
  correct: async (form) => {
    const result = { home_score: Number(form.home.value), away_score: Number(form.away.value) };
    await report({ status: "finished", start_time: started(), ...result });
    say(`Corrected to ${result.home_score} : ${result.away_score}. Run points again.`);
  },
  points: async () => {
    const { matches: [settled] } = await invoke("points", { event_id: state.match.id });
    await refresh();
    if (state.match.status !== "finished") throw new Error("Nothing to score: finish the match first.");
    say(`Points: ${settled.scored} predictions scored.`);
  },
  crowd: async () => {
    const { id } = state.match;
    const picks = ["home", "home", "home", "draw", "away", "away"];
    for (let fan = 0; fan < 12; fan += 1) {
      const phone = `+4479${String(Math.floor(Math.random() * 1e8)).padStart(8, "0")}`;
      await call("POST", "/api/code/request", { phone }, { token: null });
      const { data: [sms] } = await messages(`?phone=${encodeURIComponent(phone)}`);
      const { data } = await call("POST", "/api/code/verify", { phone, code: sms.code }, { token: null });
      const body = { event_id: id, prediction: picks[fan % picks.length], confidence: 30 + 5 * fan };
      await call("POST", "/api/auth/predictions", body, { token: data.token });
      say(`${fan + 1} of 12 fans have predicted.`);
    }
    await refresh();
  },
};
for (const element of document.querySelectorAll("[data-do]")) {
  element.addEventListener(element.tagName === "FORM" ? "submit" : "click", doing(async (it) => {
    // One thing at a time: each begins from the score that the one before left.
    $("#controls").inert = true;
    try {
      await CONTROLS[it.dataset.do](it);
    } finally {
      $("#controls").inert = false;
    }
  }));
}

// Behind the app: the inbox and the traffic

const messages = (query) => call("GET", `/api/logs/sms${query}`, null, { token: null, headers: { "x-touchline-console": "inbox" } });

async function drawInbox() {
  const { data } = await messages("?per_page=5");
  const enter = (code) => () => {
    const input = $("#code");
    if (!input) return;
    input.value = code;
    input.form.requestSubmit($("button.primary", input.form));
  };
  const items = data.map(({ phone, code }) => h("li", {},
    h("span", {}, h("small", {}, phone), h("br"), h("b", {}, code)),
    h("button", { type: "button", onclick: enter(code), "aria-label": `Enter the code ${code}` }, "Use")));
  if (items.length) $("#inbox").replaceChildren(...items);
}

const sums = { requests: 0, rcu: 0, wcu: 0 };
const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

function drawRequest({ method, path, status, ms, cost, request, response, calls }) {
  const kind = status < 400 ? "ok" : status < 500 ? "refused" : "failed";
  sums.requests += 1;
  sums.rcu += cost?.rcu ?? 0;
  sums.wcu += cost?.wcu ?? 0;
  $("#sums").textContent = `${sums.requests} requests · ${sums.rcu} RCU · ${sums.wcu} WCU`;
  const price = cost ? `${cost.calls} ${cost.calls === 1 ? "call" : "calls"} · ${cost.rcu} RCU · ${cost.wcu} WCU · ${ms} ms`
    : calls?.length ? `${calls.length} calls · ${ms} ms` : `${ms} ms`;
  const list = $("#traffic");
  $(".empty", list)?.remove();
  list.prepend(h("li", {}, h("details", {},
    h("summary", {}, h("span", { class: kind }, String(status)), h("b", {}, method), h("code", {}, path), h("span", { class: "cost" }, price)),
    calls?.length ? h("pre", { "aria-label": "DynamoDB calls" }, calls.join("\n")) : null,
    request ? h("pre", { "aria-label": "Request" }, pretty(request)) : null,
    h("pre", { "aria-label": "Response" }, pretty(response)))));
  while (list.children.length > 200) list.lastChild.remove();
}

function listen() {
  const traffic = new EventSource("/_console/traffic");
  const title = $("#traffic-title");
  traffic.onopen = () => { title.removeAttribute("data-away"); drawInbox().catch(() => {}); };
  traffic.onerror = () => title.setAttribute("data-away", "");
  traffic.onmessage = ({ data }) => {
    const entry = JSON.parse(data);
    drawRequest(entry);
    if (/code|verify-phone/.test(entry.path) && entry.method === "POST") drawInbox().catch(() => {});
  };
}

// The page

for (const button of document.querySelectorAll(".sides button")) {
  button.addEventListener("click", () => {
    $("#desk").dataset.side = button.dataset.side;
    for (const other of document.querySelectorAll(".sides button")) {
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

listen();
askForCode();
if (state.token) open("matches").catch((error) => say(error.message, true));
