// What the app and the developer tools of the matchday console share. No framework, no build step.

export const $ = (selector, within = document) => within.querySelector(selector);

/**
 * Creates an element: `h("button", { class: "primary", onclick: go }, "Go")`.
 * Strings become text nodes, so text from users cannot inject HTML.
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Creates an SVG element. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(2).filter((child) => child != null && child !== false));
  return element;
}

export const saved = (name) => JSON.parse(sessionStorage.getItem(name) ?? "null");

export const state = {
  // A plain string, because the API explorer reads it too.
  token: sessionStorage.getItem("token"),
  user: saved("user"),
  /** The account on the homeserver, or null if there is no homeserver. */
  chat: saved("chat"),
  /** The match that was opened last. The controls change this match, even while the app shows another screen. */
  match: null,
};

export function saveLogin({ token, user, matrix_credentials: chat }) {
  state.token = token;
  sessionStorage.setItem("token", token);
  saveUser(user);
  saveChat(chat);
}

export function saveChat(chat) {
  state.chat = chat?.homeserver_url ? chat : null;
  sessionStorage.setItem("chat", JSON.stringify(state.chat));
}

export function saveUser(user) {
  state.user = user;
  sessionStorage.setItem("user", JSON.stringify(user));
}

/** The codes that were used up in this browser. */
export const usedCodes = () => JSON.parse(localStorage.getItem("used-codes") ?? "[]");
export const useUp = (code) => localStorage.setItem("used-codes", JSON.stringify([...usedCodes(), code].slice(-20)));

/** Ends the session of this tab. The first screen shows the text. */
export function endSession(text) {
  sessionStorage.clear();
  sessionStorage.setItem("notice", text);
  location.replace("/");
}

/** Decodes a part of an address. Returns it as it is if it is not encoded. */
export const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

// Requests to the local stack

/** An error response of the API. */
class ApiError extends Error {
  constructor(status, body) {
    super(body.message);
    Object.assign(this, { status, code: body.code });
  }
}

export async function call(method, path, body, { token = state.token, headers = {} } = {}) {
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
  // A wrong code is a 401, too.
  if (json.code?.startsWith("token_") && token && token === state.token) endSession("Your session has ended. Log in again.");
  throw new ApiError(response.status, json);
}

export const get = (path, parameters = {}) => {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value != null && value !== ""));
  return call("GET", query.size ? `${path}?${query}` : path);
};
export const post = (path, body = {}) => call("POST", path, body);

/** Invokes a Lambda function that has no HTTP route, as `aws lambda invoke` does. */
export async function invoke(name, payload) {
  const result = await call("POST", `/2015-03-31/functions/${name}/invocations`, payload, { token: null });
  // Lambda responds with 200 even if the function fails. The error is in the body.
  if (result?.errorType) throw new Error(`${name} failed: ${result.errorMessage}`);
  return result;
}

export const smsLog = (query) =>
  call("GET", `/api/logs/sms${query}`, null, { token: null, headers: { "x-touchline-console": "inbox" } });

// Notices and handlers

let noticeTimer;
let noticedAt = 0;

/** Shows a message for some seconds. Errors stay longer, because they say what to do. */
export function showNotice(text, isBad = false) {
  const notice = $("#notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
  noticedAt = performance.now();
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { notice.textContent = ""; }, isBad ? 12_000 : 6_000);
}

/** Clears the notice when the user opens another screen. Keeps a new one, unless it is an error: the action that opened the screen showed it. */
export function clearOldNotice() {
  if ($("#notice").classList.contains("bad") || performance.now() - noticedAt > 1000) showNotice("");
}

/** Shows an error at the field that it is about, until the field changes. */
function showFieldError(field, text) {
  const id = `${field.id}-error`;
  $(`#${id}`)?.remove();
  showNotice("");
  const error = h("p", { class: "error", id, role: "alert" }, text);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", id);
  field.after(error);
  field.addEventListener("input", () => {
    error.remove();
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }, { once: true });
  field.focus();
  field.select();
  $("button.primary", field.form)?.scrollIntoView({ block: "nearest" });
}

const busy = new Set();

/**
 * Returns an event handler that runs `action`, once at a time. Errors appear at the field that the form names in `data-field`,
 * or as notices. The button is only marked as busy, because a disabled one would lose the focus, and the keyboard would start
 * again at the top of the page.
 */
export const handler = (action) => async (event) => {
  event.preventDefault();
  const element = event.currentTarget;
  const button = event.submitter ?? element;
  if (busy.has(element)) return;
  busy.add(element);
  button.setAttribute("aria-busy", "true");
  try {
    await action(element, event);
  } catch (error) {
    const field = element.elements?.[element.dataset.field];
    if (field) showFieldError(field, error.message);
    else showNotice(error.message, true);
  } finally {
    busy.delete(element);
    button.removeAttribute("aria-busy");
    document.dispatchEvent(new Event("handled"));
  }
};

export const button = (text, action, attributes = {}) => h("button", { type: "button", ...attributes, onclick: handler(action) }, text);

// Texts

/** Returns a number with its noun: `1 request`, `2 requests`. */
export const count = (amount, noun) => `${number(amount)} ${noun}${amount === 1 ? "" : "s"}`;

// The page is in English, so numbers and names of days are too, whatever the language of the browser.
const LOCALE = navigator.language.startsWith("en") ? navigator.language : "en-GB";
export const number = (value, options) => value.toLocaleString(LOCALE, options);
export const clockFormat = new Intl.DateTimeFormat(LOCALE, { timeStyle: "short" });
export const timeFormat = { format: (time) => `${dayName(time)}, ${clockFormat.format(time)}` };
export const dateFormat = new Intl.DateTimeFormat(LOCALE, { day: "numeric", month: "long", year: "numeric" });
const dayFormat = new Intl.DateTimeFormat(LOCALE, { weekday: "long", day: "numeric", month: "long" });

/** Names the day of a time: Today, Tomorrow, Yesterday, or the date. */
export function dayName(time, now = new Date()) {
  const day = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
  const days = Math.round((day(time) - day(now)) / 86_400_000);
  return { "-1": "Yesterday", 0: "Today", 1: "Tomorrow" }[days] ?? (time.getFullYear() === now.getFullYear() ? dayFormat : dateFormat).format(time);
}

/** Says how long it takes until a time: `in 2 h 5 min`, `in 45 s`. */
export function countdown(time, now = new Date()) {
  const seconds = Math.max(0, Math.round((time - now) / 1000));
  const days = Math.floor(seconds / 86_400);
  if (days >= 730) return `in ${Math.floor(days / 365)} years`;
  if (days >= 2) return `in ${number(days)} days`;
  if (days === 1) return `in 1 day ${Math.floor(seconds / 3600) - 24} h`;
  if (seconds >= 3600) return `in ${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return seconds >= 60 ? `in ${Math.floor(seconds / 60)} min` : `in ${seconds} s`;
}

export const scoreText = (match) => match.home_score == null ? "–" : `${match.home_score}\u00a0:\u00a0${match.away_score}`;
const STATUSES = { scheduled: "Kick-off", live: "Live", finished: "Full time" };
const DETAILS = { postponed: "Postponed", suspended: "Suspended", cancelled: "Cancelled", abandoned: "Abandoned", awarded: "Awarded" };
export const statusName = ({ status, status_detail: detail }) => DETAILS[detail] ?? STATUSES[status] ?? status;

/** Names the pick of a prediction: the score, if there is one, and the team that wins or a draw. */
export function pickText({ prediction, score_prediction: score }, match) {
  const winner = { home: match.home_team.name, away: match.away_team.name }[prediction];
  if (!score) return winner ?? "a draw";
  return `${score.home}\u00a0:\u00a0${score.away}${winner ? ` for ${winner}` : ", a draw"}`;
}

/** Returns the shares of some counts in whole percents that add up to 100. The largest remainders are rounded up. */
export function percentages(counts) {
  const sum = Object.values(counts).reduce((total, number) => total + number, 0);
  const shares = Object.entries(counts).map(([name, number]) => ({ name, exact: 100 * number / sum, whole: Math.floor(100 * number / sum) }));
  const left = 100 - shares.reduce((total, { whole }) => total + whole, 0);
  for (const share of shares.toSorted((a, b) => b.exact - b.whole - (a.exact - a.whole)).slice(0, left)) share.whole += 1;
  return Object.fromEntries(shares.map(({ name, whole }) => [name, whole]));
}

export const winnerOf = (home, away) => home > away ? "home" : home < away ? "away" : "draw";

/** The points of a prediction at a score: the rules of docs/points.md. */
export function pointsFor({ prediction, score_prediction: score }, home, away) {
  if (prediction !== winnerOf(home, away)) return 0;
  if (!score) return 2;
  if (score.home === home && score.away === away) return 4;
  return prediction !== "draw" && score.home - score.away === home - away ? 3 : 2;
}

// Crests

/** A number from a text: always the same one for the same text. */
function hash(text) {
  let value = 2_166_136_261;
  for (const character of text) value = Math.imul(value ^ character.codePointAt(0), 16_777_619);
  // The last steps spread texts that differ only at their end.
  value = Math.imul(value ^ (value >>> 15), 2_246_822_519);
  return (value ^ (value >>> 13)) >>> 0;
}

const KITS = [
  ["#0f7a40", "#ffffff"], ["#b3261e", "#ffffff"], ["#1f4fb2", "#ffd24d"], ["#14181f", "#f2c230"], ["#6a1b5d", "#a9d8ff"],
  ["#c95f00", "#10233f"], ["#0a6e82", "#f4f1e4"], ["#8c1c2f", "#cfe0ee"], ["#1b2a6b", "#ffffff"], ["#33343f", "#e8555a"],
  ["#5b2a86", "#f6c945"], ["#00695c", "#ffb74d"],
];
const PATTERNS = [
  (colour) => [6, 16, 26].map((x) => svg("rect", { x, width: 5, height: 40, fill: colour })),
  (colour) => [5, 16, 27].map((y) => svg("rect", { y, width: 36, height: 6, fill: colour })),
  (colour) => svg("rect", { x: 18, width: 18, height: 40, fill: colour }),
  (colour) => svg("path", { d: "M-4 6 6-4l34 34-10 10z", fill: colour }),
  (colour) => [svg("rect", { x: 18, width: 18, height: 19, fill: colour }), svg("rect", { y: 19, width: 18, height: 21, fill: colour })],
  (colour) => svg("path", { d: "M0 10 18 22 36 10v10L18 32 0 20z", fill: colour }),
];
const SHIELD = "M3 2h30v17c0 10-7 16-15 19C10 35 3 29 3 19z";
let crests = 0;

/** The crest of a team: its logo, or a shield in two colours that follow from its name. */
export function crest({ name, logo }, size = 36) {
  // The page loads nothing from other hosts.
  if (logo?.startsWith("/") || logo?.startsWith("data:")) return h("img", { class: "crest", src: logo, alt: "", width: size, height: size });
  const number = hash(name);
  const [ground, colour] = KITS[number % KITS.length];
  const clip = `crest-${(crests += 1)}`;
  return svg("svg", { class: "crest", viewBox: "0 0 36 40", width: size * 0.9, height: size, "aria-hidden": "true" },
    svg("clipPath", { id: clip }, svg("path", { d: SHIELD })),
    svg("g", { "clip-path": `url(#${clip})` }, svg("rect", { width: 36, height: 40, fill: ground }), PATTERNS[(number >>> 8) % PATTERNS.length](colour)),
    svg("path", { d: SHIELD, fill: "none", stroke: "currentColor", "stroke-opacity": ".45", "stroke-width": 1.5 }));
}

const ICONS = {
  matches: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 5 4 3-1.500 4.700h-5L8 11z",
  picks: "M4 12l5 5L20 6",
  table: "M5 20v-7M12 20V5M19 20v-10",
  rooms: "M4 5h16v11H10l-4 4v-4H4z",
  coins: "M12 4c5 0 8 1.500 8 3.500S17 11 12 11 4 9.500 4 7.500 7 4 12 4zM4 7.500v9C4 18.500 7 20 12 20s8-1.500 8-3.500v-9M4 12c0 2 3 3.500 8 3.500s8-1.500 8-3.500",
  me: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21c0-4 4-6 8-6s8 2 8 6",
};
export const icon = (name) => svg("svg", {
  viewBox: "0 0 24 24", width: 20, height: 20, fill: "none", stroke: "currentColor", "stroke-width": 2,
  "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true",
}, svg("path", { d: ICONS[name] }));

// Motion

export const hasMotion = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

/** An element that counts up to a number. It shows the number at once if the user wants less motion. */
export function countUp(number, text, from = 0) {
  const element = h("span", {}, text(number));
  if (!hasMotion() || number <= from) return element;
  const shown = h("span", { "aria-hidden": "true" }, text(from));
  const started = performance.now();
  const draw = (now) => {
    const part = Math.min(1, (now - started) / 900);
    shown.textContent = text(Math.round(from + (number - from) * (1 - (1 - part) ** 3)));
    if (part < 1) requestAnimationFrame(draw);
    else element.textContent = text(number);
  };
  requestAnimationFrame(draw);
  element.replaceChildren(h("span", { class: "hidden" }, text(number)), shown);
  return element;
}
