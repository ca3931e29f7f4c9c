// The app as a fan sees it: login, matches, picks, tables, rooms, coins and the account.

import {
  $, button, call, clearOldNotice, clockFormat, count, countUp, countdown, crest, dateFormat, dayName, decoded, endSession, get, h, handler, hasMotion,
  icon, number, percentages, pickText, pointsFor, post, saveChat, saveLogin, saveUser, saved, scoreText, showNotice, state, statusName, timeFormat, useUp, winnerOf,
} from "./console.js";

// Navigation: the part of the address after # names the screen, so that Back, reload and links work.

const TABS = { matches: "Matches", picks: "Picks", table: "Table", rooms: "Rooms", coins: "Coins", me: "Me" };
const SCREENS = { matches, picks, table, rooms, coins, me, match, room, fan, teams, account, username };
/** The tab that is marked while a screen without a tab is shown. */
const TAB_OF = { match: "matches", room: "rooms", teams: "me", account: "me", username: "me" };
/** The screen from which each profile was opened, by the address of the profile. */
const openedFrom = new Map();
const beforeFan = () => openedFrom.get(location.hash) ?? "#table";
const tabOf = (name) => name === "fan" ? tabOf(address(beforeFan())[0]) : TAB_OF[name] ?? name;

const address = (hash = location.hash) => {
  const [, name, id = ""] = /^#([^/]*)\/?(.*)$/.exec(hash) ?? [];
  return Object.hasOwn(SCREENS, name ?? "") ? [name, decoded(id)] : ["matches", ""];
};

/** Is aborted when the user leaves the screen, or when it is loaded again. */
let leaving = new AbortController();

/** Loads the screen of the address and shows it, unless the user has moved on meanwhile. */
export async function render() {
  if (!state.token) return;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [name, id] = address();
  drawTabs(tabOf(name));
  $("#screen").setAttribute("aria-busy", "true");
  try {
    const children = await SCREENS[name](id, signal);
    if (!signal.aborted) show(...children);
  } catch (error) {
    if (signal.aborted) return;
    // A screen that is shown already stays.
    if (!state.token || $("#screen").dataset.shown?.startsWith(`${location.hash} `)) throw error;
    const isUnknown = error.status === 404;
    show(h("h2", { id: "failed" }, isUnknown ? "There is nothing here" : "This screen cannot be shown"), h("p", { class: "hint" }, error.message),
      !isUnknown && button("Try again", () => { delete $("#screen").dataset.shown; return render(); }), tabOf(name) !== name && back(tabOf(name)));
  } finally {
    if (!signal.aborted) $("#screen").setAttribute("aria-busy", "false");
  }
}

/** Opens a screen: `go("match/7")`. */
function go(to) {
  if (location.hash === `#${to}`) return render();
  location.hash = to;
  return null;
}

const renderSafely = () => render().catch((error) => showNotice(error.message, true));
addEventListener("hashchange", () => {
  clearOldNotice();
  hideFinishedGuide();
  renderSafely();
});

function drawTabs(current) {
  const tabs = $("#tabs");
  tabs.hidden = false;
  // The links stay in place, so that a click on one never misses it.
  if (!tabs.children.length) tabs.replaceChildren(...Object.entries(TABS).map(([name, title]) => h("a", { href: `#${name}` }, icon(name), title)));
  for (const link of tabs.children) {
    if (link.hash === `#${current}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/**
 * Shows a screen. A new screen starts at the top and takes the focus. An updated screen keeps its scroll position
 * and focus. If the control with the focus is gone, as after Play, the result of a match takes the focus.
 */
function show(...children) {
  const screen = $("#screen");
  const [name] = address();
  const before = { ...screen.dataset };
  screen.dataset.shown = `${location.hash} ${children[0]?.id}`;
  // When a match kicks off or ends, its screen scrolls to the top.
  screen.dataset.phase = name === "match" ? state.match?.status : "";
  if (before.phase && screen.dataset.phase && before.phase !== screen.dataset.phase) clearOldNotice();
  const { scrollTop } = screen;
  const hadFocus = screen.contains(document.activeElement);
  keepFocus(screen, () => screen.replaceChildren(...children.filter(Boolean)));
  if (before.shown === screen.dataset.shown && before.phase === screen.dataset.phase) screen.scrollTop = scrollTop;
  else toTop();
  document.dispatchEvent(new Event("shown"));
  if (before.shown === screen.dataset.shown) {
    if (hadFocus && document.activeElement === document.body) $("#outcome")?.focus({ preventScroll: true });
    return;
  }
  const title = $("h2", screen);
  const first = $("form.welcome input", screen) ?? title ?? $("#app");
  if (first === title) title.tabIndex = -1;
  first.focus({ preventScroll: true });
}

/** Draws a part of the page. The control that had the focus has it afterwards, too. */
export function keepFocus(part, draw) {
  const label = (element) => element.id || element.getAttribute("aria-label") || element.textContent;
  const focused = part.contains(document.activeElement) && label(document.activeElement);
  draw();
  if (focused) [...part.querySelectorAll("a, button, input, select, #outcome")].find((control) => label(control) === focused)?.focus({ preventScroll: true });
}

/** On a phone the page scrolls, elsewhere the screen. */
function toTop() {
  $("#screen").scrollTop = 0;
  if (matchMedia("(max-width: 860px)").matches) scrollTo(0, 0);
}

/** Replaces the texts of countdowns every second, without drawing the screen again. */
setInterval(() => {
  for (const element of document.querySelectorAll("[data-until]")) element.textContent = countdown(new Date(Number(element.dataset.until)));
}, 1000);
const countdownTo = (time) => h("span", { "data-until": time.getTime() }, countdown(time));

const STEPS = ["Log in", "Predict a match", "Play it", "Get points"];

const stepsDone = () => Number(sessionStorage.getItem("guide") ?? 0);

/** Marks the next step on the way from the login to the first points. */
function guideTo(step) {
  const reached = Math.max(step, stepsDone());
  sessionStorage.setItem("guide", reached);
  $("#guide").replaceChildren(...STEPS.map((text, index) =>
    h("li", { class: index < reached ? "done" : "", "aria-current": index === reached ? "step" : null }, text)));
}

/** Once all steps are done, the guide stays until the user opens another screen. */
const hideFinishedGuide = () => { $("#guide").hidden = stepsDone() >= STEPS.length; };

// Login

const DEVICE = "Touchline console";

function prepareLogin() {
  const form = $("#login");
  form.addEventListener("submit", handler(async () => {
    const phone = form.phone.value;
    await post("/api/code/request", { phone });
    showNotice("Your code is in the SMS inbox.");
    enterCode(phone);
  }));
  showNextMatch();
}

/** Each tab has a login of its own. A new tab hears who the others are. */
const otherTabs = new BroadcastChannel("tabs");
otherTabs.onmessage = ({ data: name }) => {
  const form = $("#login");
  if (!name && state.user) otherTabs.postMessage(state.user.username);
  if (!name || !form) return;
  $("#who").textContent = `This tab is for a second fan: another tab is logged in as ${name}. Use another number. Its code appears in the inbox on this page.`;
  if (form.phone.value === form.phone.defaultValue) form.phone.value = "+447700900124";
};

/** `phone` tells the inbox which code to offer. */
const codeInput = (phone) => h("input", {
  id: "code", name: "code", "data-phone": phone, inputmode: "numeric", autocomplete: "one-time-code", maxlength: 6, required: true,
});

const newCodeButton = (path, body) => button("Send a new code", async () => {
  await post(path, body);
  showNotice("A new code is in the SMS inbox.");
});

function enterCode(phone) {
  // After a reload, the page asks for the code again.
  sessionStorage.setItem("code", JSON.stringify(phone));
  const draft = saved("draft");
  show(
    h("form", {
      class: "welcome", id: "enter-code", "data-field": "code",
      onsubmit: handler(async (form) => {
        const { data, message } = await post("/api/code/verify", { phone, code: form.code.value, device_name: DEVICE });
        saveLogin(data);
        sessionStorage.removeItem("code");
        useUp(form.code.value);
        guideTo(1);
        const isNew = Date.now() - Date.parse(data.user.created_at) < 60_000;
        showNotice(message ?? (isNew ? "Welcome. Choose your username." : `Welcome, ${data.user.username}.`));
        await sendDraft();
        await go(isNew ? "username" : landing);
      }),
    },
      h("h2", {}, "Enter the code"),
      h("p", {}, `The code for ${phone} is in the SMS inbox of this page.`),
      draft && h("p", {}, `Then your prediction is sent: ${pickText(draft, draft.match)}.`),
      h("label", { for: "code" }, "Code"),
      codeInput(phone),
      h("button", { class: "primary" }, "Log in"),
      h("div", { class: "chips" },
        newCodeButton("/api/code/request", { phone }),
        button("Change the number", () => {
          sessionStorage.removeItem("code");
          location.reload();
        })),
    ),
  );
}

/** Shows visitors the next match, and keeps what they predict until they log in. */
async function showNextMatch() {
  const card = $("#next");
  const { data } = await get("/api/events").catch(() => ({ data: [] }));
  const match = data.find(({ status, start_time }) => status === "scheduled" && Date.parse(start_time) > Date.now() + 60_000);
  if (!card || !match) return card?.remove();
  const draft = saved("draft");
  const status = h("p", { class: "hint", role: "status" });
  const keep = () => {
    const pick = readPick(form);
    const problem = contradiction(pick);
    if (form.checkValidity() && !problem) sessionStorage.setItem("draft", JSON.stringify({ ...pick, match }));
    else sessionStorage.removeItem("draft");
    status.textContent = problem || (pick.prediction ? `Log in to send it: ${pickText(pick, match)}.` : "Your prediction is sent when you log in.");
  };
  const form = h("form", { id: "first-pick", onchange: keep, onsubmit: (event) => event.preventDefault() },
    pickFields(match, draft?.match.id === match.id ? draft : null, keep), status);
  card.replaceChildren(versus(match), h("p", { class: "hint centre" }, whereAndWhen(match)), form);
  keep();
}

/** The screen that follows the login. */
let landing = "matches";

/** Sends the prediction that was made before the login. Without a response, a reload sends it again. */
async function sendDraft() {
  const draft = saved("draft");
  if (!draft) return;
  const { match: { id }, ...pick } = draft;
  try {
    const { message } = await post("/api/auth/predictions", { event_id: id, ...pick });
    showNotice(message);
    landing = `match/${id}`;
  } catch (error) {
    showNotice(`Your prediction was not saved: ${error.message}`, true);
    if (!(error.status < 500)) return;
  }
  sessionStorage.removeItem("draft");
}

const NICKNAMES = ["volley", "nutmeg", "onside", "topcorner", "extratime", "thirdman", "farpost", "halfway"];

async function username() {
  // A name like fan294857362 is not the fan's own choice, so the suggestions start from another one.
  const base = /^fan\d+$/.test(state.user.username) ? NICKNAMES[Math.floor(Math.random() * NICKNAMES.length)] : state.user.username;
  const { suggestions } = await post("/api/auth/username/generate", { base });
  const availability = h("p", { class: "hint", role: "status", id: "availability" }, "3 to 30 characters: letters, digits, _ and . You can change it until you join your first room.");
  const say = (text, isFree) => {
    availability.textContent = text;
    availability.classList.toggle("ok", isFree);
  };
  const input = h("input", {
    id: "username", name: "username", value: state.user.username, autocomplete: "username",
    "aria-describedby": "availability", required: true,
  });
  let timer;
  const check = () => {
    clearTimeout(timer);
    const username = input.value;
    const isOwn = username === state.user.username;
    // Until the answer, nothing is said about the new text.
    say(isOwn ? "This is your username." : "\u00a0", false);
    if (isOwn) return;
    timer = setTimeout(async () => {
      const { message, available } = await post("/api/auth/username/check", { username }).catch((error) => error);
      // An older answer may arrive after a newer one.
      if (input.value === username) say(message, available === true);
    }, 250);
  };
  input.addEventListener("input", check);
  return [
    h("form", {
      class: "welcome", "data-field": "username",
      onsubmit: handler(async () => {
        if (input.value !== state.user.username) {
          await post("/api/auth/update-user-info", { username: input.value });
          saveUser((await get("/api/auth/me")).data);
          // The homeserver knows fans by their usernames, so the new name needs a new login there.
          if (state.chat) saveChat((await post("/api/auth/chat/credentials")).data);
        }
        showNotice(`Your username is ${state.user.username}.`);
        await go(landing);
        landing = "matches";
      }),
    },
      h("h2", {}, "Choose a username"),
      h("label", { for: "username" }, "Username"),
      input,
      availability,
      h("p", { class: "hint", id: "suggestions" }, "Suggestions"),
      h("div", { class: "chips", role: "group", "aria-labelledby": "suggestions" }, suggestions.map((name) =>
        h("button", { type: "button", onclick: () => { input.value = name; check(); } }, name))),
      h("button", { class: "primary" }, "Save username"),
    ),
  ];
}

// Matches

let filter = "scheduled";
let tournament = "";
const FILTERS = { live: "Live", scheduled: "Upcoming", finished: "Finished" };

async function matches() {
  const [{ data }, { data: tournaments }] = await Promise.all([
    get("/api/auth/events", { status: filter, tournament_id: tournament, per_page: 24, include: "my_prediction,picks" }),
    get("/api/auth/tournaments", { per_page: 50 }),
  ]);
  return [
    h("h2", {}, "Matches"),
    chips("Status of the matches", FILTERS, filter, (name) => { filter = name; return render(); }),
    h("select", { "aria-label": "Tournament", onchange: handler((select) => { tournament = select.value; return render(); }) },
      h("option", { value: "" }, "All tournaments"),
      tournaments.map(({ id, name }) => h("option", { value: id, selected: String(id) === tournament }, name))),
    filter === "scheduled" && h("p", { class: "hint" }, "Open a match and predict it. Then press “Play this match”: it takes a minute. ",
      data.some(({ picks: shares }) => shares) && ["The bars show what fans pick: ", sideWord("home"), ", ", sideWord("draw"), " or ", sideWord("away"), "."]),
    byDay(data).map(([day, list]) => h("section", { class: "day", "aria-label": day },
      h("h3", {}, day),
      h("ul", { class: "list" }, list.map((match) => h("li", {}, matchCard(match)))))),
    data.length === 0 && h("p", { class: "hint" }, `No ${FILTERS[filter].toLowerCase()} matches.`),
  ].flat();
}

/** Groups matches by the day on which they start. */
function byDay(list) {
  const days = new Map();
  for (const match of list) {
    const day = dayName(new Date(match.start_time));
    days.set(day, [...(days.get(day) ?? []), match]);
  }
  return [...days];
}

function matchCard(match) {
  const { id, my_prediction: own, picks: shares } = match;
  return h("a", { class: "card match", href: `#match/${id}`, "data-match": id },
    teamsOf(match),
    h("span", { class: "score" }, match.status === "scheduled" ? clockFormat.format(new Date(match.start_time)) : goalsInRows(match)),
    shares && shareBar(shares, match),
    h("small", { class: "foot" },
      h("span", {}, match.tournament.name),
      own ? h("span", { class: "own" }, own.points_earned == null ? `You: ${shortPick(own)}` : `You: ${shortPick(own)} · +${own.points_earned}`)
        : match.status === "scheduled" ? countdownTo(new Date(match.start_time)) : h("span", {}, statusText(match), match.status === "live" && " · no prediction")));
}

/** The two teams of a match, below each other. */
const teamsOf = ({ home_team, away_team }) => h("span", { class: "teams" },
  [home_team, away_team].map((team) => h("span", {}, crest(team, 24), h("b", {}, team.name))));
const goalsInRows = ({ home_score, away_score }) => [h("span", {}, String(home_score ?? "–")), h("span", {}, String(away_score ?? "–"))];
const shortPick = ({ prediction, score_prediction: score }) =>
  score ? `${score.home} : ${score.away}` : { home: "home win", draw: "draw", away: "away win" }[prediction];
const statusText = (match) => match.status === "live" && !match.status_detail ? h("span", { class: "live" }, "● Live") : statusName(match);
const sideNames = (match) => ({ home: match.home_team.name, draw: "Draw", away: match.away_team.name });

/** The name of a side in the colour of its part of the bars. */
const sideWord = (side) => h("b", { style: `color: var(--${side})` }, side);

/** One bar of three parts: how many fans pick home, draw and away. */
function shareBar(shares, match) {
  const text = Object.entries(sideNames(match)).map(([side, name]) => `${name} ${shares[side]}%`).join(", ");
  return h("span", { class: "shares", title: text },
    h("span", { class: "hidden" }, `Fans pick: ${text}`),
    Object.keys(sideNames(match)).filter((side) => shares[side] > 0).map((side) => h("i", { style: `flex: ${shares[side]}; --hue: var(--${side})`, "aria-hidden": "true" },
      shares[side] >= 9 ? `${shares[side]}%` : "")));
}

/** A row of buttons of which one is pressed. */
function chips(label, names, current, choose) {
  return h("div", { class: "chips", role: "group", "aria-label": label }, Object.entries(names).map(([name, title]) =>
    button(title, () => choose(name), { "aria-pressed": String(name === current) })));
}

// One match

/** The latest message about each match that the stack plays, by id. */
const plays = new Map();
export const isPlaying = (id) => ["kick-off", "playing", "half-time", "full-time"].includes(plays.get(id)?.phase);

const back = (tab) => h("a", { class: "back", href: `#${tab}` }, `← ${TABS[tab]}`);

async function match(text, signal) {
  const id = Number(text);
  const [{ data: match }, everyone, { data: joined }] = await Promise.all([
    get(`/api/auth/events/${id}`, { include: "my_prediction" }),
    get(`/api/auth/events/${id}/predictions`, { per_page: 100 }),
    get("/api/auth/chat-rooms", { joined: true, event_id: id }),
  ]);
  const own = match.my_prediction;
  const hasPoints = match.status === "finished" && everyone.data.some(({ points_earned }) => points_earned != null);
  // While the stack calculates the points, only some fans have theirs. After a correction, `reason` is null until it has.
  const isSettled = hasPoints && !isPlaying(id) && (!own || own.reason != null);
  const crowd = isSettled ? await wholeCrowd(id, everyone) : everyone.data;
  const board = isSettled && own?.points_earned != null ? await get("/api/auth/leaderboards", { per_page: 1 }) : null;
  if (signal.aborted) return [];
  // The score may have changed while this loaded.
  if (match.status === "live" && isPlaying(id)) Object.assign(match, { home_score: plays.get(id).home_score, away_score: plays.get(id).away_score });
  state.match = { ...match, own, isSettled: hasPoints };
  document.dispatchEvent(new Event("match-opened"));
  if (own) guideTo(isSettled ? 4 : 2);
  return [
    back("matches"),
    versus(match),
    h("p", { class: "hint centre" }, whereAndWhen(match)),
    match.status === "scheduled" && [predictForm(match, own, everyone.meta), own && outcome("Your prediction", predicted(own, match), h("p", { class: "hint" }, "You can change it until kick-off."))],
    match.status === "live" && asItStands(match, own),
    match.status === "finished" && (board ? payOff(match, own, crowd, everyone.meta, board.meta) : withoutPoints(own, match)),
    match.status !== "finished" && !isPlaying(id) && playForm(match, own),
    match.status !== "scheduled" && sharesCard(everyone.meta, match),
    crowd.length > 0 && crowdCard(crowd, match, isSettled, everyone.meta.total_predictions),
    roomLink(match, joined.find(({ room_id }) => room_id === match.chat_room_id)),
  ].flat();
}

/** The teams of a match, with its score or time between them. */
const versus = (match) => h("section", { class: "versus", "aria-label": "Score" },
  h("h2", { class: "hidden" }, `${match.home_team.name} – ${match.away_team.name}`),
  h("div", {}, crest(match.home_team, 56), h("b", {}, match.home_team.name)),
  h("div", {}, match.status === "scheduled" ? h("p", { class: "score time" }, clockFormat.format(new Date(match.start_time))) : h("p", { class: "score", id: "score" }, scoreText(match)),
    h("p", { class: "clock", id: "clock" }, clockText(match))),
  h("div", {}, crest(match.away_team, 56), h("b", {}, match.away_team.name)),
  h("progress", { id: "minutes", max: 90, value: plays.get(match.id)?.minute ?? 0, "aria-label": "Minutes played", hidden: !isPlaying(match.id) }));

const whereAndWhen = ({ tournament, venue, start_time }) => [tournament.name, venue, dayName(new Date(start_time))].filter(Boolean).join(" · ");

const MOST_ROWS = 1000;

/** All predictions for a match with points, up to a maximum. */
async function wholeCrowd(id, first) {
  const rows = [...first.data];
  let cursor = first.meta.next_cursor;
  while (cursor && rows.length < MOST_ROWS) {
    const { data, meta } = await get(`/api/auth/events/${id}/predictions`, { per_page: 100, cursor });
    rows.push(...data);
    cursor = meta.next_cursor;
  }
  return rows;
}

function clockText(match) {
  const play = plays.get(match.id);
  if (match.status === "scheduled") return countdownTo(new Date(match.start_time));
  if (match.status === "live" && isPlaying(match.id)) return play.phase === "half-time" ? "Half time" : `${play.minute}'`;
  return statusText(match);
}

function predictForm(match, own, meta) {
  const { home, draw, away } = meta.prediction_distribution;
  const shares = home + draw + away > 0 ? percentages({ home, draw, away }) : null;
  const form = h("form", {
    class: "card", id: "predict",
    onsubmit: handler(async () => {
      const { message } = await post("/api/auth/predictions", { event_id: match.id, ...readPick(form), confidence: Number(form.elements.confidence.value) });
      showNotice(message);
      await render();
      $("#outcome")?.focus({ preventScroll: true });
      $("#play")?.scrollIntoView({ block: "end" });
    }),
  },
    pickFields(match, own, () => {}, shares),
    h("div", { class: "between" }, h("label", { for: "confidence" }, "How sure are you?"), h("output", { for: "confidence", id: "sure" }, `${own?.confidence ?? 50}%`)),
    h("input", {
      id: "confidence", name: "confidence", type: "range", min: 0, max: 100, step: 5, value: own?.confidence ?? 50,
      oninput: (event) => { $("#sure").textContent = `${event.target.value}%`; },
    }),
    h("p", { class: "hint" }, "Other fans see this next to your pick. It does not change your points."),
    h("button", { class: own ? "" : "primary" }, own ? "Change my prediction" : "Predict"),
  );
  return form;
}

/** The inputs for the pick and the score. A score chooses its winner. */
function pickFields(match, own, onscore, shares) {
  const names = sideNames(match);
  const pick = (side) => h("label", {},
    h("input", { type: "radio", name: "prediction", value: side, required: true, checked: own?.prediction === side }),
    h("b", {}, names[side]), shares && h("small", {}, `${shares[side]}% of fans`));
  const picks = h("div", { class: "picks" }, Object.keys(names).map(pick));
  const choose = (home, away) => {
    $(`[value=${winnerOf(home, away)}]`, picks).checked = true;
    onscore();
  };
  return [
    h("fieldset", {}, h("legend", {}, "Who wins?"), picks),
    h("fieldset", {}, h("legend", {}, "Which score? ", h("small", {}, "Exact: 4 points. Right winner and goal difference: 3. Right winner or draw: 2.")),
      scoreSteppers(match, own?.score_prediction, { onscore: choose })),
  ];
}

/** Reads the pick and the score. */
function readPick(form) {
  const { prediction, home, away } = Object.fromEntries(new FormData(form));
  if (home === "" && away === "") return { prediction };
  const goals = (text) => text === "" ? null : Number(text);
  return { prediction, score_prediction: { home: goals(home), away: goals(away) } };
}

/** Says why the API would reject a pick. */
function contradiction({ prediction, score_prediction: score }) {
  if (!prediction || !score) return "";
  if (score.home == null || score.away == null) return "Enter both numbers of the score, or none.";
  if (winnerOf(score.home, score.away) === prediction) return "";
  return `${score.home}\u00a0:\u00a0${score.away} does not go with your pick. Change one of them, or empty the score.`;
}

/** Two goals inputs with steppers. The second gets a number with the first. `least` is the score so far. */
function scoreSteppers(match, score, { least = { home: 0, away: 0 }, onscore = () => {} } = {}) {
  const inputs = {};
  // What was typed stays as it is, even if the API will reject it.
  const complete = (side) => {
    if (inputs[side].value === "") return;
    for (const name of ["home", "away"]) inputs[name].value ||= least[name];
    onscore(Number(inputs.home.value), Number(inputs.away.value));
  };
  const stepper = (side, team) => {
    const step = (by) => () => {
      inputs[side].value = Math.max(least[side], Math.max(least[side], Number(inputs[side].value)) + by);
      complete(side);
    };
    inputs[side] = h("input", {
      type: "number", name: side, min: least[side], inputmode: "numeric", value: score?.[side] ?? "", placeholder: "–",
      onchange: () => complete(side), "aria-label": `Goals of ${team.name}`,
    });
    return h("div", { class: "stepper" }, h("span", {}, team.name),
      h("button", { type: "button", onclick: step(-1), "aria-label": `One goal fewer for ${team.name}` }, "−"),
      inputs[side],
      h("button", { type: "button", onclick: step(1), "aria-label": `One goal more for ${team.name}` }, "+"));
  };
  return h("div", { class: "steppers" }, stepper("home", match.home_team), stepper("away", match.away_team));
}

const RUNGS = [[4, "Exact score"], [3, "Right winner and goal difference"], [2, "Right winner or draw"], [0, "Wrong result"]];

/** The ladder of points, with one rung lit. */
const ladder = (points) => h("ol", { class: "ladder", id: "ladder" }, RUNGS.map(([worth, what]) =>
  h("li", { class: worth === points ? "lit" : "", "aria-current": worth === points ? "true" : null }, h("b", {}, String(worth)), what)));

/** The result of a prediction so far. It takes the focus after Predict and Play. */
const outcome = (label, ...children) => h("section", { class: "card", id: "outcome", "aria-label": label, tabindex: -1 }, ...children);
const predicted = (own, match) => h("p", {}, match.status === "scheduled" ? "You predict " : "You predicted ", h("b", {}, pickText(own, match)), ".");
const noPrediction = (text = "") => outcome("No prediction", h("p", {}, `You did not predict this match.${text}`));

function asItStands(match, own) {
  if (!own) return noPrediction(" Predictions closed at kick-off.");
  const points = pointsFor(own, match.home_score ?? 0, match.away_score ?? 0);
  return outcome("As it stands", predicted(own, match),
    h("p", { class: "standing", id: "standing" }, `As it stands: ${count(points, "point")}`),
    ladder(points));
}

const NO_POINTS = { late: "No points: your prediction last changed after kick-off.", void: "No points: this match does not count." };

const withoutPoints = (own, match) => own
  ? outcome("Your prediction", predicted(own, match),
    h("p", { class: "hint" }, NO_POINTS[own.reason] ?? (isPlaying(match.id) ? "Full time. Your points are being calculated …"
      : "Full time. Points are calculated within two minutes. To calculate them now, use the match controls.")))
  : noPrediction();

const pointsText = (points) => points > 0 ? `+${count(points, "point")}` : "0 points";
const TITLES = { 4: "Exact score!", 3: "Right goal difference!", 2: "Right result!", 0: "Not this time." };

/** The result of a prediction: the points, how many fans were exact or did better, and the rank. */
function payOff(match, own, crowd, { total_predictions: total }, board) {
  const all = crowd.length < MOST_ROWS ? total : `the first ${crowd.length}`;
  const points = own.points_earned;
  // The points of others may be stored later, but follow from the result.
  const others = crowd.map((row) => pointsFor(row, match.home_score, match.away_score));
  const exact = others.filter((earned) => earned === 4).length;
  const better = others.filter((earned) => earned > points).length;
  const isDraw = own.prediction === "draw";
  const title = points === 2 && isDraw ? "A draw, as you said!" : TITLES[points] ?? count(points, "point");
  const company = total === 1 ? "Nobody else predicted this match." : points === 4 ? (exact === 1 ? `Only 1 of ${all} called it.` : `${exact} of ${all} called it.`)
    : better === 0 ? `None of ${all} did better.` : `${better} of ${all} did better.`;
  const isNew = !sessionStorage.getItem(`celebrated ${match.id} ${points}`);
  sessionStorage.setItem(`celebrated ${match.id} ${points}`, "yes");
  const card = outcome("Your points",
    h("p", { class: "verdict" }, title),
    h("p", { class: points > 0 ? "big points" : "big" }, isNew ? countUp(points, pointsText) : pointsText(points)),
    predicted(own, match),
    h("p", {}, company),
    ladder(points),
    board.me && h("p", { class: "between" }, h("a", { href: "#table" }, `Place ${number(board.me.rank)} of ${number(board.total)}, all fans`), movedBadge(board.me.moved, true)));
  card.classList.add("payoff");
  if (isNew && points > 0) celebrate(card, points);
  return card;
}

/** Lets confetti fall on an element, unless the user wants less motion. */
function celebrate(element, points) {
  if (!hasMotion()) return;
  const pieces = Array.from({ length: 12 * points }, (_, piece) => h("i", {
    style: `left: ${Math.random() * 100}%; --hue: var(--${["home", "draw", "away"][piece % 3]}); animation-delay: ${Math.random() * 400}ms; --turn: ${Math.random() * 720}deg`,
  }));
  const confetti = h("div", { class: "confetti", "aria-hidden": "true" }, pieces);
  element.append(confetti);
  setTimeout(() => confetti.remove(), 2600);
}

const SECONDS = { 10: "10 seconds", 60: "60 seconds", 180: "3 minutes" };

/** Returns whether the prediction in the form differs from the stored one. */
function isUnsaved(own) {
  const form = $("#predict");
  if (!form) return false;
  const { prediction, score_prediction: score } = readPick(form);
  if (!own) return Boolean(prediction);
  const before = own.score_prediction;
  return prediction !== own.prediction || score?.home !== before?.home || score?.away !== before?.away
    || Math.abs(Number(form.elements.confidence.value) - own.confidence) >= 5;
}

/** The form that lets the local stack play the match. */
function playForm(match, own) {
  const score = own?.score_prediction;
  const [home, away] = [match.home_score ?? 0, match.away_score ?? 0];
  const isPossible = score && score.home >= home && score.away >= away;
  const hint = isPossible ? "The match will end with the score you predicted, unless you change it here."
    : own || match.status === "live" ? "Leave the score empty to get a random result." : "Predict first to earn points, then play the match.";
  return h("form", {
    class: "card", id: "play",
    onsubmit: handler(async (form) => {
      if (isUnsaved(own)) throw new Error(`Your prediction is not saved yet. Press “${own ? "Change my prediction" : "Predict"}” first.`);
      const { home: homeGoals, away: awayGoals, seconds } = Object.fromEntries(new FormData(form));
      const body = { seconds: Number(seconds) };
      if (homeGoals !== "") Object.assign(body, { home_score: Number(homeGoals), away_score: Number(awayGoals) });
      await call("POST", `/_console/matches/${match.id}/play`, body, { token: null });
      guideTo(2);
    }),
  },
    h("h3", {}, match.status === "live" ? "Play the rest of this match" : "Play this match"),
    h("p", { class: "hint" }, hint),
    h("fieldset", {}, h("legend", {}, "Final score"), scoreSteppers(match, isPossible ? score : null, { least: { home, away } })),
    h("label", { class: "between" }, "Length of the match", h("select", { name: "seconds" },
      Object.entries(SECONDS).map(([value, text]) => h("option", { value, selected: value === "60" }, text)))),
    h("button", { class: own ? "primary" : "" }, "▶ Play this match"));
}

/** What fans predict. Hidden totals are not shown as zeros. */
function sharesCard(meta, match) {
  const total = meta.total_predictions;
  const { home, draw, away } = meta.prediction_distribution;
  const sum = home + draw + away;
  const shares = percentages({ home, draw, away });
  return h("section", { class: "card", "aria-labelledby": "shares" },
    h("h3", { id: "shares" }, "What fans predicted"),
    h("p", { class: "hint" }, total === 0 ? "Nobody predicted this match."
      : sum === 0 ? `${count(total, "prediction")}. The split stays hidden until there are more.`
        : `${count(total, "prediction")} · ${Math.round(meta.average_confidence)}% sure on average`),
    sum > 0 && h("dl", { class: "bars" }, Object.entries(sideNames(match)).flatMap(([side, name]) => {
      const share = `${shares[side]}%`;
      return [h("dt", {}, name), h("dd", { class: "track", "aria-hidden": "true" }, h("i", { style: `width: ${share}; --hue: var(--${side})` })), h("dd", {}, share)];
    })));
}

const SHOWN_FANS = 10;

const bestFirst = (predictions) => predictions.toSorted((a, b) => (b.points_earned ?? -1) - (a.points_earned ?? -1));

function crowdCard(crowd, match, isSettled, total) {
  const sorted = isSettled ? bestFirst(crowd) : crowd;
  const shown = sorted.slice(0, SHOWN_FANS);
  const own = sorted.find(({ user }) => user.id === state.user.id);
  if (own && !shown.includes(own)) shown.push(own);
  return h("section", { class: "card", "aria-labelledby": "crowd" },
    h("h3", { id: "crowd" }, isSettled ? "The crowd, best first" : "Fans' picks"),
    h("ul", { class: "list rows" }, shown.map((row) => h("li", { class: "between", "aria-current": row === own ? "true" : null },
      h("span", {}, fanLink(row.user), h("small", {}, ` ${pickText(row, match)} · ${row.confidence}% sure`)),
      pointsBadge(row.points_earned)))),
    total > shown.length && h("p", { class: "hint" }, `${shown.length} of ${count(total, "fan")}`));
}

const pointsBadge = (points) => points != null && h("span", { class: points > 0 ? "points" : "hint" }, `+${points}`);
const fanLink = ({ id, username }) => h("a", {
  class: "fan", href: `#fan/${id}`, onclick: () => { openedFrom.set(`#fan/${id}`, location.hash || "#matches"); },
}, username);

function roomLink(match, joined) {
  const to = `room/${match.chat_room_id}`;
  if (joined) return h("a", { class: "button", id: "join", href: `#${encodeURI(to)}` }, `Open the room of this match · ${count(joined.member_count, "member")}`);
  return button("Join the room of this match", async () => {
    await joinRoom(match.chat_room_id);
    await go(encodeURI(to));
  }, { id: "join" });
}

/** Shows a message about a match that the stack plays: the clock and the score. Loads the screen again when the phase changes. */
document.addEventListener("play", ({ detail: play }) => {
  const before = plays.get(play.event_id);
  plays.set(play.event_id, play);
  const [name, id] = address();
  const isShown = name === "match" && Number(id) === play.event_id;
  if (play.phase === "failed") showNotice(`The match stopped: ${play.message}`, true);
  // In some sports, one message often has several goals. Only single ones are announced.
  const goals = play.home_score + play.away_score - (before ? before.home_score + before.away_score : 0);
  if (play.scorer && goals === 1 && state.match?.id === play.event_id) {
    const team = state.match[`${play.scorer}_team`].name;
    showNotice(`Goal! ${team}. ${play.home_score} : ${play.away_score}`);
  } else if (state.match?.id === play.event_id && play.phase === "full-time") {
    showNotice(`Full time. ${play.home_score} : ${play.away_score}`);
  } else if (play.phase === "settled") {
    showNotice("");
  }
  const isNewPhase = play.phase !== before?.phase;
  if (isNewPhase && (isShown || name === "matches")) renderSafely();
  else if (isShown) drawPlay(play);
  else if (name === "matches") drawGoals(play);
});

function drawPlay(play) {
  const score = $("#score");
  if (!score || state.match.id !== play.event_id) return;
  $("#clock").textContent = play.phase === "half-time" ? "Half time" : `${play.minute}'`;
  Object.assign($("#minutes"), { value: play.minute, hidden: false });
  if (!play.scorer) return;
  Object.assign(state.match, { home_score: play.home_score, away_score: play.away_score });
  document.dispatchEvent(new Event("match-opened"));
  score.textContent = scoreText(play);
  score.classList.remove("goal");
  // Reading the width starts the animation again.
  void score.offsetWidth;
  score.classList.add("goal");
  const { own } = state.match;
  if (!own || !$("#standing")) return;
  const points = pointsFor(own, play.home_score, play.away_score);
  $("#standing").textContent = `As it stands: ${count(points, "point")}`;
  $("#ladder").replaceWith(ladder(points));
}

function drawGoals(play) {
  $(`[data-match="${play.event_id}"] .score`)?.replaceChildren(...goalsInRows(play));
}

// Picks

const WHY = {
  exact: "exact score", difference: "right goal difference", outcome: "right result", miss: "wrong result",
  void: "the match does not count", late: "changed after kick-off",
};

async function picks() {
  const { data } = await get("/api/auth/predictions");
  return [
    h("h2", {}, "My picks"),
    h("ul", { class: "list" }, data.map((row) => h("li", {},
      h("a", { class: "card match", href: `#match/${row.event_id}` },
        teamsOf(row.event),
        h("span", { class: "score" }, row.event.home_score == null ? clockFormat.format(new Date(row.event.start_time)) : goalsInRows(row.event)),
        h("small", { class: "foot" },
          h("span", {}, `You: ${shortPick(row)} · ${row.confidence}% sure`),
          h("span", { class: row.points_earned ? "points" : "" }, row.points_earned == null ? row.event.status === "scheduled" ? dayName(new Date(row.event.start_time)) : statusText(row.event)
            : `+${row.points_earned}${WHY[row.reason] ? ` · ${WHY[row.reason]}` : ""}`)))))),
    data.length === 0 && h("p", { class: "hint" }, "No predictions yet. ", h("a", { href: "#matches" }, "Open an upcoming match"), " to make one."),
  ];
}

// Tables

const PERIODS = { all: "All time", season: "Season", month: "Month", matchday: "Matchday" };
/** `scope` is "global", "tournament 12" or "room !abc:example.org". */
const shownTable = { scope: "global", period: "all", isAroundMe: false };

async function table() {
  const [{ data: tournaments }, { data: rooms }] = await Promise.all([
    get("/api/auth/tournaments", { per_page: 50 }),
    get("/api/auth/chat-rooms", { joined: true, per_page: 100 }),
  ]);
  const room = rooms.find(({ room_id }) => shownTable.scope === `room ${room_id}`);
  // The user has left the room, or an operator has removed it.
  if (shownTable.scope.startsWith("room ") && !room) shownTable.scope = "global";
  // The table of one match has no periods.
  const hasPeriods = room?.league !== "match";
  const [scope, id] = shownTable.scope.split(" ");
  const query = { scope, id, period: hasPeriods ? shownTable.period : "all", around: shownTable.isAroundMe ? "me" : null };
  const page = await get("/api/auth/leaderboards", query);
  const choose = (change) => { Object.assign(shownTable, change); return render(); };
  const option = (value, text) => h("option", { value, selected: value === shownTable.scope }, text);
  const list = h("ol", { class: "list standings" }, page.data.map(standingsRow));
  const { me, total, as_of } = page.meta;
  const isAway = me && !page.data.some(({ user }) => user.id === me.user.id);
  return [
    h("h2", {}, "Table"),
    h("label", { for: "scope" }, "Table for"),
    h("select", { id: "scope", onchange: handler((select) => choose({ scope: select.value })) },
      option("global", "All fans, all matches"),
      tournaments.length > 0 && h("optgroup", { label: "Tournaments" }, tournaments.map(({ id, name }) => option(`tournament ${id}`, name))),
      rooms.length > 0 && h("optgroup", { label: "My rooms" }, rooms.map(({ room_id, name }) => option(`room ${room_id}`, name)))),
    hasPeriods && chips("Period", PERIODS, shownTable.period, (period) => choose({ period })),
    chips("Rows", { top: "From the top", around: "Around me" }, shownTable.isAroundMe ? "around" : "top", (rows) => choose({ isAroundMe: rows === "around" })),
    list,
    page.meta.next_cursor && moreButton(query, list, page.meta.next_cursor),
    isAway && h("ol", { class: "list standings apart", "aria-label": "Me" }, standingsRow(me)),
    page.data.length === 0 && h("p", { class: "hint" }, shownTable.isAroundMe && total > 0
      ? "You are not in this table yet: none of your predictions has points."
      : "Nobody is in this table yet. A match counts here within a minute of its points being calculated."),
    as_of && h("p", { class: "hint" }, `${count(total, "fan")} · as of ${timeFormat.format(new Date(as_of))} · ▲ ▼ places gained or lost since the previous match`),
  ];
}

function movedBadge(moved, hasUnit = false) {
  if (!moved) return null;
  const places = count(Math.abs(moved), "place");
  return h("span", { class: `moved ${moved > 0 ? "up" : "down"}` },
    h("span", { "aria-hidden": "true" }, `${moved > 0 ? "▲" : "▼"} ${hasUnit ? places : Math.abs(moved)}`),
    h("span", { class: "hidden" }, `${moved > 0 ? "up" : "down"} ${places}`));
}

const standingsRow = ({ rank, user, points, correct, settled, exact, moved }) =>
  h("li", { class: "between", "aria-current": user.id === state.user.id ? "true" : null },
    h("b", { class: "rank" }, number(rank)),
    h("span", { class: "grow" }, fanLink(user),
      h("small", {}, settled ? ` ${correct} of ${settled} right · ${exact} exact` : " no results yet")),
    movedBadge(moved),
    h("span", { class: "points" }, `${points} pts`));

/** A button that adds the next page of a table to its list. */
function moreButton(query, list, cursor) {
  return button("Show more", async (element) => {
    const { data, meta } = await get("/api/auth/leaderboards", { ...query, cursor });
    list.append(...data.map(standingsRow));
    cursor = meta.next_cursor;
    element.hidden = !cursor;
  });
}

const FORM = { exact: "4", difference: "3", outcome: "2", miss: "0", void: "–", late: "–" };

async function fan(id) {
  const [{ data }, { data: blocks }] = await Promise.all([get(`/api/auth/users/${id}`), get("/api/auth/blocks", { per_page: 100 })]);
  const isBlocked = blocks.some(({ user }) => user.id === data.id);
  return [
    h("a", { class: "back", href: beforeFan() }, "← Back"),
    h("h2", {}, data.username),
    profileCard(data),
    data.id !== state.user.id && button(isBlocked ? "Unblock this fan" : "Block this fan", async () => {
      const { message } = await post(`/api/auth/users/${data.id}/${isBlocked ? "unblock" : "block"}`);
      showNotice(message);
      await render();
    }),
  ];
}

/** What everybody can see of a fan. */
function profileCard({ name, primary_team: team, record, form, ranks, member_since }) {
  const rank = (place) => place == null ? "–" : number(place);
  return h("section", { class: "card", "aria-label": "Public profile" },
    name && h("p", {}, h("b", {}, name)),
    h("p", { class: "hint" }, `A fan since ${dateFormat.format(new Date(member_since))}`),
    team && h("p", { class: "team" }, crest(team, 24), team.name),
    h("p", { class: "hint" }, "All fans, all matches:"),
    h("dl", { class: "figures" },
      [["Points", record.points], ["Right results", record.settled ? `${record.correct} of ${record.settled}` : "–"],
        ["Place, all time", rank(ranks.all)], ["Place, season", rank(ranks.season)], ["Place, month", rank(ranks.month)]]
        .map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, number(value))))),
    form.length > 0 && h("p", {}, "Latest points: ", form.map((reason) => h("span", { class: `form ${reason}`, title: WHY[reason] },
      h("span", { "aria-hidden": "true" }, FORM[reason]), h("span", { class: "hidden" }, `${WHY[reason]}, `)))));
}

// Rooms

const LEAGUES = { all: "all matches", match: "one match", tournament: "one tournament" };
const roomPath = (id) => `/api/auth/chat-rooms/${encodeURIComponent(id)}`;

async function joinRoom(id) {
  try {
    await post(`${roomPath(id)}/join`);
    showNotice("You joined the room.");
  } catch (error) {
    if (error.code !== "already_a_member") throw error;
  }
}

async function rooms() {
  const [{ data: joined }, { data: open }, { data: events }] = await Promise.all([
    get("/api/auth/chat-rooms", { joined: true, per_page: 50 }), get("/api/auth/chat-rooms", { per_page: 50 }), get("/api/events", { per_page: 100 }),
  ]);
  const found = h("ul", { class: "list" });
  const showFound = (list, search) => found.replaceChildren(...(list.length > 0 ? list.toSorted((a, b) => b.member_count - a.member_count).map(roomRow)
    : [h("li", { class: "hint" }, search ? `No room matches “${search}”.` : "No other rooms yet.")]));
  showFound(open.filter(({ is_joined }) => !is_joined));
  return [
    h("h2", {}, "Rooms"),
    h("section", { class: "day" }, h("h3", {}, "My rooms"),
      joined.length > 0 ? h("ul", { class: "list" }, joined.map(roomRow)) : h("p", { class: "hint" }, "You have not joined a room yet. A room is a league: its members have a table of their own.")),
    h("form", {
      class: "inline",
      onsubmit: handler(async (form) => {
        const { data, message } = await post(`/api/auth/invite-links/${encodeURIComponent(form.invite.value.trim())}/accept`);
        showNotice(message);
        await go(encodeURI(`room/${data.room_id}`));
      }),
    }, h("label", { for: "invite" }, "Invite code"), h("input", { id: "invite", name: "invite", required: true, autocomplete: "off" }), h("button", {}, "Join")),
    newRoomForm(events),
    h("section", { class: "day" }, h("h3", {}, "Find rooms"),
      searchInput("room-search", "Name of a room", async (search) => {
        const { data } = await get("/api/auth/chat-rooms", { per_page: 50, search });
        return () => showFound(data.filter(({ is_joined }) => search || !is_joined), search);
      }),
      found),
  ];
}

/** A search field. `load` gets the text and returns a function that shows what it found. */
function searchInput(id, label, load) {
  let timer;
  let latest = 0;
  const search = async (text) => {
    const current = (latest += 1);
    const draw = await load(text);
    if (current === latest) draw();
  };
  return [h("label", { for: id }, label), h("input", {
    id, type: "search",
    oninput: ({ target }) => {
      clearTimeout(timer);
      timer = setTimeout(() => search(target.value.trim()).catch((error) => showNotice(error.message, true)), 200);
    },
  })];
}

const roomRow = (room) => h("li", {}, h("a", { class: "card room", href: `#${encodeURI(`room/${room.room_id}`)}` },
  h("b", {}, room.name),
  h("small", {}, `${room.is_official ? "The match’s own room · " : ""}${count(room.member_count, "member")} · table for ${LEAGUES[room.league]}`),
  room.topic && h("small", {}, room.topic)));

/** The form offers the matches of the next days and their tournaments. */
function newRoomForm(list) {
  // A room of a tournament is created with one of its matches: the next.
  const tournaments = new Map(list.toReversed().map((match) => [match.tournament.name, match]));
  return h("details", { class: "card" }, h("summary", {}, "Create a room"),
    h("form", {
      onsubmit: handler(async (form) => {
        const [league, event] = form.league.value.split(" ");
        const { data, message } = await post("/api/auth/chat-room", {
          name: form.name.value, league, is_private: form.private.checked, ...(event && { event_id: Number(event) }),
        });
        showNotice(message);
        await go(encodeURI(`room/${data.room_id}`));
      }),
    },
      h("label", { for: "room-name" }, "Name"), h("input", { id: "room-name", name: "name", required: true, maxlength: 100 }),
      h("label", { for: "league" }, "Which matches count in its table?"),
      h("select", { id: "league", name: "league" },
        h("option", { value: "all" }, "All matches"),
        [...tournaments].map(([name, { id }]) => h("option", { value: `tournament ${id}` }, `All matches of ${name}`)),
        byDay(list).map(([day, matches]) => h("optgroup", { label: `One match · ${day}` }, matches.map(({ id, home_team, away_team, start_time }) =>
          h("option", { value: `match ${id}` }, `${home_team.name} – ${away_team.name}, ${clockFormat.format(new Date(start_time))}`))))),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "private" }), "Private: only invited fans can join"),
      h("button", { class: "primary" }, "Create the room")));
}

async function room(id, signal) {
  const { data: found } = await get(roomPath(id));
  const query = { scope: "room", id, period: "all" };
  const [{ data: stats }, { data: rows, meta }, picked] = await Promise.all([
    get(`${roomPath(id)}/member-stats`),
    get("/api/auth/leaderboards", { ...query, per_page: 10 }),
    found.event ? get(`${roomPath(id)}/predictions`, { per_page: 10 }) : null,
  ]);
  const event = found.event && await get(`/api/auth/events/${found.event.id}`).then(({ data }) => data, () => null);
  const list = h("ol", { class: "list standings" }, rows.map(standingsRow));
  const fans = supporters(stats.team_distribution, event);
  return [
    back("rooms"),
    h("h2", {}, found.name),
    h("p", { class: "hint" }, [count(stats.total_members, "member"), `table for ${found.league === "tournament" && event ? event.tournament.name : LEAGUES[found.league]}`, found.topic].filter(Boolean).join(" · ")),
    event && h("h3", {}, found.league === "match" ? "The match of this room" : `A match of ${event.tournament.name}`),
    event && h("a", { class: "card match", href: `#match/${event.id}` }, h("b", {}, `${event.home_team.name} – ${event.away_team.name}`),
      h("span", { class: "score" }, event.status === "scheduled" ? timeFormat.format(new Date(event.start_time)) : scoreText(event))),
    found.is_joined ? state.chat && chatCard(found, signal) : button("Join this room", async () => { await joinRoom(id); await render(); }, { class: "primary" }),
    h("section", { class: "card", "aria-labelledby": "room-table" }, h("h3", { id: "room-table" }, "Table of the room"),
      rows.length > 0 ? list : h("p", { class: "hint" }, "The table is being built. Check back in a minute."),
      meta.next_cursor && moreButton({ ...query, per_page: 50 }, list, meta.next_cursor)),
    found.is_joined && !state.chat && h("p", { class: "hint" }, "Chat is off: this stack has no Matrix homeserver. docs/chat.md shows how to connect one."),
    picked && event && h("section", { class: "card", "aria-labelledby": "room-picks" }, h("h3", { id: "room-picks" }, "Who picked what"),
      h("p", { class: "hint" }, `${event.home_team.name} – ${event.away_team.name}`),
      picked.data.length > 0 ? h("ul", { class: "list rows" }, bestFirst(picked.data).map((row) => h("li", { class: "between", "aria-current": row.user.id === state.user.id ? "true" : null },
        h("span", {}, fanLink(row.user), h("small", {}, ` ${pickText(row, event)} · ${row.confidence}% sure`)),
        pointsBadge(row.points_earned))))
        : h("p", { class: "hint" }, "No member has predicted this match yet.")),
    fans && h("p", { class: "hint" }, `Supporters: ${fans}`),
    found.is_joined && inviteCard(id),
    found.is_joined && button("Leave this room", async () => {
      if (found.is_encrypted && !confirm(`Leave ${found.name}? It is private: you need a new invitation to come back.`)) return;
      const { message } = await post(`${roomPath(id)}/leave`);
      showNotice(message ?? "You left the room.");
      await go("rooms");
    }),
  ];
}

/** Says how many members of a room support which team: `4 for Göteholm IF, 34 for neither`. */
function supporters(distribution, event) {
  if (!event || !distribution) return null;
  const key = ({ name }) => name.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().replace(/[^a-z0-9]+/g, "_");
  const teams = [event.home_team, event.away_team];
  // Some letters have other keys than these.
  if (!teams.every((team) => key(team) in distribution)) return null;
  if (teams.every((team) => distribution[key(team)] === 0)) return null;
  const sides = teams.map((team) => `${distribution[key(team)]} for ${team.name}`);
  return [...sides, `${distribution.neutral} for neither`].join(", ");
}

function inviteCard(id) {
  const shown = h("div", { role: "status" });
  return h("section", { class: "card", "aria-labelledby": "invites" }, h("h3", { id: "invites" }, "Invite friends"),
    h("p", { class: "hint" }, "Anyone who enters this code under Rooms joins this room."),
    h("div", { class: "chips" },
      button("Get a code", async (element) => {
        const { data } = await post(`${roomPath(id)}/invite-link`);
        element.hidden = true;
        shown.replaceChildren(
          h("p", { class: "big code", id: "invite-code" }, data.code),
          h("p", { class: "hint" }, `Valid until ${dateFormat.format(new Date(data.expires_at))}`),
          h("div", { class: "chips" },
            // A browser lets a page copy only over HTTPS or from localhost.
            navigator.clipboard && copyButton(data.code),
            button("Revoke the code", async () => {
              const { message } = await call("DELETE", `${roomPath(id)}/invite-link`);
              shown.replaceChildren();
              element.hidden = false;
              showNotice(message);
            })));
      })),
    shown);
}

const copyButton = (code) => button("Copy the code", async () => {
  await navigator.clipboard.writeText(code);
  showNotice("Code copied. Send it to a friend.");
});

// Chat: the app talks to the homeserver itself, as the fan. Touchline only tells it where.

async function matrix(method, path, body, signal) {
  const { homeserver_url, access_token } = state.chat;
  const response = await fetch(`${homeserver_url.replace(/\/$/, "")}/_matrix/client/v3/${path}`, {
    method, signal, body: body && JSON.stringify(body), headers: { authorization: `Bearer ${access_token}` },
  });
  const json = await response.json();
  if (!response.ok) throw new Error(`The homeserver rejected the request: ${json.error}`);
  return json;
}

function chatCard(room, signal) {
  const card = (...children) => h("section", { class: "card", "aria-labelledby": "chat" }, h("h3", { id: "chat" }, "Messages"), ...children);
  if (room.is_encrypted) return card(h("p", { class: "hint" }, "Messages in private rooms are end-to-end encrypted. Read them with a Matrix client."));
  const list = h("ol", { class: "list messages", "aria-live": "polite", tabindex: 0 }, h("li", { class: "hint" }, "No messages yet."));
  watchMessages(room.room_id, list, signal);
  return card(list, h("form", {
    class: "inline",
    onsubmit: handler(async (form) => {
      const path = `rooms/${encodeURIComponent(room.room_id)}/send/m.room.message/${newReferenceId()}`;
      await matrix("PUT", path, { msgtype: "m.text", body: form.message.value });
      form.reset();
    }),
  }, h("label", { for: "message" }, "Message"), h("input", { id: "message", name: "message", required: true, autocomplete: "off" }), h("button", {}, "Send")));
}

/** Shows the messages of a room, and waits for new ones while its screen is shown. After an error, it tries again. */
async function watchMessages(id, list, signal) {
  const filter = JSON.stringify({ room: { rooms: [id], timeline: { limit: 30, types: ["m.room.message"] } }, presence: { types: [] } });
  let since;
  let pause = 1000;
  while (!signal.aborted) {
    const query = new URLSearchParams({ filter, timeout: since ? 25_000 : 0, ...(since && { since }) });
    const sync = await matrix("GET", `sync?${query}`, null, signal).catch((error) => error);
    if (signal.aborted) return;
    if (sync instanceof Error) {
      if (pause === 1000) showNotice(`Messages cannot be loaded: ${sync.message}`, true);
      await new Promise((resolve) => { setTimeout(resolve, pause); });
      pause = Math.min(30_000, 2 * pause);
      continue;
    }
    pause = 1000;
    since = sync.next_batch;
    const messages = (sync.rooms?.join?.[id]?.timeline?.events ?? []).filter(({ content }) => content?.body);
    if (messages.length > 0) $(".hint", list)?.remove();
    list.append(...messages.map(({ sender, content, origin_server_ts }) => h("li", {},
      h("small", {}, `${sender.replace(/^@|:.*$/g, "")} · ${clockFormat.format(new Date(origin_server_ts))}`), h("br"), content.body)));
    list.scrollTop = list.scrollHeight;
  }
}

// Coins

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

/** The balance and the streak that the screen showed last. A higher one counts up from there. */
let shownCoins = { balance: 0, streak_days: 0 };

async function coins(_, signal) {
  const { data } = await get("/api/auth/coins");
  const before = shownCoins;
  shownCoins = data;
  const isReady = Date.parse(data.next_claim_at) <= Date.now();
  if (!isReady) {
    const timer = setTimeout(renderSafely, Date.parse(data.next_claim_at) - Date.now() + 500);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }
  return [
    h("h2", {}, "Coins"),
    h("section", { class: "card", "aria-label": "Balance" },
      h("p", { class: "big" }, countUp(data.balance, (value) => count(value, "coin"), before.balance)),
      h("p", {}, countUp(data.streak_days, (value) => `Streak: ${count(value, "day")}`, before.streak_days)),
      h("ol", { class: "streak", "aria-hidden": "true" }, Array.from({ length: 7 }, (_, day) =>
        h("li", { class: day < (data.streak_days % 7 || Math.min(data.streak_days, 7)) ? "done" : "" }))),
      h("p", { class: "hint" }, "Claim on consecutive days to get more coins, up to a maximum. ", isReady ? "Today's bonus is ready." : ["Next bonus ", countdownTo(new Date(data.next_claim_at)), "."])),
    button(isReady ? "Claim today's coins" : "Claimed for today", async () => {
      const { data: claimed } = await post("/api/auth/daily-coins");
      showNotice(`You received ${claimed.coins_awarded} coins for day ${claimed.streak_days} of your streak.`);
      await render();
    }, { class: "primary", disabled: !isReady }),
    h("p", { class: "hint" }, "An app can charge coins for gifts, purchases and bets. Try it:"),
    button("Spend 5 coins on a gift", async () => {
      const { data: spent } = await post("/api/auth/coins/deduct", { amount: 5, reason: "gift", reference_id: newReferenceId() });
      showNotice(`You spent 5 coins. ${spent.new_balance} left.`);
      await render();
    }, { disabled: data.balance < 5 }),
    h("section", { class: "card", "aria-label": "History" }, h("h3", {}, "History"),
      data.entries.length === 0 && h("p", { class: "hint" }, "No entries yet."),
      h("ul", { class: "list rows" }, data.entries.map((entry) => h("li", { class: "between" },
        h("span", {}, entryText(entry), h("small", {}, ` ${timeFormat.format(new Date(entry.created_at))}`)),
        h("b", {}, `${entry.amount > 0 ? "+" : "−"}${Math.abs(entry.amount)}`))))),
  ];
}

// The fan's own profile, teams and account

async function me() {
  const [{ data }, { data: profile }] = await Promise.all([get("/api/auth/me"), get(`/api/auth/users/${state.user.id}`)]);
  return [
    h("h2", {}, data.username),
    profileCard(profile),
    h("section", { class: "card", "aria-label": "Teams" },
      h("h3", {}, "Teams"),
      h("p", {}, data.primary_team ? [crest(data.primary_team, 24), ` My team: ${data.primary_team.name}`] : "No team yet."),
      h("p", {}, data.other_teams.length ? `You follow ${data.other_teams.map((team) => team.name).join(", ")}.` : "You follow no other teams."),
      h("a", { class: "button", href: "#teams" }, "Choose teams")),
    h("section", { class: "card", "aria-label": "Only you see this" },
      h("h3", {}, "Only you see this"),
      h("p", {}, data.phone), h("p", {}, data.email ?? "No e-mail address."),
      h("a", { class: "button", href: "#account" }, "Account and privacy")),
    data.is_username_locked ? h("p", { class: "hint" }, "You have joined a room, so your username can no longer change.") : h("a", { class: "button", href: "#username" }, "Change my username"),
    button("Log out", async () => { await post("/api/auth/logout"); endSession("You are logged out."); }),
  ];
}

async function teams() {
  const [{ data: user }, { data: first }] = await Promise.all([get("/api/auth/me"), get("/api/auth/teams", { per_page: 30 })]);
  const others = new Set(user.other_teams.map(({ id }) => id));
  const list = h("ul", { class: "list" });
  const draw = (found, search) => {
    const again = () => draw(found, search);
    const rows = found.length > 0 ? found.map((team) => teamRow(team, again)) : [h("li", { class: "hint" }, `No team matches “${search}”.`)];
    keepFocus(list, () => list.replaceChildren(...rows));
  };
  const teamRow = (team, again) => h("li", { class: "card between" },
    h("span", { class: "team" }, crest(team, 30), h("span", {}, h("b", {}, team.name), h("small", {}, [team.sport.name, team.country].filter(Boolean).join(" · ")))),
    h("span", { class: "chips" },
      button([user.primary_team?.id === team.id ? "My team ✓" : "Make my team", h("span", { class: "hidden" }, ` ${team.name}`)], async () => {
        const { message } = await post("/api/auth/teams/primary", { team_id: team.id });
        user.primary_team = team;
        showNotice(message);
        again();
      }, { "aria-pressed": String(user.primary_team?.id === team.id), id: `mine-${team.id}` }),
      button([others.has(team.id) ? "Following" : "Follow", h("span", { class: "hidden" }, ` ${team.name}`)], async () => {
        const chosen = new Set(others);
        if (!chosen.delete(team.id)) chosen.add(team.id);
        await post("/api/auth/teams/other", { team_ids: [...chosen] });
        others.clear();
        chosen.forEach((id) => others.add(id));
        showNotice(chosen.has(team.id) ? `You follow ${team.name}.` : `You no longer follow ${team.name}.`);
        again();
      }, { "aria-pressed": String(others.has(team.id)), id: `follow-${team.id}` })));
  draw(first);
  return [
    back("me"),
    h("h2", {}, "Teams"),
    searchInput("search", "Search", async (search) => {
      const { data } = await get("/api/auth/teams", { per_page: 30, search });
      return () => draw(data, search);
    }),
    list,
  ].flat();
}

/** Names a day in the middle of a sentence. */
const sinceDay = (time) => dayName(time).replace(/^(Today|Yesterday)$/, (word) => word.toLowerCase());

async function account() {
  const [{ data: sessions }, { data: blocks }] = await Promise.all([get("/api/auth/sessions"), get("/api/auth/blocks", { per_page: 100 })]);
  return [
    back("me"),
    h("h2", {}, "Account and privacy"),
    h("section", { class: "card", "aria-labelledby": "sessions" }, h("h3", { id: "sessions" }, "Where you are logged in"),
      h("ul", { class: "list rows" }, sessions.map((session) => h("li", { class: "between" },
        h("span", {}, session.device_name ?? "Unnamed device", h("small", {}, ` since ${sinceDay(new Date(session.created_at))}, ${clockFormat.format(new Date(session.created_at))}`)),
        session.current ? h("small", {}, "this page") : button("Log out there", async () => {
          const { message } = await post(`/api/auth/sessions/${session.id}/revoke`);
          showNotice(message ?? "That session has ended.");
          await render();
        }))))),
    h("section", { class: "card", "aria-labelledby": "blocks" }, h("h3", { id: "blocks" }, "Blocked fans"),
      blocks.length === 0 && h("p", { class: "hint" }, "You have not blocked anyone. To block a fan, open their profile from a table."),
      h("ul", { class: "list rows" }, blocks.map(({ user }) => h("li", { class: "between" }, user.username,
        button(["Unblock", h("span", { class: "hidden" }, ` ${user.username}`)], async () => {
          const { message } = await post(`/api/auth/users/${user.id}/unblock`);
          showNotice(message);
          await render();
        }))))),
    h("section", { class: "card", "aria-labelledby": "data" }, h("h3", { id: "data" }, "Your data"),
      h("p", { class: "hint" }, "Your profile, sessions, predictions, rooms, coins and reports, as one JSON file."),
      button("Download my data", async () => {
        const file = new Blob([JSON.stringify(await get("/api/auth/account/export"), null, 2)], { type: "application/json" });
        const link = h("a", { href: URL.createObjectURL(file), download: `touchline-${state.user.username}.json` });
        link.click();
        // Some browsers begin the download later.
        setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
        showNotice("Your data is in your downloads.");
      })),
    h("section", { class: "card", "aria-labelledby": "deletion" }, h("h3", { id: "deletion" }, "Delete my account"),
      h("p", { class: "hint" }, "Deletes your profile, sessions, messages, room memberships and blocks. Your picks and coin history stay, without your name. Nobody can use your username again. This cannot be undone. You confirm it with a code from a text message."),
      button("Send me the deletion code", async (element) => {
        await post("/api/auth/account/delete");
        showNotice("The code is in the SMS inbox.");
        element.replaceWith(deletionForm());
        $("#code").focus();
        $("#code").scrollIntoView({ block: "center" });
        document.dispatchEvent(new Event("shown"));
      }, { class: "danger" })),
  ];
}

const deletionForm = () => h("form", {
  "data-field": "code",
  onsubmit: handler(async (form) => {
    await post("/api/auth/account/delete/confirm", { code: form.code.value });
    useUp(form.code.value);
    endSession("Your account is deleted.");
  }),
}, h("label", { for: "code" }, "Code"), codeInput(state.user.phone), h("button", { class: "danger primary" }, "Delete my account for good"),
  newCodeButton("/api/auth/account/delete"),
  button("Keep my account", render));

$(".skip").addEventListener("click", (event) => { event.preventDefault(); $("#app").focus(); });
// While the page was not connected, it may have missed the end of a match.
document.addEventListener("connected", () => {
  if (plays.size === 0) return;
  plays.clear();
  renderSafely();
});

guideTo(state.token ? 1 : 0);
hideFinishedGuide();
if (state.token) {
  // Until the first screen is loaded, the page would show the login.
  $("#screen").replaceChildren();
  sendDraft().then(renderSafely);
} else {
  otherTabs.postMessage("");
  const phone = saved("code");
  if (phone) enterCode(phone);
  else prepareLogin();
}
showNotice(sessionStorage.getItem("notice") ?? "");
sessionStorage.removeItem("notice");
