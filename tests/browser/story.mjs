// Tests the matchday console in a browser. One fan logs in, predicts a match and gets points.
//   node story.mjs URL FOLDER
// URL is a new local stack. Screenshots go into FOLDER.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [url, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", locale: "en-GB", timezoneId: "UTC" });
const page = await context.newPage();
page.setDefaultTimeout(15_000);

const app = page.locator("#app");
const tools = page.locator(".dev");
const consoleErrors = [];
const foreignRequests = new Set();
page.on("console", (message) => { if (message.type() === "error") consoleErrors.push(message.text()); });
page.on("pageerror", (error) => consoleErrors.push(String(error)));
page.on("request", (request) => { if (!request.url().startsWith(url) && !request.url().startsWith("data:")) foreignRequests.add(request.url()); });

const screenshot = (name) => page.screenshot({ path: join(folder, `${name}.png`) });
const notice = (text) => page.locator("#notice").filter({ hasText: text }).waitFor();
const tab = (name) => page.getByRole("navigation", { name: "Sections of the app" }).getByRole("button", { name, exact: true }).click();
let currentStep = "";
const step = (title) => { currentStep = title; console.log(`  ${title}`); };

try {
  step("the page is small, and is usable as soon as the HTML is parsed");
  await page.goto(url, { waitUntil: "domcontentloaded" });
  assert.ok(await app.getByRole("button", { name: "Send me a code" }).isVisible());
  await page.waitForLoadState("load");
  const { bytes, paint } = await page.evaluate(() => ({
    bytes: performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
      .filter((entry) => !entry.name.includes("/api/")).reduce((sum, entry) => sum + entry.decodedBodySize, 0),
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  }));
  console.log(`    ${(bytes / 1000).toFixed(1)} kB, first contentful paint after ${Math.round(paint)} ms`);
  assert.ok(bytes > 10_000 && bytes < 200_000, `${bytes} bytes`);

  step("the login form works with the keyboard alone");
  await app.getByLabel("Phone number").focus();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("+44 7700 900456");
  await page.keyboard.press("Enter");
  await notice("Your code is in the SMS inbox");

  step("the code appears in the inbox, and a wrong code is rejected");
  const code = await page.locator("#inbox b").first().textContent();
  assert.match(code, /^\d{6}$/);
  await screenshot("1-code");
  await app.getByLabel("Code", { exact: true }).fill(code === "000000" ? "000001" : "000000");
  await app.getByRole("button", { name: "Log in" }).click();
  await notice("The code is wrong or has expired");
  await tools.getByRole("button", { name: `Use the code ${code}` }).click();

  step("the user chooses a username; a reserved one is not available");
  await app.getByRole("heading", { name: "Choose a username" }).waitFor();
  await app.getByLabel("Username").fill("admin");
  await app.getByText("admin is not available").waitFor();
  await app.getByLabel("Username").fill("corner_flag");
  await app.getByText("corner_flag is available").waitFor();
  await app.getByRole("button", { name: "Save username" }).click();
  await notice("Your username is corner_flag");
  assert.equal(await tools.getByRole("button", { name: "Use" }).count(), 0, "nothing to use a code for");

  step("matches are listed by status");
  await app.getByRole("button", { name: "Live", exact: true }).click();
  await app.getByRole("button", { name: "Live", pressed: true }).waitFor();
  await app.locator(".match").first().waitFor();
  await app.getByRole("button", { name: "Upcoming", exact: true }).click();
  await app.getByRole("button", { name: "Upcoming", pressed: true }).waitFor();
  // The first match may start during the test, so use the second.
  await app.locator(".match").nth(1).click();

  step("the user predicts with score and confidence; a score that contradicts the pick is rejected");
  await app.getByRole("button", { name: "Predict", exact: true }).waitFor();
  await page.locator(".picks label").first().click();
  await app.getByLabel("Home", { exact: true }).first().fill("0");
  await app.getByRole("button", { name: "Predict", exact: true }).click();
  await notice("Enter the goals of both teams, or of none");
  await app.getByLabel("Away", { exact: true }).first().fill("3");
  await app.getByRole("button", { name: "Predict", exact: true }).click();
  await notice("0–3 is an away win, but you picked");
  await app.getByLabel("Home", { exact: true }).first().fill("2");
  await app.getByLabel("Away", { exact: true }).first().fill("1");
  await app.getByLabel("How sure are you?").focus();
  for (let press = 0; press < 6; press += 1) await page.keyboard.press("ArrowRight");
  await app.getByRole("button", { name: "Predict", exact: true }).click();
  await app.getByRole("button", { name: "Change my prediction" }).waitFor();
  assert.equal(await page.locator("#confidence").inputValue(), "80");

  step("predictions of other fans change the shares");
  await tools.getByRole("button", { name: "Add 12 fans" }).click();
  await app.getByText("13 predictions").waitFor({ timeout: 60_000 });
  const shares = await page.locator(".bars dd:not(.track)").allTextContents();
  assert.deepEqual(shares, ["54 %", "15 %", "31 %"], "shares of 7, 2 and 4 predictions out of 13");

  step("the user joins the match's chat room");
  await app.getByRole("button", { name: "Join the chat room" }).click();
  await app.getByText("You are in the chat room of this match · 1 member").waitFor();
  await screenshot("2-match");

  step("the user claims coins once, spends some and sees the history");
  await tab("Coins");
  await app.getByRole("button", { name: "Claim today's coins" }).click();
  await app.getByText("10 coins", { exact: true }).waitFor();
  await app.getByText("Streak: 1 day").waitFor();
  assert.ok(await app.getByRole("button", { name: "Claim today's coins" }).isDisabled());
  await app.getByText("Next bonus:").waitFor();
  await app.getByRole("button", { name: "Give away 5 coins" }).click();
  await app.getByText("5 coins", { exact: true }).waitFor();
  assert.equal(await app.getByRole("region", { name: "History" }).getByRole("listitem").count(), 2);

  step("the user searches for teams, makes one their own team and follows another");
  await tab("Teams");
  await app.getByLabel("Search").fill("nobody plays here");
  await app.getByText("No team matches “nobody plays here”.").waitFor();
  await app.getByLabel("Search").fill("goteholm");
  await app.getByRole("button", { name: "My team: Göteholm IF" }).click();
  await app.getByRole("button", { name: "My team: Göteholm IF", pressed: true }).waitFor();
  await app.getByLabel("Search").fill("herons");
  await app.getByRole("button", { name: "Follow Lakeside Herons" }).click();
  await app.getByRole("button", { name: "Follow Lakeside Herons", pressed: true }).waitFor();
  await tab("Profile");
  await app.getByText("Team: Göteholm IF").waitFor();
  await app.getByText("Follows Lakeside Herons").waitFor();

  step("the buttons of the match controls start the match, add goals and finish the match");
  await tab("My picks");
  await app.locator(".match").first().click();
  await app.getByRole("button", { name: "Change my prediction" }).waitFor();
  await tools.getByRole("button", { name: "Kick off" }).click();
  await notice("Predictions are closed");
  for (const goal of ["Home scores", "Away scores", "Home scores"]) {
    await tools.getByRole("button", { name: goal }).click();
    await page.waitForFunction(() => !document.querySelector("#controls").inert);
  }
  assert.equal(await page.locator(".versus .score").textContent(), "2 : 1");
  await tools.getByRole("button", { name: "Finish" }).click();
  await notice("Full time");
  // A finished match cannot begin again.
  for (const control of ["Kick off", "Home scores", "Away scores", "Finish", "Add 12 fans"]) {
    assert.ok(await tools.getByRole("button", { name: control }).isDisabled(), control);
  }

  step("the user gets 4 points");
  await tools.getByRole("button", { name: "Calculate points" }).click();
  await notice("Points calculated for 13 predictions");
  assert.equal(await page.locator("#outcome .points").textContent(), "4 points");
  await screenshot("3-points");

  step("the table ranks the fans, everywhere and in the room of the match");
  await tab("Table");
  // The local stack builds leaderboards every minute. The test does not wait for it.
  await page.waitForFunction(async () => {
    await fetch("/2015-03-31/functions/standings/invocations", { method: "POST", body: "{}" });
    const token = sessionStorage.getItem("token");
    const board = await fetch("/api/auth/leaderboards", { headers: { authorization: `Bearer ${token}` } });
    return (await board.json()).meta.total === 13;
  }, null, { polling: 1000, timeout: 60_000 });
  await app.getByRole("button", { name: "Month", exact: true }).click();
  await app.locator(".standings li").nth(12).waitFor();
  const own = app.locator(".standings li[aria-current]");
  assert.match(await own.textContent(), /^1corner_flag 1 of 1 right · 1 exact4 pts$/);
  await app.getByRole("button", { name: "Around me", exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll(".standings li").length === 6);
  await screenshot("6-table");
  const rooms = await app.locator("#scope optgroup[label='My rooms'] option").allTextContents();
  assert.equal(rooms.length, 1);
  await app.getByLabel("Who and which matches").selectOption({ label: rooms[0] });
  await app.getByText("1 fan · as of").waitFor();
  assert.match(await own.textContent(), /^1corner_flag 1 of 1 right · 1 exact/);
  await tab("My picks");
  await app.locator(".match").first().click();
  await page.locator("#outcome").waitFor();

  step("a corrected result changes the points");
  const form = page.locator("form[data-do=correct]");
  await form.getByLabel("Home").fill("1");
  await form.getByLabel("Away").fill("1");
  await form.getByRole("button", { name: "Correct the result" }).click();
  await notice("Result corrected to 1 : 1");
  await tools.getByRole("button", { name: "Calculate points" }).click();
  await notice("Points calculated for 13 predictions");
  assert.equal(await page.locator("#outcome .points").textContent(), "0 points");

  step("the traffic panel lists every request with its DynamoDB calls and capacity units");
  const rows = page.locator("#traffic li");
  assert.ok(await rows.count() > 50);
  const predicted = page.locator("#traffic summary", { hasText: "/api/auth/predictions" }).filter({ hasText: "201" }).last();
  assert.match(await predicted.textContent(), /\d+ calls · 1 RCU · 2 WCU/);
  await predicted.click();
  const calls = await page.locator("#traffic details[open]").getByLabel("DynamoDB calls").innerText();
  const callList = calls.split("\n");
  assert.ok(callList.includes("UpdateItem touchline-predictions"), calls);
  assert.match(await predicted.textContent(), new RegExp(`${callList.length} calls`), calls);

  step("the page works in dark mode and at phone width");
  await page.getByRole("button", { name: "Switch between light and dark" }).click();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.reload();
  await app.locator(".match").first().waitFor();
  await screenshot("4-phone-dark");
  const overflows = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.ok(!overflows, "the page is wider than the screen");
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(background, "rgb(14, 20, 18)", "the dark background");
  await page.getByRole("button", { name: "Developer tools" }).click();
  await page.getByRole("heading", { name: "Match controls" }).waitFor();
  assert.ok(!(await app.isVisible()));

  step("the API explorer uses the console's login");
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.goto(`${url}/docs`);
  await page.locator("#operations-profile-me").click();
  await page.getByRole("button", { name: "Execute" }).click();
  await page.locator(".live-responses-table .response-col_status", { hasText: "200" }).waitFor();
  await screenshot("5-explorer");

  assert.deepEqual([...foreignRequests], [], "the page sends requests to this host only");
  // Chromium logs every error response. This test causes two on purpose.
  const expectedErrors = /Failed to load resource: the server responded with a status of (401|422)/;
  assert.deepEqual(consoleErrors.filter((text) => !expectedErrors.test(text)), []);
  assert.equal(consoleErrors.length, 2, consoleErrors.join("\n"));
  console.log("  all steps passed");
} catch (error) {
  await screenshot("failed").catch(() => {});
  console.error(`Failed in the step: ${currentStep}`);
  throw error;
} finally {
  await browser.close();
}
