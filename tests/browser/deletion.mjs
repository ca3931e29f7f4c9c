// Tests the page for deleting an account in a browser, at the width of a phone.
//   node deletion.mjs URL FOLDER
// URL is a local stack whose homeserver does not respond. Screenshots go into FOLDER.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [url, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const phone = "+447700900321";

const post = async (path, body, token) => {
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  return fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
};
const lastCode = async () => {
  const logs = await (await fetch(`${url}/api/logs/sms?phone=${encodeURIComponent(phone)}`)).json();
  return logs.data[0].code;
};

// A user of the service.
assert.equal((await post("/api/code/request", { phone })).status, 200);
const login = await (await post("/api/code/verify", { phone, code: await lastCode() })).json();
assert.equal(login.data.matrix_credentials, null, "the homeserver is down");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({ viewport: { width: 360, height: 740 }, colorScheme: "light", locale: "en-GB" });
const page = await context.newPage();
page.setDefaultTimeout(60_000);
const errors = [];
const foreign = new Set();
page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
page.on("pageerror", (error) => errors.push(String(error)));
page.on("request", (request) => { if (!request.url().startsWith(url)) foreign.add(request.url()); });
const screenshot = (name) => page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
const problem = (text) => page.getByRole("alert").filter({ hasText: text }).waitFor();
let currentStep = "";
const step = (title) => { currentStep = title; console.log(`  ${title}`); };

try {
  step("the page says what is deleted, and fits the width of a phone");
  await page.goto(`${url}/account/delete`);
  await page.getByRole("heading", { name: "Delete your Touchline account" }).waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 360, `${width} pixels`);
  await screenshot("deletion-1-phone");

  step("a number without a country code is rejected, with the reason");
  await page.getByLabel("Phone number").fill("07700 900321");
  await page.keyboard.press("Enter");
  await problem("Include the country code");

  step("a code is sent to the number");
  await page.getByLabel("Phone number").fill(phone);
  await page.getByRole("button", { name: "Send me a code" }).click();
  await page.getByLabel("Code").waitFor();

  step("a wrong code deletes nothing");
  const code = await lastCode();
  await page.getByLabel("Code").fill(code === "000000" ? "000001" : "000000");
  await page.getByRole("button", { name: "Delete my account" }).click();
  await problem("The code is wrong or has expired");
  await screenshot("deletion-2-wrong-code");
  const me = await fetch(`${url}/api/auth/me`, { headers: { authorization: `Bearer ${login.data.token}` } });
  assert.equal(me.status, 200);

  step("the right code deletes the account, although the homeserver is down");
  await page.getByLabel("Code").fill(code);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Your account is deleted" }).waitFor();
  await screenshot("deletion-3-done");
  const gone = await fetch(`${url}/api/auth/me`, { headers: { authorization: `Bearer ${login.data.token}` } });
  assert.equal(gone.status, 401);

  step("a number without an account is told so after the right code");
  await page.goto(`${url}/account/delete`);
  await page.getByLabel("Phone number").fill(phone);
  await page.keyboard.press("Enter");
  await page.getByLabel("Code").waitFor();
  await page.getByLabel("Code").fill(await lastCode());
  await page.keyboard.press("Enter");
  await problem("No account has this phone number");

  step("the page works in dark colours, and sends no request elsewhere");
  await page.emulateMedia({ colorScheme: "dark" });
  await screenshot("deletion-4-dark");
  assert.deepEqual([...foreign], []);
  // The browser reports the rejected requests of the steps above as errors.
  assert.deepEqual(errors.filter((error) => !error.includes("Failed to load resource")), []);
} catch (error) {
  await screenshot("deletion-failed").catch(() => {});
  console.error(`Failed: ${currentStep}`);
  throw error;
} finally {
  await browser.close();
}
