// The developer tools of the matchday console: SMS inbox, match controls and traffic.

import { $, call, clearOldNotice, clockFormat, count, decoded, h, handler, invoke, number, saved, scoreText, showNotice, smsLog, state, statusName, usedCodes } from "./console.js";
import { isPlaying, keepFocus, render } from "./app.js";

// The SMS inbox

let messages = [];
let drawn = "";
/** The phone numbers of the fans that the match controls add begin like this. Nobody enters their codes. */
const ADDED = "+4479000";
/** A phone number as the API writes it, but without the +. */
const digits = (phone) => phone.replace("(0)", "").replace(/\D/g, "");

/** Draws the inbox if it has changed: a screen reader reads it aloud each time it is drawn. */
function drawInbox() {
  const phone = $("#code")?.dataset.phone;
  // Only a screen that asks for a code can use one, and only the newest one for its number.
  const newest = phone && messages.find((message) => digits(message.phone) === digits(phone));
  const usable = newest && !usedCodes().includes(newest.code) && newest;
  const content = JSON.stringify([messages.map(({ phone, code, created_at: at }) => [phone, code, at]), usable?.code, usedCodes()]);
  if (content === drawn) return;
  drawn = content;
  const enter = (code) => () => {
    const input = $("#code");
    input.value = code;
    const submit = $("button.primary", input.form);
    // A deletion needs one more click.
    if (submit.classList.contains("danger")) submit.focus();
    else input.form.requestSubmit(submit);
  };
  const items = messages.map((message) => h("li", {},
    h("span", {}, h("small", {}, `${message.phone} · ${clockFormat.format(new Date(message.created_at))}`), h("br"), h("b", {}, message.code), usedCodes().includes(message.code) && h("small", {}, " used")),
    message === usable && h("button", { type: "button", onclick: enter(message.code) }, "Use", h("span", { class: "hidden" }, ` the code ${message.code}`))));
  if (items.length) keepFocus($("#inbox"), () => $("#inbox").replaceChildren(...items));
}

let loads = 0;
async function loadInbox() {
  loads += 1;
  const own = loads;
  const { data } = await smsLog("?per_page=30");
  // An older answer may arrive after a newer one.
  if (own !== loads) return;
  messages = data.filter(({ phone }) => !phone.startsWith(ADDED)).slice(0, 3);
  drawInbox();
}
// The inbox is loaded again with the next code.
const loadInboxSafely = () => loadInbox().catch(() => {});

// The match controls

/** The steps that a match allows: a finished match cannot kick off again, and only its result can be corrected. */
const ALLOWED = { scheduled: ["kick-off", "fans"], live: ["home", "away", "finish"], finished: ["correct", "points"] };

function drawControls() {
  const { match } = state;
  $("#controls").hidden = !match;
  const isBusy = Boolean(match) && isPlaying(match.id);
  const allowed = isBusy ? [] : ALLOWED[match?.status] ?? [];
  for (const control of document.querySelectorAll("[data-do]")) {
    const isAllowed = allowed.includes(control.dataset.do);
    for (const element of control.tagName === "FORM" ? control.elements : [control]) element.disabled = !isAllowed;
  }
  $("#controls-hint").textContent = isBusy ? "The stack plays this match itself, without requests of a client, so Traffic does not show it. The controls come back once the points are calculated."
    : "Run the match step by step, as a results service would report it.";
  $("[data-do=points]").textContent = match?.isSettled ? "Calculate points again" : "Calculate points";
  const { home, away } = $("form[data-do=correct]").elements;
  const score = match ? `${match.id} ${scoreText(match)}` : "";
  // The correction starts from the result.
  if ($("#controls").dataset.score !== score) [home.value, away.value] = [match?.home_score ?? 0, match?.away_score ?? 0];
  $("#controls").dataset.score = score;
  const course = match?.status === "scheduled" ? "Not started" : match && `${statusName(match)} · ${scoreText(match)}`;
  const isOpen = match && location.hash === `#match/${match.id}`;
  $("#controls-match").textContent = match ? `${isOpen ? "" : "Last opened: "}${match.home_team.name} – ${match.away_team.name} · ${course}` : "Open a match in the app to control it here.";
}

const loadMatch = async (id) => (await call("GET", `/api/auth/events/${id}`)).data;

/** Loads the match again, unless the app has opened another one meanwhile. */
async function reloadMatch(id) {
  const match = await loadMatch(id);
  if (state.match?.id !== id) return;
  const { own, isSettled } = state.match;
  state.match = { ...match, own, isSettled };
  drawControls();
}

/** Loads the match and the screen that the app shows again. */
async function refresh(id) {
  await reloadMatch(id);
  return render();
}

/** Sends a change of the match to `feed`, as a results service would. */
async function report(match, change) {
  const { id, tournament_id, home_team, away_team, start_time, status, home_score, away_score } = match;
  const event = {
    id, tournament_id, home_team_id: home_team.id, away_team_id: away_team.id, start_time, status,
    ...(home_score != null && { home_score, away_score }), ...change,
  };
  const result = await invoke("feed", { format: "touchline", events: [event] });
  if (result.rejected) throw new Error(`feed rejected the change: ${result.reasons.map((reason) => reason.reason ?? JSON.stringify(reason)).join("; ")}`);
  await refresh(id);
}

const addGoal = ({ home_score, away_score }, side) => {
  const next = { home_score: home_score ?? 0, away_score: away_score ?? 0, status: "live" };
  next[`${side}_score`] += 1;
  return next;
};
/**
 * Returns the start time. If the match has not started, waits for the next full second and returns it: a match cannot be live
 * before its start, start times have whole seconds, and a prediction of the same second would count as late.
 */
const startTime = async (match) => {
  if (Date.parse(match.start_time) <= Date.now()) return match.start_time;
  const next = 1000 * Math.ceil((Date.now() + 1) / 1000);
  await new Promise((resolve) => { setTimeout(resolve, next - Date.now()); });
  return new Date(next).toISOString().replace(".000Z", "Z");
};

const CONTROLS = {
  "kick-off": async (match) => {
    await report(match, { status: "live", start_time: await startTime(match), home_score: 0, away_score: 0 });
    showNotice("Kick-off. Predictions are closed.");
  },
  home: async (match) => report(match, { ...addGoal(match, "home"), start_time: await startTime(match) }),
  away: async (match) => report(match, { ...addGoal(match, "away"), start_time: await startTime(match) }),
  finish: async (match) => {
    const { home_score, away_score } = match;
    await report(match, { status: "finished", start_time: await startTime(match), home_score: home_score ?? 0, away_score: away_score ?? 0 });
    showNotice("Full time.");
  },
  correct: async (match, form) => {
    const result = { home_score: Number(form.home.value), away_score: Number(form.away.value) };
    await report(match, { status: "finished", start_time: await startTime(match), ...result });
    showNotice(`Result corrected to ${result.home_score} : ${result.away_score}. Calculate the points again.`);
  },
  points: async ({ id }) => {
    const { matches: [settled] } = await invoke("points", { event_id: id });
    await refresh(id);
    const done = `Points calculated for ${count(settled.scored, "prediction")}.`;
    showNotice(`${done} The tables are being built.`);
    await invoke("standings", {});
    await refresh(id);
    showNotice(done);
  },
  fans: async ({ id }) => {
    const picks = ["home", "home", "home", "draw", "away", "away"];
    const first = Math.floor(Math.random() * 1e5);
    for (let fan = 0; fan < 12; fan += 1) {
      const phone = `${ADDED}${String((first + fan) % 1e5).padStart(5, "0")}`;
      await call("POST", "/api/code/request", { phone }, { token: null });
      const { data: [sms] } = await smsLog(`?phone=${encodeURIComponent(phone)}`);
      const { data } = await call("POST", "/api/code/verify", { phone, code: sms.code }, { token: null });
      const body = { event_id: id, prediction: picks[fan % picks.length], confidence: 30 + 5 * fan };
      await call("POST", "/api/auth/predictions", body, { token: data.token });
      showNotice(fan < 11 ? `${fan + 1} of 12 fans added.` : "12 fans added.");
    }
    await refresh(id);
  },
};
/** Runs a control on the current match. Another page may have changed the match meanwhile. */
async function control(element) {
  const { id } = state.match;
  const match = await loadMatch(id);
  if (isPlaying(id) || !ALLOWED[match.status].includes(element.dataset.do)) {
    await refresh(id);
    throw new Error("This match has changed meanwhile. The controls now show the next steps.");
  }
  await CONTROLS[element.dataset.do](match, element);
}

for (const element of document.querySelectorAll("[data-do]")) {
  element.addEventListener(element.tagName === "FORM" ? "submit" : "click", handler(async () => {
    // Only one control runs at a time, because each control starts from the score that the previous control set.
    const controls = $("#controls");
    const focused = document.activeElement;
    controls.inert = true;
    try {
      await control(element);
    } finally {
      controls.inert = false;
      drawControls();
      // The inert part of the page loses the focus. Without it, the keyboard starts again at the top.
      if (document.activeElement === document.body) (focused.disabled ? $("button:enabled", controls) : focused)?.focus({ preventScroll: true });
    }
  }));
}

// The traffic

const SHOWN_REQUESTS = 200;
/** Sums over all requests since the tab was opened. `fan` is the price of the logged-in fan's own requests. */
const totals = { requests: 0, rcu: 0, wcu: 0, fan: 0 };
/** The requests of the list, the newest last. */
let listed = [];
let isPaused = false;
/** The requests that arrived while the list was paused. */
let waiting = [];

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};
const milliseconds = (us) => `${number(us / 1000, { maximumFractionDigits: us < 10_000 ? 1 : 0 })} ms`;
/** A price with two significant digits: `$0.0000021`. */
const dollars = (usd) => `$${usd === 0 ? "0" : usd.toFixed(Math.max(2, 1 - Math.floor(Math.log10(usd))))}`;
const units = ({ rcu, wcu }) => [rcu && `${number(rcu)} RCU`, wcu && `${number(wcu)} WCU`].filter(Boolean).join(" · ");

/** One bar for each part of a request, below each other in the order of their beginnings. */
function timeline(spans) {
  const end = Math.max(...spans.map((span) => span.start_us + span.us), 1);
  const percent = (us) => `${(100 * us / end).toFixed(2)}%`;
  return h("ol", { class: "timeline", "aria-label": "Timeline" }, spans.toSorted((a, b) => a.start_us - b.start_us).map((span) =>
    h("li", {},
      h("span", { class: "what" }, span.name),
      h("span", { class: "lane", "aria-hidden": "true" }, h("i", { class: span.kind, style: `left: ${percent(span.start_us)}; width: max(2px, ${percent(span.us)})` })),
      h("span", { class: "cost" }, [milliseconds(span.us), units(span)].filter(Boolean).join(" · ")))));
}

/** The request as a command for a shell, with a variable for the token. */
function asCurl({ method, path, request, user_id }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return ["curl", method !== "GET" && `-X ${method}`, quoted(location.origin + path),
    user_id && path.startsWith("/api/auth/") && '-H "Authorization: Bearer $TOKEN"',
    request && `-H 'Content-Type: application/json' -d ${quoted(request)}`].filter(Boolean).join(" ");
}

function drawRequest(entry) {
  const { method, path, status, ms, cost, usd, request, response, spans } = entry;
  const kind = status < 400 ? "ok" : status < 500 ? "rejected" : "failed";
  const costs = [...(cost ? [count(cost.calls, "call"), `${number(cost.rcu)} RCU`, `${number(cost.wcu)} WCU`] : ["", "", ""]), ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`];
  const list = $("#traffic");
  $(".empty", list)?.remove();
  const details = h("details", {},
    h("summary", {}, h("span", { class: kind }, String(status)), h("b", {}, method), h("code", {}, shownPath(path).split(/(?<=[/?&,:=])/).map((part) => [part, h("wbr")])), h("span", { class: "cost" }, costs.map((text) => [h("span", {}, text), " "]))));
  // The details are built when they are opened, so that much traffic stays cheap.
  details.addEventListener("toggle", () => details.append(...[
    spans?.length && timeline(spans),
    usd != null && h("p", { class: "hint" }, `On AWS, this request would cost ${dollars(usd)}.`),
    request && h("pre", { "aria-label": "Request", tabindex: 0 }, pretty(request)),
    h("pre", { "aria-label": "Response", tabindex: 0 }, pretty(response)),
    h("p", { class: "hint" }, "In a shell, with your token in $TOKEN:"),
    h("pre", { "aria-label": "curl", tabindex: 0 }, asCurl(entry)),
  ].filter(Boolean)), { once: true });
  const item = h("li", { "data-text": `${status} ${method} ${shownPath(path)} ${path}`.toLowerCase() }, details);
  item.hidden = !matchesFilter(item);
  list.prepend(item);
  while (list.children.length > SHOWN_REQUESTS) list.lastChild.remove();
}

/** A request is shown if it contains each word of the filter. */
const matchesFilter = (item) => $("#traffic-filter").value.toLowerCase().split(/[\s,]+/).every((word) => item.dataset.text.includes(word));

/** The path without escapes. An invocation shows only the name of the function. */
const shownPath = (path) => decoded(path.replace(/^\/2015-03-31\/functions\/(.*)\/invocations$/, "Lambda function $1"));

/** Only responses of the API have their cost in a header. That of an invocation is the sum of its calls. */
const costOf = ({ cost, calls, spans }) => {
  if (cost || !calls?.length) return cost;
  // The list begins with the calls of the function itself. Those of other functions come after them.
  const own = (spans ?? []).filter(({ kind }) => kind === "store").slice(0, calls.length);
  const sum = (unit) => own.reduce((total, span) => total + (span[unit] ?? 0), 0);
  return { calls: calls.length, rcu: sum("rcu"), wcu: sum("wcu") };
};

function addRequest(received) {
  const entry = { ...received, cost: costOf(received) };
  totals.requests += 1;
  totals.rcu += entry.cost?.rcu ?? 0;
  totals.wcu += entry.cost?.wcu ?? 0;
  if (entry.usd && state.user && entry.user_id === state.user.id) totals.fan += entry.usd;
  listed = [...listed, entry].slice(-SHOWN_REQUESTS);
  drawTotals();
  if (!isPaused) return drawRequest(entry);
  waiting = [...waiting, entry].slice(-SHOWN_REQUESTS);
  $("#traffic-pause").textContent = `Continue (${waiting.length} new)`;
}

function drawTotals() {
  $("#totals").textContent = `all clients: ${count(totals.requests, "request")} · ${number(totals.rcu)} RCU · ${number(totals.wcu)} WCU`;
  if (totals.fan > 0) $("#evening").textContent = `On AWS, this fan's evening so far would cost ${dollars(totals.fan)}.`;
}

/** The list survives a reload, if the tab can store it. Else its oldest requests go. */
addEventListener("pagehide", () => {
  for (let kept = listed; kept.length > 0; kept = kept.slice(Math.ceil(kept.length / 2))) {
    try {
      sessionStorage.setItem("traffic", JSON.stringify({ totals, user: state.user?.id, kept }));
      return;
    } catch { /* too long */ }
  }
});

function restoreTraffic() {
  const before = saved("traffic");
  if (!before) return;
  // The login needs the space.
  sessionStorage.removeItem("traffic");
  Object.assign(totals, before.totals, before.user !== state.user?.id && { fan: 0 });
  listed = before.kept;
  listed.forEach(drawRequest);
  drawTotals();
}

$("#traffic-filter").addEventListener("input", () => {
  for (const item of $("#traffic").querySelectorAll("[data-text]")) item.hidden = !matchesFilter(item);
});
$("#traffic-pause").addEventListener("click", () => {
  isPaused = !isPaused;
  $("#traffic-pause").textContent = isPaused ? "Continue" : "Pause";
  waiting.splice(0).forEach(drawRequest);
});

function watchTraffic() {
  const traffic = new EventSource("/_console/traffic");
  const title = $("#traffic-title");
  traffic.onopen = () => {
    title.removeAttribute("data-offline");
    loadInboxSafely();
    document.dispatchEvent(new Event("connected"));
  };
  traffic.onerror = () => title.setAttribute("data-offline", "");
  traffic.onmessage = ({ data }) => {
    const entry = JSON.parse(data);
    addRequest(entry);
    if (entry.method === "POST" && /code|verify-phone|account\/delete/.test(entry.path)) loadInboxSafely();
  };
  traffic.addEventListener("match", ({ data }) => document.dispatchEvent(new CustomEvent("play", { detail: JSON.parse(data) })));
}

// The page

for (const view of document.querySelectorAll(".views button")) {
  view.addEventListener("click", () => {
    $("#panels").dataset.view = view.dataset.view;
    clearOldNotice();
    for (const other of document.querySelectorAll(".views button")) other.setAttribute("aria-pressed", String(other === view));
  });
}
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
$("#theme").addEventListener("click", () => {
  const chosen = document.documentElement.dataset.theme;
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const next = isDark ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
});

for (const event of ["handled", "match-opened"]) document.addEventListener(event, drawControls);
document.addEventListener("play", ({ detail: { event_id, phase } }) => {
  drawControls();
  if (event_id !== state.match?.id || location.hash === `#match/${event_id}`) return;
  // The app loads a match again only while it shows it.
  if (phase === "settled") state.match.isSettled = true;
  if (["settled", "failed"].includes(phase)) reloadMatch(event_id).catch(() => {});
});
document.addEventListener("connected", () => {
  if (state.match) reloadMatch(state.match.id).catch(() => {});
});
document.addEventListener("shown", drawInbox);
document.addEventListener("shown", drawControls);
restoreTraffic();
watchTraffic();
